"""Noisy tables made to agree: by averages, by least squares, and without negative cells."""

import itertools
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.encoding import Names
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.inference.clique_join import clique_counts
from dp_pipeline.inference.consistency import (
    TableEstimate,
    make_consistent,
    project_rows,
    project_to_simplex,
    reconcile_tables,
    ripple,
    shared_sets,
    spread,
    variance_of,
)
from dp_pipeline.inference.paired_rows import PairedRows
from dp_pipeline.inference.views import view_tables
from dp_pipeline.results.measurement import NoisyMarginal, marginal_of

SIZES = {"a": 2, "b": 3, "c": 2, "d": 1, "e": 2}


@st.composite
def noisy_tables(draw: st.DrawFn) -> dict[Names, np.ndarray]:
    """One to five tables over any of five attributes, cells of any sign."""
    some = st.lists(st.sampled_from(sorted(SIZES)), unique=True, max_size=4).map(tuple)
    cliques = draw(st.lists(some, min_size=1, max_size=5, unique_by=frozenset))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return {c: rng.normal(5, 20, [SIZES[name] for name in c]) for c in cliques}


@given(tables=noisy_tables(), seed=st.integers(0, 99))
def test_any_two_tables_agree_and_then_stay_as_they_are(tables: dict[Names, np.ndarray], seed: int):
    variances = dict(zip(tables, np.random.default_rng(seed).exponential(size=5), strict=False))
    for weights in (None, variances):
        agreed = make_consistent(tables, variances=weights)
        for (left, table), (right, other) in itertools.combinations(agreed.items(), 2):
            both = tuple(name for name in left if name in right)
            gap = marginal_of(table, left, both) - marginal_of(other, right, both)
            assert np.abs(gap).max() < 1e-9
        for names, table in make_consistent(agreed, variances=weights).items():
            assert np.allclose(table, agreed[names], atol=1e-9)


def test_the_worked_example_has_its_numbers():
    """Tables over {i, x} and {i, y, z} of binary attributes, whose marginals over i are (4, 5)
    and (6, 7): weights 1/2 and 1/4, so (2·4 + 6)/3 = 4.667 and (2·5 + 7)/3 = 5.667.

    The paper prints 4.33 for the first. That is a misprint: the cells it prints for i = 0,
    1.33 and 3.33, sum to 4.66.
    """
    tables = {
        ("i", "x"): np.array([[1, 3], [2, 3]]),
        ("i", "y", "z"): np.array([[[1, 2], [2, 1]], [[4, 1], [1, 1]]]),
    }
    small, large = make_consistent(tables).values()
    assert small.round(2).tolist() == [[1.33, 3.33], [2.33, 3.33]]
    assert small.sum(axis=1).round(3).tolist() == [4.667, 5.667]
    assert large.sum(axis=(1, 2)).round(3).tolist() == [4.667, 5.667]
    assert large.round(2).tolist() == [[[0.67, 1.67], [1.67, 0.67]], [[3.67, 0.67], [0.67, 0.67]]]


@given(tables=noisy_tables())
def test_shared_sets_are_an_order_of_all_intersections(tables: dict[Names, np.ndarray]):
    expected = {frozenset()}
    for number in range(2, len(tables) + 1):
        for some in itertools.combinations(map(frozenset, tables), number):
            expected.add(frozenset.intersection(*some))
    ordered = shared_sets(tables)
    assert set(ordered) == expected
    assert len(ordered) == len(expected)
    for earlier, later in itertools.combinations(ordered, 2):
        assert not later < earlier


def test_a_table_with_less_noise_counts_for_more():
    tables = {("a",): np.array([0, 0]), ("a", "b"): np.array([[6, 6], [3, 3]])}
    # Marginals have variances 3 · 1 and 1 · 2: two fifths of (0, 0), three fifths of (12, 6).
    agreed = make_consistent(tables, variances={("a",): 3.0, ("a", "b"): 1.0})
    assert agreed[("a",)].tolist() == pytest.approx([7.2, 3.6])
    alike = make_consistent(tables, variances={("a",): 7.0, ("a", "b"): 7.0})
    assert alike[("a",)].tolist() == make_consistent(tables)[("a",)].tolist() == [4, 2]


def test_given_tables_are_left_alone_in_any_order_of_names():
    table = np.array([[1, 2, 3], [4, 5, 6]])
    agreed = make_consistent({("a", "b"): table, ("b", "a"): np.zeros((3, 2))})
    assert table.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert np.allclose(agreed[("a", "b")], table / 2)
    assert np.allclose(agreed[("a", "b")], agreed[("b", "a")].T)
    assert make_consistent({}) == {}
    assert make_consistent({("a",): np.array([1, 2])})[("a",)].tolist() == [1.0, 2.0]
    counted = make_consistent({(): np.array(3), ("a",): np.array([1, 1])})
    assert counted[("a",)].sum() == pytest.approx((3 + 2 / 2) / (1 + 1 / 2))


def test_a_marginal_has_its_axes_in_the_order_asked():
    table = np.arange(12.0).reshape(2, 3, 2)
    onto = marginal_of(table, ("a", "b", "c"), ("c", "a"))
    assert onto.tolist() == table.sum(axis=1).T.tolist()
    assert marginal_of(table, ("a", "b", "c"), ()).item() == 66
    widened = spread(onto, ("c", "a"), ("a", "b", "c"))
    assert widened.tolist() == table.sum(axis=1, keepdims=True).tolist()


Case = tuple[list[TableEstimate], dict[str, int]]


@st.composite
def overlapping(draw: st.DrawFn) -> Case:
    """Tables of up to four attributes, in any order of their axes, some of them twice."""
    sizes = {name: draw(st.integers(1, 3)) for name in "abcd"[: draw(st.integers(1, 4))]}
    axes = st.lists(st.sampled_from(sorted(sizes)), unique=True).map(tuple)
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    measured = []
    for names in draw(st.lists(axes, min_size=1, max_size=6)):
        table = rng.normal(5, 20, [sizes[name] for name in names])
        measured.append(TableEstimate(names, table, draw(st.sampled_from([0.01, 1.0, 30.0]))))
    return measured, sizes


def summing(names: tuple[str, ...], sizes: dict[str, int]) -> np.ndarray:
    """The matrix from all cells over ``sizes`` to those over ``names``."""
    cells = list(product(*map(range, sizes.values())))
    matrix = np.zeros([*(sizes[name] for name in names), len(cells)])
    for at, cell in enumerate(cells):
        here = dict(zip(sizes, cell, strict=True))
        matrix[(*(here[name] for name in names), at)] = 1
    return matrix.reshape(-1, len(cells))


def least_squares(measured: list[TableEstimate], sizes: dict[str, int]) -> np.ndarray:
    """Cells of one table over everything, the weighted squares of whose errors are least."""
    matrix = np.vstack([summing(t.attributes, sizes) / t.variance**0.5 for t in measured])
    target = np.concatenate([t.table.ravel() / t.variance**0.5 for t in measured])
    return np.linalg.lstsq(matrix, target, rcond=None)[0]


def test_ten_thousand_levels_take_no_matrix_of_them():
    # By a dense basis that was 800 MB and minutes.
    table = np.zeros((10_000, 2))
    table[7, 1], ways = 40.0, np.full(10_000, 1.0)
    measured = [TableEstimate(("a", "b"), table, 1.0), TableEstimate(("a",), ways, 1e9)]
    rows, tables = reconcile_tables(measured, {"a": 10_000, "b": 2})
    assert rows == pytest.approx(40.0, abs=0.01)
    assert np.abs(tables["a", "b"] - table).max() < 1e-4


@given(case=overlapping())
def test_the_tables_are_those_of_least_squares(case: Case):
    measured, sizes = case
    cells = least_squares(measured, sizes)
    rows, tables = reconcile_tables(measured, sizes)
    assert rows == pytest.approx(cells.sum(), abs=1e-8)
    for names, table in tables.items():
        assert np.allclose(table.ravel(), summing(names, sizes) @ cells, atol=1e-8)
        assert names == tuple(name for name in sizes if name in names)
        assert table.shape == tuple(sizes[name] for name in names)
    outer, inner = set(map(frozenset, tables)), {frozenset(each.attributes) for each in measured}
    assert outer == {names for names in inner if not any(names < other for other in inner)}


def test_a_table_measured_twice_has_less_noise():
    table = np.zeros((2, 2))
    measured = [TableEstimate(("a", "b"), table, 6.0), TableEstimate(("b", "a"), table, 3.0)]
    wider = TableEstimate(("a", "b", "c"), np.zeros((2, 2, 2)), 1.0)
    assert variance_of(("a", "b"), [*measured, wider]) == pytest.approx(2)


def test_noisy_marginals_of_a_release_are_taken_as_they_are():
    ways = NoisyMarginal(("b",), np.array([7, 3]), Fraction(2))
    rows = NoisyMarginal((), np.array(10), Fraction(1), gaussian=True)
    total, tables = reconcile_tables([ways, rows], {"a": 3, "b": 2})
    assert total == pytest.approx(10)
    assert tables["b",].tolist() == pytest.approx([7, 3])
    with pytest.raises(BoundaryViolation, match="needs one or more noisy tables"):
        reconcile_tables([], {"a": 2})


tables = st.lists(st.integers(-50, 50), min_size=1, max_size=8).map(np.array)
totals = st.sampled_from([0.001, 1.0, 7.0, 200.0])


@given(table=tables, total=totals)
def test_the_projection_meets_the_conditions_of_the_optimum(table: np.ndarray, total: float):
    """KKT: the same amount is taken from every cell that stays, at least as much from others."""
    projected = project_to_simplex(table, total)
    taken = table - projected
    assert (projected >= 0).all()
    assert np.isclose(projected.sum(), total)
    level = taken[projected > 0]
    assert np.allclose(level, level[0], atol=1e-9)
    assert (taken[projected == 0] <= level[0] + 1e-9).all()


HUGE = [[2**62, -(2**62)], [2**60, 2**60], [-(2**62)], [2**53, 2**53 + 2, 5], [0], [[0] * 2] * 3]


@pytest.mark.parametrize("table", HUGE)
def test_cells_of_any_size_have_a_projection(table: list):
    projected = project_to_simplex(np.array(table))
    assert projected.shape == np.shape(table)
    assert (projected >= 0).all()
    assert np.isclose(projected.sum(), 1)


rows = st.integers(1, 8).flatmap(
    lambda m: st.lists(
        st.lists(st.floats(-1e6, 1e6), min_size=m, max_size=m), min_size=1, max_size=5
    ).map(np.array)
)


@given(table=rows, data=st.data())
def test_rows_are_projected_like_one_table_after_another(table: np.ndarray, data: st.DataObject):
    sums = np.array(data.draw(st.lists(totals, min_size=len(table), max_size=len(table))))
    expected = [project_to_simplex(row, total) for row, total in zip(table, sums, strict=True)]
    assert np.allclose(project_rows(table, sums), expected, atol=1e-9)
    assert (project_rows(table, np.zeros(len(table))) == 0).all()


def test_a_cell_below_everything_gets_nothing():
    table = np.array([[4.0, -np.inf, 2.0, -np.inf], [-np.inf, 0.0, -np.inf, -np.inf]])
    assert project_rows(table, np.array([10.0, 3.0])).tolist() == [[6, 0, 4, 0], [0, 3, 0, 0]]
    assert (project_rows(table, np.zeros(2)) == 0).all()


AXES = tuple("abcdefgh")
shapes = st.lists(st.integers(1, 4), max_size=4).map(tuple)


def noisy(shape: tuple[int, ...], seed: int, mean: float) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 10, shape)


@given(shape=shapes, seed=st.integers(0, 999), mean=st.sampled_from([-20.0, 0.0, 2.0, 50.0]))
def test_no_cell_is_negative_and_the_total_stays(shape: tuple[int, ...], seed: int, mean: float):
    table = noisy(shape, seed, mean)
    rippled = ripple(table)
    assert rippled.shape == shape
    assert (rippled >= 0).all()
    assert np.isclose(rippled.sum(), max(0.0, table.sum()))
    assert np.allclose(ripple(np.abs(table)), np.abs(table))


def test_a_negative_cell_takes_alike_from_its_neighbours():
    cube = [[[-6.0, 10], [10, 10]], [[10, 10], [10, 10]]]
    assert np.allclose(ripple(np.array(cube)), [[[0, 8], [8, 10]], [[8, 10], [10, 10]]])
    table = np.array([[-6.0, 9, 9], [9, 9, 9]])
    assert np.allclose(ripple(table), [[0, 7, 7], [7, 9, 9]])


def test_the_neighbours_are_walked_through_one_by_one_alike():
    """Another way: lists of neighbours instead of sums along axes."""
    table = noisy((2, 3, 2), 5, 4.0)
    cells = dict(np.ndenumerate(table))
    for _ in range(200):
        lacking = {at: min(value, 0.0) for at, value in cells.items()}
        cells = {at: max(value, 0.0) for at, value in cells.items()}
        for at, other in itertools.permutations(cells, 2):
            if sum(a != b for a, b in zip(at, other, strict=True)) == 1:
                cells[other] += lacking[at] / 4
    expected = np.array(list(cells.values())).reshape(2, 3, 2)
    assert np.allclose(ripple(table, tolerance=1e-9), expected, atol=1e-6)


def test_marginals_move_less_than_when_negative_cells_are_cut():
    """100 sparse tables of 256 cells with noise, of 1,920 rows: by how much the 8 one-way
    marginals move on average. Cut and scaled, every cell pays for noise that is anywhere. Seeded.
    """

    def moved(after: np.ndarray, before: np.ndarray) -> float:
        return float(np.mean([np.abs(marginal_of(after - before, AXES, (a,))) for a in AXES]))

    rippled, cut = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        table = rng.laplace(0, 8, (2,) * 8)
        table.ravel()[rng.integers(0, 256, 12)] += 160
        positive = np.maximum(table, 0)
        rippled.append(moved(ripple(table), table))
        cut.append(moved(positive * (table.sum() / positive.sum()), table))
    assert np.mean(rippled) < 0.7 * np.mean(cut)


def test_a_total_of_nothing_or_less_leaves_nothing():
    for table in (np.zeros((2, 2)), np.array([5.0, -9.0]), np.array(-3), np.array([5, -5])):
        assert not ripple(table).any()
    assert ripple(np.array(3)).item() == 3
    table = np.full((2,) * 8, -1.0)
    table[(0,) * 8] = 255.001
    rippled = ripple(table)
    assert (rippled >= 0).all()
    assert rippled.sum() == pytest.approx(table.sum())
    assert project_to_simplex(table, float(table.sum())).argmax() == rippled.argmax()


FOUR_SIZES = {"a": 2, "b": 3, "c": 2, "d": 2}
TABLES = (("a", "b", "c"), ("b", "d"), ("a", "c", "d"))


def cells_by_noise(measured: list[NoisyMarginal]) -> dict[tuple[str, ...], np.ndarray]:
    return dict(PairedRows.of(measured, FOUR_SIZES).cells)


each_way = pytest.mark.parametrize("agree", [cells_by_noise, view_tables, clique_counts])


def noisy_tables_about(
    mean: float, spread: float, seed: int, *, noise: float = 0.0
) -> list[NoisyMarginal]:
    """Tables of one population with cells about ``mean``, and noise of this deviation."""
    rng = np.random.default_rng(seed)
    whole, measured = rng.normal(mean, spread, tuple(FOUR_SIZES.values())), []
    for names in TABLES:
        table = marginal_of(np.rint(whole), tuple(FOUR_SIZES), names)
        drawn = np.rint(table + rng.normal(0, noise, table.shape)).astype(np.int64)
        measured.append(NoisyMarginal(names, drawn, max(Fraction(1, 1000), Fraction(noise))))
    return measured


@each_way
def test_exact_tables_stay_as_they_are(agree):
    measured = noisy_tables_about(250, 50, 1)
    tables = agree(measured)
    assert tuple(tables) == TABLES
    assert all(
        np.allclose(tables[marginal.attributes], marginal.table, atol=0.01) for marginal in measured
    )
    both = PairedRows.of(measured, FOUR_SIZES)
    assert both.rows == pytest.approx(measured[0].table.sum())
    for pair in combinations(FOUR_SIZES, 2):
        exact = next(marginal for marginal in measured if {*pair} <= {*marginal.attributes})
        expected = marginal_of(exact.table, exact.attributes, pair)
        assert np.allclose(both.pair(*pair)[0], expected, atol=0.01)
        assert np.allclose(both.one_way(pair[0]), expected.sum(axis=1), atol=0.01)


@each_way
@settings(max_examples=30)
@given(
    seed=st.integers(0, 1000),
    mean=st.sampled_from([-50.0, 10.0, 100.0]),
    noise=st.sampled_from([1.0, 30.0, 1e6]),
)
def test_any_noise_gives_cells_of_one_total_and_none_negative(agree, seed, mean, noise):
    measured = noisy_tables_about(mean, 20, seed, noise=noise)
    tables = agree(measured)
    sums = [table.sum() for table in tables.values()]
    assert all((table >= 0).all() for table in tables.values())
    assert np.allclose(sums, sums[0])
    if agree is clique_counts:
        assert sums[0] >= 1 - 1e-9
        assert sum(clique_counts(measured, total=7.0)["b", "d"].ravel()) == pytest.approx(7)
    elif agree is cells_by_noise:
        assert sums[0] > 0


@pytest.mark.parametrize(
    ("agree", "mean", "noise", "most"),
    [(clique_counts, 100, 10, 1e-6), (cells_by_noise, 10, 30, 0.06)],
)
def test_tables_nearly_agree_on_what_they_share(agree, mean, noise, most: float):
    for seed in range(20):
        tables = agree(noisy_tables_about(mean, 5, seed, noise=noise))
        for left, right in combinations(TABLES, 2):
            both = [name for name in left if name in right]
            first, second = (marginal_of(tables[table], table, both) for table in (left, right))
            assert np.abs(first - second).max() < most * first.sum()


def test_tables_of_one_set_count_by_their_noise():
    measured = [
        NoisyMarginal(("a",), np.array([10, 20]), Fraction(1, 100)),
        NoisyMarginal(("a",), np.array([1000, 2000]), Fraction(10**6)),
    ]
    wide = NoisyMarginal(("a", "b"), np.full((2, 3), 500), Fraction(10**6))
    for table in clique_counts(measured)["a",], clique_counts([*measured, wide])["a",]:
        assert table.round(1).tolist() == [10.0, 20.0]


def test_the_number_of_rows_is_a_table_too():
    counted = TableEstimate((), np.array(1000.0), 1.0)
    measured = TableEstimate(("a", "b"), np.full((2, 3), 100.0), 1e6)
    tables = PairedRows.of([counted, measured], {"a": 2, "b": 3})
    assert list(tables.cells) == [("a", "b")]
    assert tables.rows == pytest.approx(1000, abs=0.1)
    without_rows = [TableEstimate(("a", "b"), np.full((2, 3), -50.0), 1.0)]
    assert np.allclose(PairedRows.of(without_rows, FOUR_SIZES).cells["a", "b"], 1 / 6)


def test_a_noisy_table_counts_for_little_beside_a_better_one():
    good = TableEstimate(("a", "b"), np.array([[60.0, 0.0, 40.0], [30.0, 30.0, 40.0]]), 1.0)
    bad = TableEstimate(("a", "c"), np.array([[180.0, 120.0], [0.0, 0.0]]), 10_000.0)
    tables = PairedRows.of([good, bad], FOUR_SIZES)
    assert np.allclose(tables.one_way("a"), [100, 100], atol=1)
