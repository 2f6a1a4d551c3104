"""FittedRows: rows of one distribution that agrees with every noisy table, under any cap."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dp_pipeline.inference.fitted_tree import FittedRows, OneWays
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.models.discrete import dependent_rows, domain_of

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
    """Rows of all attributes."""
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
