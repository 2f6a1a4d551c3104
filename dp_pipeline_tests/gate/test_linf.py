"""The discrete L∞ mechanism: the right distribution, the right price, the right refusals."""

from collections import Counter
from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest
from scipy import stats

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate import samplers
from dp_pipeline.gate.mechanisms import MAX_LINF_SIZE, linf_scale, measure_linf
from dp_pipeline.gate.noise import NoiseSource, SeededNoise
from dp_pipeline.results.accountant import LINF, Spend
from dp_pipeline_tests.gate.distributions import ALARM, SOURCES, by_source, fit


def drawn(source: NoiseSource, size: int, scale: Fraction, times: int) -> np.ndarray:
    """Noise (times, size) of the mechanism: Δ∞ = 3, so ε = 3 / scale."""
    empty, epsilon = np.zeros(size, dtype=np.int64), 3 / scale
    answers = [measure_linf(empty, linf=3, epsilon=epsilon, noise=source) for _ in range(times)]
    return np.stack(answers)


def probability_of(vectors: np.ndarray, scale: Fraction) -> float:
    """The p-value of Pearson's test that vectors (times, size) have P(z) ∝ exp(−max |z| / scale):
    a bin for each vector that is likely enough, and one for all others.
    """
    times, size = vectors.shape
    shells = [(2 * r + 1) ** size - (2 * r - 1) ** size if r else 1 for r in range(400)]
    total = sum(many * exp(-r / scale) for r, many in enumerate(shells))
    counts = Counter(map(tuple, vectors.tolist()))
    expected, counted = [], []
    for place in product(range(-3, 4), repeat=size):
        chance = times * exp(-max(map(abs, place)) / scale) / total
        if chance >= 50:
            expected.append(chance)
            counted.append(counts[place])
    expected.append(times - sum(expected))
    counted.append(times - sum(counted))
    return float(stats.chisquare(counted, expected).pvalue)


@by_source
@pytest.mark.parametrize(("size", "scale"), [(2, Fraction(1)), (3, Fraction(1, 2))])
def test_every_vector_has_its_probability(source: NoiseSource, size: int, scale: Fraction) -> None:
    assert probability_of(drawn(source, size, scale, 1200), scale) > ALARM


@pytest.mark.chain
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(7, 3)])
def test_of_one_number_it_is_the_discrete_laplace(scale: Fraction) -> None:
    assert fit(drawn(SeededNoise(3), 1, scale, 4000).ravel(), scale) > ALARM


def test_the_radius_is_that_of_many_numbers() -> None:
    # 40 numbers at a scale of 30, where about half of the radii are kept.
    size, scale, times = 40, Fraction(30), 400
    radii = np.abs(drawn(SeededNoise(4), size, scale, times)).max(axis=1)
    r = np.arange(20_000)
    weights = np.diff((2.0 * r + 1) ** size, prepend=0.0) * np.exp(-r / 30)
    cumulated = np.cumsum(weights) / weights.sum()
    # Uniform where the distribution is right: the numbers are spread within each step.
    spread = np.random.default_rng(0).random(times)
    below = np.where(radii > 0, cumulated[radii - 1], 0.0)
    places = below + spread * (cumulated[radii] - below)
    assert stats.kstest(places, "uniform").pvalue > ALARM


def uniform_radius(size, scale, uniform):
    """A mutant: the radius is that of one number."""
    radius = int(samplers.geometric_noise(1, scale, uniform)[0])
    return uniform.below(2 * radius + 1, size).astype(np.int64) - radius


def always_kept(size, scale, uniform):
    """A mutant: no proposed radius is refused."""
    radius = sum(samplers.geometric_noise(size + 1, scale, uniform).tolist())
    return uniform.below(2 * radius + 1, size).astype(np.int64) - radius


def one_too_few(size, scale, uniform):
    """A mutant: a sum of as many geometric numbers as there are numbers."""
    while True:
        radius = sum(samplers.geometric_noise(size, scale, uniform).tolist())
        bound = 1
        for i in range(1, size + 1):
            bound *= 2 * radius + 2 * i
        if int(uniform.below(bound, 1)[0]) < (2 * radius + 1) ** size:
            return uniform.below(2 * radius + 1, size).astype(np.int64) - radius


@pytest.mark.parametrize("mutant", [uniform_radius, always_kept, one_too_few])
def test_a_wrong_sampler_is_caught(mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dp_pipeline.gate.samplers.linf_noise", mutant)
    assert probability_of(drawn(SeededNoise(6), 2, Fraction(1), 1200), Fraction(1)) < ALARM


@by_source
def test_nothing_is_nothing_and_ends_are_cut(source: NoiseSource) -> None:
    assert source.discrete_linf(np.zeros(0, np.int64), Fraction(1)).shape == (0,)
    ends = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min])
    assert source.discrete_linf(ends, Fraction(1 << 40)).dtype == np.int64


def test_the_radius_may_be_larger_than_64_bits() -> None:
    noise = drawn(SeededNoise(7), 2000, Fraction(1 << 55), 1)
    assert np.abs(noise).max() == np.iinfo(np.int64).max


def test_a_spend_states_the_cost_of_its_scale() -> None:
    scale = linf_scale(linf=3, epsilon=Fraction(1, 2))
    spend = Spend("scores together", LINF, Fraction(1, 2), 3, scale)
    assert (scale, spend.epsilon_of_scale) == (6, Fraction(1, 2))


REFUSED = {
    "floats": lambda: measure_linf(np.zeros(2), linf=1, epsilon=Fraction(1), noise=SOURCES[2]),
    "a table": lambda: measure_linf(
        np.zeros((2, 2), np.int64), linf=1, epsilon=Fraction(1), noise=SOURCES[2]
    ),
    "no sensitivity": lambda: linf_scale(linf=0, epsilon=Fraction(1)),
    "no ε": lambda: linf_scale(linf=1, epsilon=Fraction(0)),
    "so many numbers for the noise that few radii are kept": lambda: measure_linf(
        np.zeros(MAX_LINF_SIZE + 1, np.int64), linf=1, epsilon=Fraction(1), noise=SOURCES[2]
    ),
}


@pytest.mark.parametrize("ask", REFUSED.values(), ids=REFUSED.keys())
def test_what_has_no_proof_is_refused(ask) -> None:
    with pytest.raises(BoundaryViolation):
        ask()
