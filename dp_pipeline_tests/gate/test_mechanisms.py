"""The primitives: the scale they ask for, the ε or ρ they cost, what they draw and refuse."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate import samplers
from dp_pipeline.gate.mechanisms import (
    MAX_LINF_SIZE,
    choice_scale,
    choose,
    choose_exponential,
    exponential_scale,
    gaussian_variance,
    laplace_scale,
    linf_scale,
    measure,
    measure_gaussian,
    measure_linf,
    refine,
)
from dp_pipeline.gate.noise import NoiseSource, SeededNoise
from dp_pipeline.results.accountant import LINF, Spend
from dp_pipeline_tests.gate.distributions import (
    ALARM,
    SOURCES,
    by_source,
    exponential_probabilities,
    fit,
    noisy_max_probabilities,
    permute_and_flip_probabilities,
)
from dp_pipeline_tests.instruments import ForcedNoise, RecordingNoise

ONE = Fraction(1)

reaches = st.integers(1, 2**40)
epsilons = st.fractions(min_value=Fraction(1, 10**9), max_value=10**6)


@settings(max_examples=50)
@given(distance=reaches, epsilon=epsilons, before=epsilons)
def test_the_scale_is_the_exact_rational(distance, epsilon, before):
    noise, counts, drawn_at = RecordingNoise(ForcedNoise(1)), np.array([1]), distance / before * 2
    measure(counts, l1=distance, epsilon=epsilon, noise=noise)
    choose(counts, linf=distance, epsilon=epsilon, noise=noise)
    measure_linf(counts[: int(distance / epsilon)], linf=distance, epsilon=epsilon, noise=noise)
    refined = {"before": before, "scale": drawn_at, "epsilon": epsilon}
    refine(counts, counts, l1=distance, noise=noise, **refined)
    paid = distance / epsilon
    finer = distance / (before + epsilon)
    added = drawn_at * finer / (drawn_at - finer)
    assert [draw.scale for draw in noise.draws] == [paid, 2 * paid, paid, added]
    assert paid == laplace_scale(l1=distance, epsilon=epsilon)
    assert paid == linf_scale(linf=distance, epsilon=epsilon)
    assert 2 * paid == choice_scale(linf=distance, epsilon=epsilon)


@settings(max_examples=50)
@given(distance=reaches, rho=epsilons)
def test_the_variance_is_exact_and_the_scale_near_its_root(distance: int, rho: Fraction) -> None:
    noise = RecordingNoise(ForcedNoise(1))
    measure_gaussian(np.array([1]), l2_squared=distance, rho=rho, noise=noise)
    choose_exponential(np.array([1]), linf=distance, rho=rho, noise=noise)
    variance, scale = (draw.scale for draw in noise.draws)
    assert variance == gaussian_variance(l2_squared=distance, rho=rho) == distance / (2 * rho)
    assert scale == exponential_scale(linf=distance, rho=rho)
    assert rho * (1 - Fraction(2, 10**9)) < distance**2 / (2 * scale**2) <= rho


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_every_integer_type_is_measured_as_int64(dtype: type) -> None:
    noisy = measure(np.array([100, 7], dtype), l1=1, epsilon=Fraction(10**6), noise=SeededNoise(1))
    assert noisy.dtype == np.int64
    assert noisy.tolist() == [100, 7]


NEIGHBOURS = [
    (scores, tuple(score + move for score, move in zip(scores, moves, strict=True)))
    for scores in itertools.product(range(4), repeat=3)
    for moves in itertools.product((-1, 0, 1), repeat=3)
]


def worst_choice(probabilities, scale: float) -> float:
    """The largest |log P(i) / P'(i)| over score vectors that differ by at most 1 everywhere."""
    known = {scores: probabilities(scores, scale) for scores in set(itertools.chain(*NEIGHBOURS))}
    return max(
        abs(math.log(p / q))
        for scores, other in NEIGHBOURS
        for p, q in zip(known[scores], known[other], strict=True)
    )


@pytest.mark.parametrize("probabilities", [noisy_max_probabilities, permute_and_flip_probabilities])
def test_a_choice_costs_at_most_its_epsilon_by_enumeration(probabilities) -> None:
    scale = float(choice_scale(linf=1, epsilon=ONE))
    assert 0.8 < worst_choice(probabilities, scale) <= 1 + 1e-9
    # A mutant: without the factor two.
    assert worst_choice(probabilities, scale / 2) > 1.5


def test_the_bound_of_a_choice_is_reached() -> None:
    scale = float(choice_scale(linf=1, epsilon=ONE))
    here, there = (noisy_max_probabilities(scores, scale)[0] for scores in [(1, 9), (0, 10)])
    assert math.isclose(here / there, math.e, rel_tol=1e-9)


def log_chance(answer: tuple[int, ...], exact: tuple[int, ...], scale: Fraction) -> Fraction:
    """log P(answer), up to the constant that all answers share; exact."""
    return -sum((abs(a - c) for a, c in zip(answer, exact, strict=True)), Fraction(0)) / scale


@pytest.mark.parametrize(("l1", "is_enough"), [(3, True), (2, False)])
def test_a_measure_costs_its_epsilon_exactly(l1: int, is_enough: bool) -> None:
    scale = laplace_scale(l1=l1, epsilon=Fraction(1, 7))
    exact, neighbour = (4, 4), (5, 2)
    losses = [
        log_chance(answer, exact, scale) - log_chance(answer, neighbour, scale)
        for answer in itertools.product(range(-3, 12), repeat=2)
    ]
    assert (max(losses) == Fraction(1, 7)) == is_enough
    assert (max(losses) <= Fraction(1, 7)) == is_enough


ORDERS = (1.001, 1.5, 2.0, 8.0, 60.0)


def renyi(p: NDArray[np.float64], q: NDArray[np.float64], order: float) -> float:
    """The Rényi divergence of p from q, for p and q that are ∝ exp of the arrays."""
    log_p = p - np.logaddexp.reduce(p)
    log_q = q - np.logaddexp.reduce(q)
    return float(np.logaddexp.reduce(order * log_p + (1 - order) * log_q) / (order - 1))


def worst_rho_of_choices(scale: float) -> float:
    """The largest divergence / order over score vectors that differ by at most 1 everywhere."""
    return max(
        renyi(np.array(scores) / scale, np.array(other) / scale, order) / order
        for scores, other in NEIGHBOURS
        for order in ORDERS
    )


@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(1, 8), Fraction(1)])
def test_an_exponential_choice_costs_at_most_its_rho(rho: Fraction) -> None:
    scale = exponential_scale(linf=1, rho=rho)
    worst = worst_rho_of_choices(float(scale))
    assert worst <= float(rho) + 1e-9
    assert worst_rho_of_choices(float(scale) / 2) > 1.5 * float(rho)  # too little noise


@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(1, 8), Fraction(1)])
def test_losses_of_an_exponential_choice_lie_within_its_range(rho: Fraction) -> None:
    scale = float(exponential_scale(linf=1, rho=rho))
    ranges = []
    for scores, other in NEIGHBOURS:
        p, q = exponential_probabilities(scores, scale), exponential_probabilities(other, scale)
        losses = [math.log(a / b) for a, b in zip(p, q, strict=True)]
        ranges.append(max(losses) - min(losses))
    assert math.isclose(max(ranges), math.sqrt(8 * rho), rel_tol=1e-6)


@pytest.mark.parametrize(("l2_squared", "is_enough"), [(5, True), (4, False)])
@pytest.mark.parametrize("rho", [Fraction(1, 50), Fraction(1, 2), Fraction(3)])
def test_a_gaussian_measure_costs_its_rho_exactly(l2_squared, is_enough, rho):
    sigma2 = float(gaussian_variance(l2_squared=l2_squared, rho=rho))
    exact, neighbour = (4, 4), (6, 3)
    support = np.arange(-2000, 2000)

    def log_of(count: int) -> NDArray[np.float64]:
        return -((support - count) ** 2) / (2 * sigma2)

    both = [(log_of(a), log_of(b)) for a, b in zip(exact, neighbour, strict=True)]
    worst = max(sum(renyi(*logs, order) for logs in both) / order for order in ORDERS)
    assert (worst <= float(rho) + 1e-9) == is_enough
    assert worst > 0.9 * float(rho)


NOT_INTEGERS = [
    np.array([4321.0]),
    np.array([4321.0], np.float32),
    np.array([True]),
    np.array([4321], object),
    np.array([4321 + 0j]),
    np.array(["4321"]),
    np.array([4321], "timedelta64[s]"),
    [4321],
    4321,
    None,
]
TOO_LARGE = np.array([2**63], np.uint64)

MECHANISMS = [
    (measure, "l1", "epsilon"),
    (measure_linf, "linf", "epsilon"),
    (choose, "linf", "epsilon"),
    (measure_gaussian, "l2_squared", "rho"),
    (choose_exponential, "linf", "rho"),
]
by_mechanism = pytest.mark.parametrize(("mechanism", "reach", "amount"), MECHANISMS)


@by_mechanism
@pytest.mark.parametrize("values", [*NOT_INTEGERS, TOO_LARGE], ids=lambda v: type(v).__name__)
def test_whatever_is_not_an_int64_array_is_refused(mechanism, reach, amount, values) -> None:
    with pytest.raises(BoundaryViolation, match="must") as refused:
        mechanism(values, **{reach: 1, amount: ONE}, noise=ForcedNoise(1))
    assert "4321" not in str(refused.value)


@by_mechanism
@pytest.mark.parametrize("distance", [0, -1, 1.0, True, Fraction(1), np.int64(1), None])
def test_a_reach_that_is_not_a_positive_int_is_refused(mechanism, reach, amount, distance) -> None:
    with pytest.raises(BoundaryViolation, match=f"{reach} must be an integer"):
        mechanism(np.array([1]), **{reach: distance, amount: ONE}, noise=ForcedNoise(1))


@by_mechanism
@pytest.mark.parametrize("price", [0.5, 1, Fraction(0), Fraction(-1), math.inf, "1", None])
def test_a_price_that_is_not_a_positive_fraction_is_refused(mechanism, reach, amount, price):
    with pytest.raises(BoundaryViolation, match=f"{amount} must be a positive Fraction"):
        mechanism(np.array([1]), **{reach: 1, amount: price}, noise=ForcedNoise(1))


@pytest.mark.parametrize(
    ("mechanism", "amount"), [(choose, "epsilon"), (choose_exponential, "rho")]
)
@pytest.mark.parametrize("shape", [(0,), (2, 2), ()], ids=str)
def test_a_choice_is_among_a_vector_of_at_least_one(mechanism, amount, shape) -> None:
    with pytest.raises(BoundaryViolation, match="must be a vector of one or more numbers"):
        mechanism(np.zeros(shape, np.int64), linf=1, **{amount: ONE}, noise=ForcedNoise(1))


@by_source
def test_a_scale_beyond_2_to_the_55_is_refused(source) -> None:
    with pytest.raises(BoundaryViolation, match="at most 2\\^55"):
        measure(np.zeros(0, np.int64), l1=2**36, epsilon=Fraction(1, 10**6), noise=source)
    with pytest.raises(BoundaryViolation, match="at most 2\\^110"):
        measure_gaussian(np.zeros(0, np.int64), l2_squared=2**112, rho=ONE, noise=source)
    with pytest.raises(BoundaryViolation, match="at most 2\\^55"):
        choose_exponential(np.zeros(1, np.int64), linf=2**56, rho=ONE, noise=source)


def linf_noise(source: NoiseSource, size: int, scale: Fraction, times: int) -> np.ndarray:
    """Noise (times, size) of the mechanism: Δ∞ = 3, so ε = 3 / scale."""
    empty, epsilon = np.zeros(size, dtype=np.int64), 3 / scale
    answers = [measure_linf(empty, linf=3, epsilon=epsilon, noise=source) for _ in range(times)]
    return np.stack(answers)


def probability_of(vectors: np.ndarray, scale: Fraction) -> float:
    """The p-value of Pearson's test that vectors (times, size) have P ∝ exp(−max |z| / scale)."""
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
    assert probability_of(linf_noise(source, size, scale, 1200), scale) > ALARM


@pytest.mark.chain
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(7, 3)])
def test_of_one_number_it_is_the_discrete_laplace(scale: Fraction) -> None:
    assert fit(linf_noise(SeededNoise(3), 1, scale, 4000).ravel(), scale) > ALARM


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


def radius_of_one(size, scale, uniform):
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


@pytest.mark.parametrize("mutant", [radius_of_one, always_kept, one_too_few])
def test_a_wrong_sampler_of_linf_noise_is_caught(mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dp_pipeline.gate.samplers.linf_noise", mutant)
    assert probability_of(linf_noise(SeededNoise(6), 2, Fraction(1), 1200), Fraction(1)) < ALARM


@by_source
def test_nothing_is_nothing_and_ends_are_cut(source: NoiseSource) -> None:
    assert source.discrete_linf(np.zeros(0, np.int64), Fraction(1)).shape == (0,)
    ends = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min])
    assert source.discrete_linf(ends, Fraction(1 << 40)).dtype == np.int64


def test_the_radius_may_be_larger_than_64_bits() -> None:
    noise = linf_noise(SeededNoise(7), 2000, Fraction(1 << 55), 1)
    assert np.abs(noise).max() == np.iinfo(np.int64).max


def test_a_spend_states_the_cost_of_its_scale() -> None:
    scale = linf_scale(linf=3, epsilon=Fraction(1, 2))
    spend = Spend("scores together", LINF, Fraction(1, 2), 3, scale)
    assert (scale, spend.epsilon_of_scale) == (6, Fraction(1, 2))


@pytest.mark.parametrize("shape", [(2, 2), (MAX_LINF_SIZE + 1,)], ids=["table", "few radii kept"])
def test_numbers_without_a_proof_for_linf_noise_are_refused(shape) -> None:
    with pytest.raises(BoundaryViolation):
        measure_linf(np.zeros(shape, np.int64), linf=1, epsilon=ONE, noise=SOURCES[2])
