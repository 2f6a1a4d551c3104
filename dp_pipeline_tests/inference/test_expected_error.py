"""Which tables are worth their noise: scores, dependence, the error of an amount, and packing."""

from collections.abc import Mapping
from itertools import combinations, pairwise, permutations
from math import prod, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.inference.dependence import Dependence
from dp_pipeline.inference.expected_error import ExpectedError
from dp_pipeline.inference.noisy_scores import CubeNoise, NoisyScores, NormalNoise, ScoreNoise
from dp_pipeline.inference.packing import pack_tables
from dp_pipeline.results.measurement import NoiseRate


def dependence(names: str, scores: dict[tuple[str, str], float], rows: float = 100.0) -> Dependence:
    return Dependence.of(names, scores, spread=dict.fromkeys(names, 0.5), rows=rows)


def of_bits(codes: np.ndarray) -> Dependence:
    """Of binary columns, their exact gaps."""
    rows, names = len(codes), [f"x{at}" for at in range(codes.shape[1])]
    gaps, shares = {}, codes.mean(axis=0)
    for i, j in combinations(range(len(names)), 2):
        both = np.bincount(2 * codes[:, i] + codes[:, j], minlength=4).reshape(2, 2)
        alone = np.outer([1 - shares[i], shares[i]], [1 - shares[j], shares[j]]) * rows
        gaps[names[i], names[j]] = float(np.abs(both - alone).sum())
    spread = {n: 1 - p**2 - (1 - p) ** 2 for n, p in zip(names, shares, strict=True)}
    return Dependence.of(names, gaps, spread=spread, rows=float(rows))


def chain(rows: int, many: int, *, follows: float) -> np.ndarray:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2, (rows, many))
    for at in range(1, many):
        same = rng.random(rows) < follows
        codes[same, at] = codes[same, at - 1]
    return codes


def test_the_strength_of_two_bits_is_their_correlation():
    codes = chain(4000, 3, follows=0.6)
    codes[:, 1] &= codes[:, 0]
    strengths = of_bits(codes).strengths
    correlations = np.abs(np.corrcoef(codes.T))
    assert strengths[0, 1] == pytest.approx(correlations[0, 1])
    assert strengths[1, 2] == pytest.approx(correlations[1, 2])


def test_a_chain_tells_its_ends_and_is_taken_at_its_word():
    depends = of_bits(chain(200_000, 6, follows=0.8))
    assert depends.explained > 0.9
    unexplained = depends.unexplained(depends.paths(pairwise(depends.names)))
    # Of the pairs of six attributes, that of the first and the last is the fifth.
    ends = depends.scores[0, 5]
    assert unexplained[4] < 0.2 * ends
    assert depends.unexplained(depends.paths([]))[4] == ends


def test_a_tree_says_the_product_of_its_strengths():
    gaps = {("a", "b"): 80.0, ("b", "c"): 60.0, ("a", "c"): 10.0, ("a", "d"): 90.0, ("c", "d"): 7.0}
    expected = {("a", "c"): 48.0, ("c", "d"): 43.2}
    assert dependence("abcd", gaps).predicted_by_tree == pytest.approx(
        expected
    )  # b and d are not known
    # A gap of more than its most is a strength of 1.
    clipped = dependence("abc", {("a", "b"): 300.0, ("b", "c"): 60.0, ("a", "c"): 10.0})
    assert clipped.strengths.max() == 1.0
    assert clipped.predicted_by_tree == pytest.approx({("a", "c"): 60.0})


def test_attributes_that_depend_otherwise_follow_no_path():
    # Every pair depends alike through something that is no attribute: products say too little.
    rng = np.random.default_rng(5)
    gaps = {(a, b): 500 + 100 * float(rng.random()) for a, b in combinations("abcdefgh", 2)}
    assert dependence("abcdefgh", gaps, 4000.0).explained < 0.3


def test_a_table_joins_the_paths_between_its_attributes():
    depends = dependence("stuvw", dict.fromkeys([tuple(p) for p in ("tw", "wu", "st", "uv")], 90.0))
    paths = depends.with_table(depends.paths([("t", "w"), ("w", "u")]), [0, 1, 2, 3])
    assert paths[0, 3] == pytest.approx(0.9**4)


def test_pairs_that_contradict_the_tree_are_explained_by_no_path():
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c"), ("b", "d"), ("a", "d")]
    scores = dict(zip(pairs, [80.0, 80.0, 80.0, 10.0, 12.0, 50.0], strict=True))
    assert dependence("abcd", scores).explained == 0.0


def test_where_too_little_is_known_nothing_is_guessed():
    gaps = dict.fromkeys(combinations("abcd", 2), 9.0)
    unknown = Dependence(tuple("abcd"), np.full((4, 4), 9.0), np.zeros((4, 4)))
    assert unknown.predicted_by_tree == {}
    assert unknown.unexplained(unknown.paths(gaps)).tolist() == [9.0] * 6
    assert dependence("abc", dict.fromkeys(combinations("abc", 2), 9.0), 90.0).explained == 0.5


@given(seed=st.integers(0, 10**6), many=st.integers(3, 6), data=st.data())
def test_a_table_more_is_the_same_as_all_its_pairs_at_once(seed: int, many: int, data):
    rng, names = np.random.default_rng(seed), "abcdef"[:many]
    pairs = list(combinations(names, 2))
    depends = dependence(names, {pair: float(rng.random()) for pair in pairs}, 1.0)
    before = data.draw(st.lists(st.sampled_from(pairs), unique=True))
    table = sorted(data.draw(st.sets(st.integers(0, many - 1), min_size=2, max_size=4)))
    inside = list(combinations([names[place] for place in table], 2))
    paths = depends.with_table(depends.paths(before), table)
    assert paths == pytest.approx(depends.paths([*before, *inside]))
    remaining = depends.unexplained(paths)
    assert (remaining <= depends.unexplained(depends.paths(before)) + 1e-12).all()


SIZES = {"a": 2, "b": 9, "c": 4, "d": 30}
EPSILON, RHO = NoiseRate(concentrated=False, distance=1), NoiseRate(concentrated=True, distance=1)
TABLES = [("a", "b"), ("b", "c", "d")]

both_rates = pytest.mark.parametrize("rate", [EPSILON, RHO], ids=["epsilon", "rho"])
both_weights = pytest.mark.parametrize("weighs", [False, True])


def model(
    rate: NoiseRate,
    *,
    unexplained: float = 40.0,
    paid: float = 0.01,
    weighs: bool = False,
    grouped: Mapping[str, int] = SIZES,
) -> ExpectedError:
    scores, weights = np.full((4, 4), unexplained), np.ones((4, 4))
    weights[0, 2] = weights[2, 0] = 7.0
    return ExpectedError(
        SIZES,
        grouped,
        dict.fromkeys(SIZES, paid),
        Dependence(tuple(SIZES), scores, np.zeros((4, 4))),
        rate,
        weights if weighs else None,
    )


def error_by_loops(expected: ExpectedError, tables, amounts) -> float:
    """Σ of all pairs' errors."""
    sizes, total = expected.sizes, 0.0
    names, paid = list(sizes), dict(expected.paid)
    cells = [np.prod([sizes[n] for n in table]) for table in tables]
    noise = [expected.rate.mean_noise(amount) ** 2 for amount in amounts[: len(tables)]]
    for name, amount in zip(names, amounts[len(tables) :], strict=True):
        paid[name] += amount
    known = {n: 1 / (sizes[n] * expected.rate.mean_noise(paid[n])) ** 2 for n in names}
    for place, table in enumerate(tables):
        for n in table:
            known[n] += 1 / (cells[place] * sizes[n] * noise[place])
    for i, j in combinations(range(len(names)), 2):
        a, b = names[i], names[j]
        errors = [
            cells[place] * (sizes[a] - 1) * (sizes[b] - 1) * noise[place]
            for place, table in enumerate(tables)
            if {a, b} <= set(table)
        ]
        left = min(errors, default=expected.dependence.scores[i, j] ** 2)
        weight = 1.0 if expected.weights is None else expected.weights[i, j]
        total += weight * np.sqrt(1 / known[a] + 1 / known[b] + left)
    return float(total)


@both_rates
@both_weights
@pytest.mark.parametrize("tables", [TABLES, []])
def test_error_is_that_of_what_is_measured(rate: NoiseRate, tables, *, weighs: bool):
    expected = model(rate, weighs=weighs)
    amounts = np.concatenate(expected.divide(tables, 0.9))
    assert expected.least_error(tables, 0.9) == pytest.approx(
        error_by_loops(expected, tables, amounts)
    )


@both_rates
@both_weights
def test_falls_are_the_derivative_of_the_error(rate: NoiseRate, *, weighs: bool):
    expected, amounts = model(rate, weighs=weighs), np.array([0.2, 0.3, 0.05, 0.1, 0.15, 0.2])
    total, slopes = float(amounts.sum()), []
    information = expected.information(TABLES)
    _, (falls,) = expected.errors_and_slopes(information, amounts[None] / total, total)
    for move in 1e-6 * np.eye(len(amounts)):
        more, less = (error_by_loops(expected, TABLES, amounts + s * move) for s in (1, -1))
        slopes.append(less - more)
    ratios = np.array(slopes) / falls
    assert ratios == pytest.approx(np.full(len(ratios), ratios[0]), rel=1e-4)


@both_rates
@both_weights
def test_no_move_of_amounts_gains(rate: NoiseRate, *, weighs: bool):
    expected = model(rate, weighs=weighs)
    amounts = np.concatenate(expected.divide(TABLES, 1.0))
    assert amounts.sum() == pytest.approx(1.0)
    least = error_by_loops(expected, TABLES, amounts)
    for giver, taker in permutations(range(len(amounts)), 2):
        moved, step = amounts.copy(), 0.1 * min(amounts[giver], amounts[taker])
        moved[giver] -= step
        moved[taker] += step
        assert error_by_loops(expected, TABLES, moved) > least * (1 - 1e-3)


def test_a_table_leaves_less_for_its_one_way_marginals():
    expected = model(EPSILON, paid=1e-3)
    _, alone = expected.divide([("c", "d")], 1.0)
    _, measured = expected.divide([("a", "b")], 1.0)
    assert measured[:2].sum() < alone[:2].sum()
    packed = [("a", "b"), ("c", "d")]
    of_tables, of_singles = model(EPSILON, paid=0.0).divide(packed, 0.7, singles=False)
    assert of_tables.sum() == pytest.approx(0.7)
    assert of_singles.tolist() == [0.0] * 4


def test_a_table_over_groups_says_no_one_way_marginal():
    expected = model(EPSILON, grouped={**SIZES, "d": 3})
    assert expected.information([("a", "d")]).precision.tolist() == [[[1 / 12, 0.0, 0.0, 0.0]]]


@both_rates
def test_numbers_of_tables_of_pairs_have_their_errors(rate: NoiseRate):
    expected = model(rate, unexplained=300.0)
    order = np.array([5, 0, 3, 1, 2, 4])
    pairs = [list(combinations(SIZES, 2))[place] for place in order]
    errors = [expected.least_error(pairs[:count], 2.0) for count in (0, 2, 6)]
    assert expected.errors_by_pair_count(order, [0, 2, 6], 2.0) == pytest.approx(errors, rel=0.01)


Tables = tuple[tuple[str, ...], ...]
LAPLACE = NoiseRate(concentrated=False, distance=1)


@st.composite
def problems(draw: st.DrawFn) -> dict:
    """Up to seven attributes."""
    names = [f"x{at}" for at in range(draw(st.integers(1, 7)))]
    sizes = {name: draw(st.sampled_from([2, 3, 8, 40])) for name in names}
    return {
        "sizes": sizes,
        "rate": NoiseRate(draw(st.booleans()), draw(st.integers(1, 3))),
        "most_cells": draw(st.sampled_from([4, 64, 256])),
    }


def error(tables: Tables, problem: dict) -> float:
    """A number that rises with the noise of all one-way marginals, for the same amount."""
    sizes = problem["sizes"]
    noise = [
        sum(sqrt(prod(sizes[name] for name in table) * sizes[attribute]) for attribute in table)
        for table in tables
    ]
    return sum(map(problem["rate"].relative_share, noise))


@given(problem=problems())
def test_tables_of_several_attributes_keep_to_the_cap(problem: dict):
    tables, order = pack_tables(**problem), list(problem["sizes"])
    assert sorted(name for table in tables for name in table) == sorted(order)
    for table in tables:
        assert list(table) == sorted(table, key=order.index)
        cells = prod(problem["sizes"][name] for name in table)
        assert len(table) == 1 or cells <= problem["most_cells"]


@given(problem=problems())
def test_packing_has_the_least_error_of_its_steps(problem: dict):
    tables, sizes = pack_tables(**problem), problem["sizes"]
    most = error(tables, problem) * (1 - 1e-9) - 1e-6
    assert most <= error(tuple((name,) for name in sizes), problem)
    for first, second in combinations(tables, 2):
        joined = tuple(name for name in sizes if name in first or name in second)
        if prod(sizes[name] for name in joined) <= problem["most_cells"]:
            rest = tuple(table for table in tables if table not in (first, second))
            assert most <= error((joined, *rest), problem)


def test_attributes_of_two_levels_share_tables():
    sizes = {"a": 2, "b": 2, "c": 30, "d": 40}
    tables = pack_tables(sizes, rate=LAPLACE, most_cells=10**4)
    assert tables == (("a", "b"), ("c",), ("d",))
    assert pack_tables(sizes, rate=LAPLACE, most_cells=3) == (("a",), ("b",), ("c",), ("d",))


def test_an_attribute_that_counts_more_is_in_a_smaller_table():
    sizes, weights = dict.fromkeys("abcde", 2), np.ones((5, 5))
    assert pack_tables(sizes, rate=LAPLACE, most_cells=256) == (("a", "b", "e"), ("c", "d"))
    weights[0] = weights[:, 0] = 1000.0
    weighed = pack_tables(sizes, rate=LAPLACE, most_cells=256, weights=weights)
    assert weighed == (("a", "b"), ("c", "d", "e"))


noisy_values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9).map(np.array)
MEANS = [30.0, 100.0, 300.0]


def cube(deviation: float) -> CubeNoise:
    return CubeNoise(60, deviation / CubeNoise(60, 1.0).variance ** 0.5)


both_noises = pytest.mark.parametrize("noise", [cube, NormalNoise], ids=["cube", "normal"])


def draw_noise(noise: ScoreNoise, rng: np.random.Generator, many: int) -> np.ndarray:
    if isinstance(noise, CubeNoise):
        radius = rng.gamma(noise.many + 1, noise.scale, many)
        return rng.uniform(-1, 1, many) * radius
    return rng.normal(0, noise.variance**0.5, many)


def scores_of(noisy: np.ndarray, noise: ScoreNoise, floor: float = 0.0) -> NoisyScores:
    return NoisyScores(noisy, np.full(len(noisy), floor), noise)


@given(noisy=noisy_values, deviation=st.floats(1e-3, 1e6), floor=st.floats(0, 1e6))
@both_noises
def test_scores_are_within_the_reach_of_noise(noise, noisy, deviation, floor):
    (expected, _), evidence = scores_of(noisy, noise(deviation), floor).expected(MEANS)
    assert np.isfinite(expected).all()
    assert np.isfinite(evidence)
    assert expected.min() >= 0
    assert (expected <= np.maximum(0.0, noisy + 6 * deviation) + 1e-6).all()


@both_noises
@pytest.mark.parametrize("deviation", [10.0, 100.0, 400.0])
def test_scores_are_nearer_than_noisy_ones_cut_at_zero(noise, deviation: float):
    # 2,000 scores of mean 100; a false alarm is less likely than 10⁻⁴.
    rng, noise = np.random.default_rng(8), noise(deviation)
    scores = rng.exponential(100.0, 2_000)
    noisy = scores + draw_noise(noise, rng, len(scores))
    (expected, squares), _ = scores_of(noisy, noise).expected(MEANS)
    assert np.square(expected - scores).mean() < np.square(np.maximum(0.0, noisy) - scores).mean()
    assert expected.mean() == pytest.approx(100.0, rel=0.4)
    assert squares.mean() == pytest.approx(2 * 100.0**2, rel=0.4)


@both_noises
def test_the_noise_of_one_way_marginals_is_taken_out(noise):
    # 20,000 scores; a false alarm is less likely than 10⁻⁹.
    rng, noise = np.random.default_rng(9), noise(29.0)
    scores = rng.exponential(100.0, 20_000)
    noisy = np.hypot(scores, 300.0) + draw_noise(noise, rng, len(scores))
    expected, with_it = (
        scores_of(noisy, noise, floor).expected(MEANS)[0][0] for floor in (300.0, 0.0)
    )
    assert expected.mean() == pytest.approx(100.0, rel=0.25)
    assert np.square(expected - scores).mean() < np.square(with_it - scores).mean() / 4


@both_noises
def test_a_score_far_above_the_mean_is_taken_as_measured(noise):
    (expected, squares), _ = scores_of(np.array([1e6, 0.0]), noise(20.0)).expected(MEANS)
    assert [expected[0], squares[0] ** 0.5] == pytest.approx([1e6, 1e6], abs=20)
    scores = NoisyScores(np.array([5.0, 6.0, 7.0]), np.array([1.0, 2.0, 3.0]), noise(1.0))
    some = scores.of(np.array([2, 0]))
    assert (some.noisy.tolist(), some.floor.tolist()) == ([7.0, 5.0], [3.0, 1.0])
    assert some.noise is scores.noise


def measured(scores: np.ndarray, noise: ScoreNoise, floor: float = 0.0) -> NoisyScores:
    rng = np.random.default_rng(7)
    return scores_of(np.hypot(scores, floor) + draw_noise(noise, rng, len(scores)), noise, floor)


@pytest.mark.parametrize("floor", [0.0, 200.0])
@both_noises
def test_scores_near_to_their_prediction_are_known_better(noise, floor: float):
    # 3,000 scores, off by .2 of the noise's deviation; a false alarm is less likely than 10⁻⁹.
    rng = np.random.default_rng(6)
    prediction = rng.exponential(1000.0, 3000)
    scores = np.maximum(0.0, prediction + rng.laplace(0, 50.0, len(prediction)))
    noisy = measured(scores, noise(346.0), floor)
    (near, _), likely = noisy.expected_near(prediction)
    (alone, _), unlikely = noisy.expected([1000.0])
    assert likely > unlikely
    assert np.square(near - scores).mean() < np.square(alone - scores).mean() / 8


@both_noises
def test_a_wrong_prediction_is_unlikely(noise):
    rng, noise = np.random.default_rng(6), noise(170.0)
    prediction = rng.exponential(1000.0, 2000)
    off = rng.laplace(0, 1000.0, len(prediction))
    for scores in (3 * prediction, 0.3 * prediction, np.abs(prediction + off)):
        noisy = measured(scores, noise)
        assert noisy.expected_near(prediction)[1] < noisy.expected([float(scores.mean())])[1]


@given(
    many=st.integers(1, 400), scale=st.floats(0.5, 50), far=st.sampled_from([0.1, 0.5, 0.9, 1.1])
)
def test_cube_noise_is_as_likely_as_its_density(many: int, scale: float, far: float):
    # 60,000 draws of a radius; a false alarm in 60 cases is less likely than 10⁻⁶.
    noise, rng = CubeNoise(many, scale), np.random.default_rng(3)
    radius = rng.gamma(many + 1, scale, 60_000)
    limit = far * scale * (many + 1)
    expected = np.where(radius > limit, 1 / radius, 0.0).mean() * scale * many
    assert float(noise.density(np.array([limit]))[0]) == pytest.approx(expected, abs=0.02)
    assert noise.variance == pytest.approx(float((radius**2).mean()) / 3, rel=0.05)
