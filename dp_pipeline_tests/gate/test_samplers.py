"""The samplers: each has its distribution, to the last bit, and a wrong one is caught."""

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from dp_pipeline.gate import samplers
from dp_pipeline.gate.mechanisms import linf_query
from dp_pipeline.gate.noise import NoiseSource, SeededNoise
from dp_pipeline.gate.samplers import (
    UniformIntegers,
    bernoulli_exp_of_any,
    geometric_noise,
    saturating_sum,
)
from dp_pipeline_tests.gate.distributions import (
    ADDED,
    ALARM,
    CHOICES,
    INT64,
    SCALES,
    SOURCES,
    by_source,
    draws,
    exponential_probabilities,
    fit,
    fit_of_choices,
    gaussian_cdf,
    geometric_cdf,
    laplace_cdf,
    noisy_max_probabilities,
    permute_and_flip_probabilities,
)

OURS = SOURCES[1:]
by_our_source = pytest.mark.parametrize("source", OURS, ids=lambda source: source.name)

LAPLACE, GAUSSIAN = ADDED
EXPONENTIAL = CHOICES[1]
CDFS = {LAPLACE: laplace_cdf, GAUSSIAN: gaussian_cdf}
VARIANCES = [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(100), Fraction(1000**2)]
by_size = pytest.mark.parametrize(
    ("kind", "size"),
    [(LAPLACE, size) for size in SCALES] + [(GAUSSIAN, size) for size in VARIANCES],
)


def uniform_of(seed: int) -> UniformIntegers:
    return UniformIntegers(np.random.default_rng(seed).bytes)


@by_size
@by_source
def test_noise_has_its_distribution(source: NoiseSource, kind: str, size: Fraction) -> None:
    many = 200_000 if source in OURS else 30_000
    assert fit(draws(source, many, size, kind), size, CDFS[kind]) > ALARM


ABOVE, BELOW = Fraction(7, 3) + Fraction(1, 10**30), Fraction(1, 2) - Fraction(1, 10**30)
"""Python integers."""


@pytest.mark.parametrize(
    ("kind", "size", "nearly"),
    [
        (LAPLACE, Fraction(10**7 + 1, 10**6), Fraction(10)),  # 32-bit words
        (LAPLACE, Fraction(10**16 + 1, 10**15), Fraction(10)),  # 64-bit words
        (GAUSSIAN, Fraction(5 * 10**8, 123_457), Fraction(5 * 10**8, 123_457)),  # squares pass them
        *((kind, Fraction(2**61 + 1, 2**58), Fraction(8)) for kind in ADDED),  # U + n·V passes them
        *((kind, ABOVE, Fraction(7, 3)) for kind in ADDED),
        *((kind, BELOW, Fraction(1, 2)) for kind in ADDED),
    ],
    ids=str,
)
def test_sizes_of_many_digits_give_the_same_distribution(kind, size, nearly):
    assert fit(draws(SeededNoise(3), 40_000, size, kind), nearly, CDFS[kind]) > ALARM


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_noise_of_noisy_max_is_the_one_sided_geometric(scale: Fraction) -> None:
    assert fit(geometric_noise(200_000, scale, uniform_of(5)), scale, geometric_cdf) > ALARM


@pytest.mark.parametrize("bound", [2, 3, 6, 7, 255, 256])
def test_every_integer_below_a_bound_has_equally_many_words(bound: int) -> None:
    every_word = np.arange(2**16, dtype=np.uint16).tobytes()
    drawn = UniformIntegers(lambda _: every_word)._attempt(bound, 2**16)
    assert set(np.bincount(drawn, minlength=bound)) == {2**16 // bound}


@settings(max_examples=100)
@given(bound=st.integers(1, 2**80), size=st.integers(0, 40), seed=st.integers(0, 99))
def test_uniform_integers_stay_below_any_bound(bound: int, size: int, seed: int) -> None:
    drawn = uniform_of(seed).below(bound, size)
    assert drawn.shape == (size,)
    assert all(0 <= int(number) < bound for number in drawn)


CANDIDATES = (5, 7, 7, 4)


def chosen(source, scores, scale, kind="noisy_max") -> NDArray[np.int64]:
    """How often each candidate is chosen in 3000 calls."""
    picks = [getattr(source, kind)(np.array(scores), scale) for _ in range(3000)]
    return np.bincount(picks, minlength=len(scores))


@by_source
def test_noisy_max_chooses_with_the_enumerated_probabilities(source: NoiseSource) -> None:
    law = noisy_max_probabilities if source in OURS else permute_and_flip_probabilities
    chances = law(CANDIDATES, 3.0)
    assert math.isclose(sum(chances), 1.0, abs_tol=1e-12)
    assert fit_of_choices(chosen(source, CANDIDATES, Fraction(3)), chances) > ALARM


LAST_BITS = ((INT64.min, INT64.max, INT64.max - 5), Fraction(10))
SCORED = [
    (CANDIDATES, Fraction(3)),
    (CANDIDATES, Fraction(1)),
    ((-3, 0), Fraction(7, 3)),
    (CANDIDATES, Fraction(3) + Fraction(1, 10**30)),  # Python integers
    ((7 * 10**12, 5 * 10**12), Fraction(3 * 10**12 + 1, 1)),
    LAST_BITS,
    ((0, 2**56), Fraction(2**55)),
]
# Our two sources share a sampler, and OpenDP tests its own: what it is handed is asked elsewhere.
CASES = [(SOURCES[2], *choice) for choice in SCORED]
CASES += [(source, *choice) for source in SOURCES[:2] for choice in (SCORED[1], LAST_BITS)]


@pytest.mark.parametrize(
    ("source", "scores", "scale"), CASES, ids=lambda value: getattr(value, "name", str(value))
)
def test_a_choice_has_the_exact_probabilities(source, scores, scale):
    chances = np.array(exponential_probabilities(tuple(map(int, scores)), float(scale)))
    counts = chosen(source, scores, scale, EXPONENTIAL)
    possible = chances * counts.sum() > 1e-6
    assert counts[~possible].sum() == 0
    assert fit_of_choices(counts[possible], list(chances[possible])) > ALARM


@by_our_source
def test_a_candidate_of_more_than_a_batch_has_its_probability(source: NoiseSource) -> None:
    scores = np.zeros(6001, np.int64)
    scores[4321] = 8700  # about as likely as the other 6,000 together
    picks = np.array([source.exponential_choice(scores, Fraction(1000)) for _ in range(400)])
    odds = math.exp(8.7) / 6000
    likely, others = int((picks == 4321).sum()), picks[picks != 4321]
    assert stats.binomtest(likely, 400, odds / (1 + odds)).pvalue > ALARM
    assert stats.binomtest(int((others < 3000).sum()), others.size, 0.5).pvalue > ALARM


def test_a_choice_among_100_000_candidates_is_fast() -> None:
    scores = np.arange(10**5) * 10**9
    assert SeededNoise(1).exponential_choice(scores, Fraction(10**12 + 39, 10**7 + 19)) == 99_999


def test_noise_too_large_for_int64_is_cut_only_after_the_sum() -> None:
    noise = np.array([2**63 + 5, -(2**70), 2**70], object)
    counts = np.array([-10, 0, 0])
    assert saturating_sum(counts, noise).tolist() == [2**63 - 5, INT64.min, INT64.max]


@pytest.mark.parametrize(
    ("draw", "size", "dtype", "unit", "law"),
    [
        (samplers.laplace_noise, 2**70, object, 2**60, (Fraction(2**10), laplace_cdf)),
        (samplers.gaussian_noise, 2**100, np.int64, 2**40, (Fraction(2**20), gaussian_cdf)),
        (samplers.gaussian_noise, 2**140, object, 2**60, (Fraction(2**20), gaussian_cdf)),
    ],
)
def test_draws_of_any_size_stay_exact(draw, size: int, dtype: type, unit: int, law) -> None:
    drawn = draw(4000, Fraction(size), uniform_of(8))
    assert drawn.dtype == dtype
    assert fit((drawn // unit).astype(np.int64), *law) > ALARM


def linf_noise(source: NoiseSource, size: int, scale: Fraction, times: int) -> np.ndarray:
    """Noise (times, size) of the L∞ mechanism: Δ∞ = 3, so ε = 3 / scale."""
    empty, epsilon = np.zeros(size, dtype=np.int64), 3 / scale
    query = linf_query("numbers", linf=3, epsilon=epsilon)
    answers = [query.add_noise(empty, source) for _ in range(times)]
    return np.stack(answers)


def probability_of(vectors: np.ndarray, scale: Fraction) -> float:
    """The p-value of Pearson's test that vectors (times, size) have P ∝ exp(−max |z| / scale)."""
    times, size = vectors.shape
    shells = [(2 * r + 1) ** size - (2 * r - 1) ** size if r else 1 for r in range(400)]
    total = sum(many * math.exp(-r / scale) for r, many in enumerate(shells))
    counts = Counter(map(tuple, vectors.tolist()))
    expected, counted = [], []
    for place in product(range(-3, 4), repeat=size):
        chance = times * math.exp(-max(map(abs, place)) / scale) / total
        if chance >= 50:
            expected.append(chance)
            counted.append(counts[place])
    expected.append(times - sum(expected))
    counted.append(times - sum(counted))
    return float(stats.chisquare(counted, expected).pvalue)


@by_source
@pytest.mark.parametrize(
    ("size", "scale"), [(1, Fraction(7, 3)), (2, Fraction(1)), (3, Fraction(1, 2))]
)
def test_every_vector_has_its_probability(source: NoiseSource, size: int, scale: Fraction) -> None:
    assert probability_of(linf_noise(source, size, scale, 1200), scale) > ALARM


def test_the_radius_is_that_of_many_numbers() -> None:
    # 40 numbers at a scale of 30, where about half of the radii are kept.
    size, scale, times = 40, Fraction(30), 400
    radii = np.abs(linf_noise(SeededNoise(4), size, scale, times)).max(axis=1)
    r = np.arange(20_000)
    weights = np.diff((2.0 * r + 1) ** size, prepend=0.0) * np.exp(-r / 30)
    cumulated = np.cumsum(weights) / weights.sum()
    # Uniform where the distribution is right: the numbers are spread within each step.
    spread = np.random.default_rng(0).random(times)
    below = np.where(radii > 0, cumulated[radii - 1], 0.0)
    places = below + spread * (cumulated[radii] - below)
    assert stats.kstest(places, "uniform").pvalue > ALARM


@by_source
def test_linf_noise_of_nothing_is_nothing_and_ends_are_cut(source: NoiseSource) -> None:
    assert source.discrete_linf(np.zeros(0, np.int64), Fraction(1)).shape == (0,)
    ends = np.array([INT64.max, INT64.min])
    noisy = source.discrete_linf(ends, Fraction(1 << 40))
    assert (noisy.dtype, noisy[0] > 0, noisy[1] < 0) == (np.int64, True, True)


def test_the_radius_may_be_larger_than_64_bits() -> None:
    noise = linf_noise(SeededNoise(7), 2000, Fraction(1 << 55), 1)
    assert np.abs(noise).max() == INT64.max


SIZE = 100_000


def p_of_coins(x: Fraction) -> float:
    """The p-value of SIZE coins against exp(−x)."""
    small = max(x.numerator, x.denominator) < 2**63
    part = np.full(SIZE, x.numerator, np.int64 if small else object)
    came_true = int(bernoulli_exp_of_any(part, x.denominator, uniform_of(1)).sum())
    return float(stats.binomtest(came_true, SIZE, math.exp(-x)).pvalue)


@pytest.mark.parametrize("x", [*map(Fraction, ("0", "1/3", "1", "7/3", "5")), ABOVE], ids=str)
def test_a_coin_falls_true_with_probability_exp_of_minus_x(x: Fraction) -> None:
    assert p_of_coins(x) > ALARM


def test_each_coin_has_its_own_exponent() -> None:
    part = np.arange(10**5) % 5
    came_true = bernoulli_exp_of_any(part, 2, uniform_of(2))
    for place in range(5):
        mine = came_true[part == place]
        assert stats.binomtest(int(mine.sum()), mine.size, math.exp(-place / 2)).pvalue > ALARM


@pytest.mark.parametrize("part", [np.full(1000, 2**62), np.full(1000, 10**400, object)])
def test_an_astronomical_exponent_is_false_at_once(part) -> None:
    assert not bernoulli_exp_of_any(part, 1, uniform_of(3)).any()
    assert bernoulli_exp_of_any(part[:0], 1, uniform_of(3)).shape == (0,)
