"""The primitives: the scale they ask for, the ε or ρ they cost, what they draw and refuse."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.mechanisms import (
    MAX_LINF_SIZE,
    exponential_query,
    gaussian_query,
    gaussian_variance,
    laplace_query,
    laplace_scale,
    linf_query,
    noisy_max_query,
    refinement_query,
)
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline_tests.gate.distributions import (
    exponential_probabilities,
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
    refined = {"first": counts, "before": before, "scale": drawn_at, "epsilon": epsilon}
    queries = [
        laplace_query("counts", l1=distance, epsilon=epsilon),
        noisy_max_query("pair", linf=distance, epsilon=epsilon),
        refinement_query("counts", l1=distance, **refined),
        linf_query("scores", linf=distance, epsilon=epsilon),
    ]
    for query in queries[:3]:
        query.add_noise(counts, noise)
    queries[3].add_noise(counts[: int(distance / epsilon)], noise)
    paid = distance / epsilon
    finer = distance / (before + epsilon)
    added = drawn_at * finer / (drawn_at - finer)
    assert [draw.scale for draw in noise.draws] == [paid, 2 * paid, added, paid]
    assert [query.spend.scale for query in queries] == [paid, 2 * paid, paid, paid]
    assert {query.spend.epsilon for query in queries} == {epsilon}
    assert paid == laplace_scale(l1=distance, epsilon=epsilon)


@settings(max_examples=50)
@given(distance=reaches, rho=epsilons)
def test_the_variance_is_exact_and_the_scale_near_its_root(distance: int, rho: Fraction) -> None:
    noise = RecordingNoise(ForcedNoise(1))
    queries = [
        gaussian_query("counts", l2_squared=distance, rho=rho),
        exponential_query("pair", linf=distance, rho=rho),
    ]
    for query in queries:
        query.add_noise(np.array([1]), noise)
    variance, scale = (draw.scale for draw in noise.draws)
    assert variance == gaussian_variance(l2_squared=distance, rho=rho) == distance / (2 * rho)
    assert [query.spend.scale for query in queries] == [variance, scale]
    assert {(query.spend.epsilon, query.spend.currency) for query in queries} == {(rho, "zcdp")}
    assert rho * (1 - Fraction(2, 10**9)) < distance**2 / (2 * scale**2) <= rho


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_every_integer_type_is_measured_as_int64(dtype: type) -> None:
    query = laplace_query("counts", l1=1, epsilon=Fraction(10**6))
    noisy = query.add_noise(np.array([100, 7], dtype), SeededNoise(1))
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
    scale = float(noisy_max_query("pair", linf=1, epsilon=ONE).spend.scale)
    assert 0.8 < worst_choice(probabilities, scale) <= 1 + 1e-9
    # A mutant: without the factor two.
    assert worst_choice(probabilities, scale / 2) > 1.5


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
    scale = float(exponential_query("pair", linf=1, rho=rho).spend.scale)
    assert worst_rho_of_choices(scale) <= float(rho) + 1e-9
    assert worst_rho_of_choices(scale / 2) > 1.5 * float(rho)  # too little noise
    ranges = []
    for pair in NEIGHBOURS:
        p, q = (exponential_probabilities(scores, scale) for scores in pair)
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
    np.array([True]),
    np.array([4321], object),
    np.array([4321], "timedelta64[s]"),
    [4321],
    4321,
    None,
]
TOO_LARGE = np.array([2**63], np.uint64)

MECHANISMS = [
    (laplace_query, "l1", "epsilon"),
    (linf_query, "linf", "epsilon"),
    (noisy_max_query, "linf", "epsilon"),
    (gaussian_query, "l2_squared", "rho"),
    (exponential_query, "linf", "rho"),
]
by_mechanism = pytest.mark.parametrize(("mechanism", "reach", "amount"), MECHANISMS)


@by_mechanism
@pytest.mark.parametrize("values", [*NOT_INTEGERS, TOO_LARGE], ids=lambda v: type(v).__name__)
def test_whatever_is_not_an_int64_array_is_refused(mechanism, reach, amount, values) -> None:
    query = mechanism("numbers", **{reach: 1, amount: ONE})
    with pytest.raises(BoundaryViolation, match="must") as refused:
        query.add_noise(values, SeededNoise(1))
    assert "4321" not in str(refused.value)


@by_mechanism
@pytest.mark.parametrize("distance", [0, -1, 1.0, True, Fraction(1), np.int64(1), None])
def test_a_reach_that_is_not_a_positive_int_is_refused(mechanism, reach, amount, distance) -> None:
    with pytest.raises(BoundaryViolation, match=f"{reach} must be an integer"):
        mechanism("numbers", **{reach: distance, amount: ONE})


@by_mechanism
@pytest.mark.parametrize("price", [0.5, 1, Fraction(0), Fraction(-1), math.inf, "1", None])
def test_a_price_that_is_not_a_positive_fraction_is_refused(mechanism, reach, amount, price):
    with pytest.raises(BoundaryViolation, match=f"{amount} must be a positive Fraction"):
        mechanism("numbers", **{reach: 1, amount: price})


@pytest.mark.parametrize(
    ("mechanism", "amount"), [(noisy_max_query, "epsilon"), (exponential_query, "rho")]
)
@pytest.mark.parametrize("shape", [(0,), (2, 2), ()], ids=str)
def test_a_choice_is_among_a_vector_of_at_least_one(mechanism, amount, shape) -> None:
    query = mechanism("pair", linf=1, **{amount: ONE})
    with pytest.raises(BoundaryViolation, match="must be a vector of one or more numbers"):
        query.add_noise(np.zeros(shape, np.int64), SeededNoise(1))


@pytest.mark.parametrize("shape", [(2, 2), (MAX_LINF_SIZE + 1,)], ids=["table", "few radii kept"])
def test_numbers_without_a_proof_for_linf_noise_are_refused(shape) -> None:
    query = linf_query("scores", linf=1, epsilon=ONE)
    with pytest.raises(BoundaryViolation, match="takes a vector of at most 20 numbers"):
        query.add_noise(np.zeros(shape, np.int64), SeededNoise(1))
