"""Distributions that are fitted to noisy tables: what they predict, and rows drawn from them."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.encoding import FloatArray
from dp_pipeline.inference.fitted_tree import FittedRows, FittedTree, OneWays, estimate_rows
from dp_pipeline.inference.graphical_model import GraphicalModel
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline.inference.missing_levels import complete_attributes, without_last_levels
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal, variance
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.models.tables import dependent_rows, domain_of

TREE_SIZES = {"a": 2, "b": 3, "c": 2, "d": 4, "e": 2}
TREES = {
    "a chain": (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")),
    "a star": (("a", "c"), ("b", "c"), ("c", "d"), ("c", "e")),
    "larger cliques": (("a", "b", "d"), ("b", "c", "d"), ("d", "e")),
    "parts": (("b", "e"), ("a", "d"), ("c",)),
    "one clique": (("a", "b", "c", "d", "e"),),
}
every_tree = pytest.mark.parametrize("cliques", TREES.values(), ids=TREES.keys())


def random_tree(
    cliques: tuple[tuple[str, ...], ...], *, seed: int, spread: float = 1.0
) -> FittedTree:
    """A distribution of random potentials, of 100 rows."""
    tree = JunctionTree.of(cliques, TREE_SIZES)
    model = GraphicalModel(tree, TREE_SIZES)
    rng = np.random.default_rng(seed)
    potentials = [spread * rng.normal(size=node.shape) for node in model.nodes]
    return FittedTree(model, tuple(model.marginals(potentials)[0]), 100.0)


def joint(fitted: FittedTree) -> FloatArray:
    """Rows in every cell over all attributes: the product of P(clique | separator)."""
    axes = {name: at for at, name in enumerate(TREE_SIZES)}
    factors = []
    for node, table in zip(fitted.model.nodes, fitted.tables, strict=True):
        rest = tuple(range(node.separator, table.ndim))
        given = table / (table.sum(axis=rest, keepdims=True) if node.separator else 1.0)
        order = sorted(range(table.ndim), key=lambda at, n=node.names: axes[n[at]])
        shape = [TREE_SIZES[name] if name in node.names else 1 for name in TREE_SIZES]
        factors.append(given.transpose(order).reshape(shape))
    return fitted.rows * reduce(np.multiply, factors)


def sum_over(table: FloatArray, names: tuple[str, ...]) -> FloatArray:
    return table.sum(axis=tuple(at for at, name in enumerate(TREE_SIZES) if name not in names))


@every_tree
@pytest.mark.parametrize("seed", range(5))
def test_every_pair_is_predicted_exactly(cliques: tuple[tuple[str, ...], ...], seed: int):
    fitted = random_tree(cliques, seed=seed)
    whole = joint(fitted)
    assert np.isclose(whole.sum(), 100)
    for pair in combinations(TREE_SIZES, 2):
        assert np.allclose(fitted.predict_counts(pair), sum_over(whole, pair), atol=1e-9)


@every_tree
def test_three_attributes_are_predicted_nearly(cliques: tuple[tuple[str, ...], ...]):
    fitted = random_tree(cliques, seed=1)
    whole = joint(fitted)
    for names in combinations(TREE_SIZES, 3):
        held = any(set(names) <= set(clique) for clique in cliques)
        predicted = fitted.predict_counts(names)
        # 65,536 independent rows would be off by less than 100 · 5 · ½/256 with probability
        # above 1 − 10^-5 a table; rows of a tree are random_tree with less noise.
        assert np.abs(predicted - sum_over(whole, names)).max() < (1e-9 if held else 1.0)
        assert (predicted == random_tree(cliques, seed=1).predict_counts(names)).all()


def test_a_level_that_nobody_has_is_predicted_to_stay_so():
    # Potentials of ±2000 leave cells without any probability.
    fitted = random_tree(TREES["a chain"], seed=2, spread=2000.0)
    for pair in combinations(TREE_SIZES, 2):
        assert np.isfinite(fitted.predict_counts(pair)).all()
        assert np.isclose(fitted.predict_counts(pair).sum(), 100)


def test_a_table_below_nothing_is_a_distribution_of_one_row():
    measured = (NoisyMarginal(("a", "b"), np.full((2, 2), -5), Fraction(1)),)
    fitted = FittedRows(measured, {"a": 2, "b": 2}).fit_tree(iterations=100)
    assert fitted.rows == 1
    assert np.isclose(fitted.predict_counts(("a", "b")).sum(), 1)


ROWS = 4000
SIZES = (3, 2, 4, 2)
NAMES = tuple(f"x{at}" for at in range(len(SIZES)))
CODES = dependent_rows(SIZES, ROWS)
QUIET = Fraction(1, 1000)
NO_GROUPS: dict[str, Grouping] = {}


def exact(names: Sequence[str], *, groupings: dict[str, Grouping] = NO_GROUPS) -> NoisyMarginal:
    """The table of these attributes, or of groups of their levels, next to without noise."""
    columns, shape = [], []
    for place in map(NAMES.index, names):
        grouping = groupings.get(NAMES[place], Grouping(tuple(range(SIZES[place]))))
        columns.append(grouping.group_of_level[CODES[:, place]])
        shape.append(grouping.size)
    table = np.zeros(shape, dtype=np.int64)
    np.add.at(table, tuple(columns), 1)
    return NoisyMarginal(tuple(names), table, QUIET)


COUNTED = NoisyMarginal((), np.array(ROWS), QUIET)


def drawn(fitted: FittedRows, *, rows: int = ROWS, sizes: Sequence[int] = SIZES) -> SyntheticTable:
    domain = domain_of(sizes)
    return fitted.draw_table(domain.names, domain, np.random.default_rng(1), lambda _: rows)


def off(table: SyntheticTable, names: Sequence[str]) -> float:
    """Total variation between drawn rows and the exact ones."""
    shares = exact(names).table / ROWS
    return float(np.abs(table.probabilities(tuple(names)) - shares).sum()) / 2


def sizes_of(sizes: Sequence[int] = SIZES) -> dict[str, int]:
    return {f"x{at}": size for at, size in enumerate(sizes)}


CHAIN = [("x0", "x1"), ("x1", "x2"), ("x2", "x3")]


def test_rows_have_the_marginals_that_were_measured():
    fitted = FittedRows((COUNTED, *map(exact, CHAIN)), sizes_of())
    table = drawn(fitted)
    assert max(off(table, names) for names in CHAIN) < 0.0005
    assert {frozenset(clique) for clique in table.cliques} == set(map(frozenset, CHAIN))
    assert [marginal.attributes for marginal in table.measured] == [(), *CHAIN]


def test_few_rows_have_every_pair_of_the_distribution():
    fitted = FittedRows((COUNTED, *map(exact, CHAIN)), sizes_of())
    few = drawn(fitted, rows=1000)
    gaps = [few.probabilities(pair) - table for pair, table in fitted.fit_tree().pairs.items()]
    assert max(float(np.abs(gap).sum()) for gap in gaps) / 2 < 0.005


def test_fewer_rows_than_were_counted_have_less_noise_too():
    noisy = [replace(exact(names), scale=Fraction(5)) for names in CHAIN]
    fitted = FittedRows((COUNTED, *noisy), sizes_of())
    few = drawn(fitted, rows=ROWS // 4)
    gaps = [few.probabilities(pair) - table for pair, table in fitted.fit_tree().pairs.items()]
    assert max(float(np.abs(gap).sum()) for gap in gaps) / 2 < 0.01


def test_tables_that_are_disjoint_make_independent_attributes():
    table = drawn(FittedRows((COUNTED, exact(("x0", "x1")), exact(("x2", "x3"))), sizes_of()))
    assert max(off(table, names) for names in [("x0", "x1"), ("x2", "x3")]) < 0.0005
    product = np.outer(exact(("x1",)).table, exact(("x2",)).table) / ROWS**2
    assert np.abs(table.probabilities(("x1", "x2")) - product).sum() / 2 < 0.02


def test_where_no_clique_fits_rows_come_from_a_network():
    pairs = list(combinations(NAMES, 2))
    whole, capped = (
        drawn(FittedRows((COUNTED, *map(exact, pairs)), sizes_of(), cap=cap)) for cap in (48, 47)
    )
    assert [len(clique) for clique in whole.cliques] == [4]
    assert list(capped.cliques) == pairs
    for table in (whole, capped):
        assert max(off(table, names) for names in pairs) < 0.03


def test_an_attribute_of_no_table_has_its_one_way_marginal():
    pairs = list(combinations(NAMES[:3], 2))
    ways = OneWays.of([exact((name,)) for name in NAMES], COUNTED)
    table = drawn(FittedRows((COUNTED, *map(exact, pairs)), sizes_of(), ways, cap=12))
    assert list(table.cliques) == [*pairs, (NAMES[3],)]
    assert max(off(table, names) for names in [*pairs, (NAMES[3],)]) < 0.01


def test_groups_are_drawn_back_into_levels_by_the_one_way_shares():
    groupings = {"x2": Grouping((0, 0, 1, 1))}
    ways = OneWays.of([exact((name,)) for name in NAMES], COUNTED)
    pair = exact(("x1", "x2"), groupings=groupings)
    table = drawn(FittedRows((COUNTED, pair), sizes_of(), ways, groupings))
    assert max(off(table, (name,)) for name in NAMES) < 0.01
    assert table.groupings == groupings
    # Everything that was paid for, in the order in which it was.
    assert table.measured == (COUNTED, *ways.measured, pair)


@pytest.mark.parametrize("sizes", [(1,), (1, 1, 1), (1, 3, 1)])
@pytest.mark.parametrize("rows", [0, 5])
def test_attributes_of_one_level_need_no_table(sizes: Sequence[int], rows: int):
    several = {name: size for name, size in sizes_of(sizes).items() if size > 1}
    ways = [NoisyMarginal((n,), np.array([7, 2, 1]), QUIET) for n in several]
    table = drawn(FittedRows((COUNTED, *ways), several), rows=rows, sizes=sizes)
    assert table.codes.shape == (rows, len(sizes))
    assert {name for clique in table.cliques for name in clique} == set(sizes_of(sizes))
    assert (table.codes[:, [size == 1 for size in sizes]] == 0).all()


def test_the_number_of_rows_is_what_the_tables_estimate_together():
    seen: list[float] = []
    fitted = FittedRows((COUNTED, *map(exact, CHAIN)), sizes_of())
    table = fitted.draw_table(
        NAMES, domain_of(SIZES), np.random.default_rng(1), lambda rows: seen.append(rows) or 7
    )
    assert len(table.codes) == 7
    assert seen == [pytest.approx(ROWS)]


COLOUR, SMOKES = [500, 300, 200], [900, 100]
LEVELS = {"colour": 3, "smokes": 2}
huge = st.integers(-100, 100) | st.integers(-(2**62), 2**62)


def marginal(name: str, table: list[int], scale: str = "1") -> NoisyMarginal:
    return NoisyMarginal((name,), np.array(table), Fraction(scale))


def test_the_number_of_rows_is_a_weighted_mean_of_totals():
    first, second = marginal("colour", [10, 20, 30], "2"), marginal("smokes", [50, 50], "1/2")
    weights = 1 / np.array([3 * variance(first.scale), 2 * variance(second.scale)])
    expected = (weights * [60, 100]).sum() / weights.sum()
    assert estimate_rows((first, second)) == round(expected)
    silent = (marginal("colour", COLOUR, "1/10000"), marginal("smokes", [899, 101], "1/1000000"))
    assert estimate_rows(silent) == 1000
    for scale, rows in (("1/1000", 200), ("1000000", 100)):
        counted = NoisyMarginal((), np.array(200), Fraction(scale))
        assert OneWays.of([marginal("smokes", [50, 50])], counted).rows == rows


@pytest.mark.parametrize("table", [[-5, 1, 1], [0, 0, 0], [-(2**62), 0, 0]])
def test_there_are_never_fewer_than_no_rows(table: list[int]):
    assert estimate_rows((marginal("colour", table),)) == 0
    assert OneWays.of([marginal("colour", table)]).rows == 1


@given(
    colour=st.lists(huge, min_size=3, max_size=3),
    smokes=st.lists(st.integers(-100, 100), min_size=2, max_size=2),
    pair=st.lists(st.integers(-100, 100), min_size=6, max_size=6),
)
def test_any_noisy_counts_give_shares_and_at_least_one_row(colour, smokes, pair):
    both = NoisyMarginal(("smokes", "colour"), np.array(pair).reshape(2, 3), Fraction(1))
    for ways in (
        OneWays.of([marginal("colour", colour), marginal("smokes", smokes)]),
        OneWays.within([both], {"colour": 3, "smokes": 2}),
    ):
        assert ways.rows >= 1
        assert {name: len(levels) for name, levels in ways.shares.items()} == LEVELS
        for levels in ways.shares.values():
            assert (levels >= 0).all()
            assert levels.sum() == pytest.approx(1)


def test_shares_are_those_of_the_counts_where_these_add_up():
    ways = OneWays.of([marginal("colour", COLOUR), marginal("smokes", SMOKES)])
    assert ways.shares["colour"].tolist() == pytest.approx([0.5, 0.3, 0.2])
    assert ways.shares["smokes"].tolist() == pytest.approx([0.9, 0.1])
    assert [marginal.attributes for marginal in ways.measured] == [("colour",), ("smokes",)]
    # Over groups they have sums and noise.
    groups = {"colour": Grouping((0, 0, 1)), "smokes": Grouping((0, 1))}
    colour, smokes = ways.grouped(groups)
    assert (colour.table.tolist(), smokes.table.tolist()) == ([800, 200], SMOKES)
    assert smokes.variance == ways.measured[1].variance
    assert colour.variance * 2 == pytest.approx(ways.measured[0].variance * 3)


def test_two_tables_of_an_attribute_count_by_their_noise():
    # Variances of 4 and 1, about: the mean is a fifth and four fifths.
    first = NoisyMarginal(("smokes",), np.array([100, 0]), Fraction(400), gaussian=True)
    second = NoisyMarginal(("smokes",), np.array([0, 100]), Fraction(100), gaussian=True)
    ways = OneWays.of([first, second])
    assert ways.rows == 100
    assert ways.shares["smokes"].tolist() == pytest.approx([0.2, 0.8])


def test_one_ways_inside_larger_tables_are_their_sums():
    pair = NoisyMarginal(("smokes", "colour"), np.array([[5, 1, 0], [2, 1, 1]]), Fraction(1))
    ways = OneWays.within([pair], {"colour": 3, "smokes": 2})
    assert (ways.rows, ways.measured) == (pytest.approx(10), ())
    assert ways.shares["smokes"].tolist() == pytest.approx([0.6, 0.4])
    assert ways.shares["colour"].tolist() == pytest.approx([0.7, 0.2, 0.1])


SCALE, DEVIATION = Fraction(10), 200**0.5
"""Of Laplace noise."""


def with_missing(name: str, missing: float, *, gaussian: bool = False) -> NoisyMarginal:
    counts = np.array([500, 500, round(missing)])
    return NoisyMarginal((name,), counts, 2 * SCALE**2 if gaussian else SCALE, gaussian)


@pytest.mark.parametrize(
    ("missing", "count"),
    [
        pytest.param([0.7], 0, id="one attribute, less than its noise"),
        pytest.param([1.1], 1, id="one attribute, more than its noise"),
        pytest.param([2.2] + [0.0] * 15, 0, id="the largest noise of sixteen"),
        pytest.param([2.6] + [0.0] * 15, 1, id="one of sixteen"),
        pytest.param([2.1] * 2 + [0.0] * 14, 2, id="two of sixteen, each with less"),
        pytest.param([0.9] * 16, 16, id="sixteen with more than noise together"),
        pytest.param([0.7] * 16, 0, id="sixteen with less than noise"),
        pytest.param([], 0, id="no attribute"),
    ],
)
def test_rows_above_noise_are_missing_values(missing: Sequence[float], count: int):
    tables = [
        with_missing(f"x{place}", deviations * DEVIATION, gaussian=True)
        for place, deviations in enumerate(missing)
    ]
    sizes = {f"x{place}": 3 for place in range(len(missing))}
    assert len(sizes) - len(complete_attributes(tables, sizes)) == count


@pytest.mark.parametrize("cells", [1, 4, 30])
def test_noise_alone_is_rarely_missing_values(cells: int):
    """Of 20 attributes in one of 20 releases at most: .05 ± .003 of 4,000, by Chernoff's bound."""
    sizes = {"a": 3, **{f"x{place}": 3 for place in range(19)}}
    silent = [with_missing(name, -999) for name in sizes if name != "a"]
    noise = np.random.default_rng(1).laplace(0, float(SCALE), (4_000, cells, 3))
    tables = [NoisyMarginal(("b", "a"), np.rint(table).astype(int), SCALE) for table in noise]
    alarms = np.mean(["a" not in complete_attributes([table, *silent], sizes) for table in tables])
    assert 0.002 < alarms <= 0.05


def test_all_tables_tell_together():
    """Each of four tables alone is below the bound, all of them above."""
    sizes = dict.fromkeys("abcd", 3)
    tables = [with_missing("a", 1.2 * DEVIATION)] * 4
    quiet = [with_missing(name, 0) for name in "bcd"]
    assert "a" in complete_attributes([tables[0], *quiet], sizes)
    assert "a" not in complete_attributes([*tables, *quiet], sizes)
    grouped = NoisyMarginal(("a", "b"), np.full((2, 3), 400), SCALE)
    assert complete_attributes([grouped, with_missing("b", -999)], {"a": 3, "b": 3}) == {"b"}


def test_a_group_of_missing_values_alone_tells_too() -> None:
    """A table over groups counts where the last level is in no group with others."""
    sizes = dict.fromkeys("ab", 5)
    noise = NoisyMarginal(("a",), np.zeros(5, dtype=np.int64), SCALE)
    grouped = NoisyMarginal(("a", "b"), np.full((2, 3), 400), SCALE)
    assert complete_attributes([noise, grouped], sizes, {"b": 3}) == {"a"}
    assert complete_attributes([noise, grouped], sizes, {"a": 2, "b": 3}) == frozenset()


@pytest.mark.parametrize("groups", [None, (0, 1, 1), (0, 1, 2)])
def test_a_level_of_noise_alone_is_in_no_row(groups: tuple[int, ...] | None):
    """Also where it has a group of its own, and what was paid for stays as it was."""
    groupings = {} if groups is None else {"x0": Grouping(groups)}
    pair = np.array([[500, 0, 0], [0, 500, 0], [1, 1, 1]])
    if groups == (0, 1, 1):
        pair = np.array([[500, 0, 0], [1, 501, 1]])
    counted = NoisyMarginal((), np.array(1000), SCALE)
    measured = (counted, NoisyMarginal(("x0", "x1"), pair, SCALE))
    ways = (
        None if groups is None else OneWays.of([with_missing(n, 3) for n in ("x0", "x1")], counted)
    )
    fitted = FittedRows(measured, {"x0": 3, "x1": 3}, ways, groupings)
    domain = domain_of((3, 3), nullable=True)
    drawn, before = (
        rows.draw_table(domain.names, domain, np.random.default_rng(1), lambda _: 1000)
        for rows in (fitted.without_missing(("x0",)), fitted)
    )
    assert drawn.probabilities(("x0",))[2] == 0
    assert drawn.probabilities(("x0",))[1] == pytest.approx(0.5, abs=0.02)
    assert drawn.measured == before.measured


def test_only_the_last_level_of_a_name_is_left_out():
    table = NoisyMarginal(("a", "b"), np.arange(6).reshape(2, 3), SCALE)
    assert without_last_levels(table, {"b"}).table.tolist() == [[0, 1], [3, 4]]
    assert without_last_levels(table, {"c"}).table.tolist() == table.table.tolist()
