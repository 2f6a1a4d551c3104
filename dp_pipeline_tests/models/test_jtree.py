"""JTree: which edges it draws, when it stops, what it pays for them and for its tables."""

from fractions import Fraction
from itertools import product
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import BudgetExceeded
from dp_pipeline.gate.scores import UNIT, Independence
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline.models.tables import jtree
from dp_pipeline.models.tables.jtree import JTree
from dp_pipeline.results.accountant import NOISY_MAX
from dp_pipeline_tests.instruments import ForcedNoise
from dp_pipeline_tests.models.contract import Run, run
from dp_pipeline_tests.models.discrete import levels
from dp_pipeline_tests.models.tables import BITS, MIXED, TWINS, table_of
from dp_pipeline_tests.populations import TEN_PEOPLE, LoopCounter

SILENT = Fraction(10**4)


def edges_of(done: Run) -> set[frozenset[str]]:
    return {frozenset(one.attributes) for one in table_of(done).measured}


def draws_of(done: Run) -> list[Fraction]:
    return [one.epsilon for one in done.spends if one.mechanism == NOISY_MAX]


def test_what_depends_is_joined_and_nothing_else() -> None:
    done = run(JTree(clique_cells=4), TWINS, domain=BITS, epsilon=SILENT)
    assert edges_of(done) == {frozenset("ab"), frozenset("cd"), frozenset("ef")}


def thresholds(model: JTree, *, rows: int) -> dict[tuple[str, ...], float]:
    """In rows, from the score of the smallest table that passes."""
    growth = jtree.CliqueGrowth(dict(zip(MIXED.names, MIXED.shape(MIXED.names), strict=True)), 9)
    pairs = jtree.pairs_of(MIXED.names)
    return {pair: model._threshold(pair, growth, rows) / UNIT for pair in pairs}


def test_a_threshold_is_that_of_the_paper_in_rows() -> None:
    found = thresholds(JTree(), rows=1000)
    # θ = φ²·(min − 1)/2 nats, and U = n·√(θ/2).
    for pair, smaller in {("a", "d"): 2, ("b", "c"): 3, ("c", "d"): 5}.items():
        theta = 0.2**2 * (smaller - 1) / 2
        assert found[pair] == pytest.approx(1000 * (theta / 2) ** 0.5, rel=1e-3)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 30), min_size=6, max_size=6).filter(any))
def test_what_passes_has_the_information_of_the_paper(cells: list[int]) -> None:
    # Pinsker: with θ as a mutual information in nats, U/n ≥ √(θ/2) needs I ≥ θ.
    table = np.array(cells).reshape(2, 3)
    n, shares = table.sum(), table / table.sum()
    product_of = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    inside = shares > 0
    information = (shares[inside] * np.log(shares[inside] / product_of[inside])).sum()
    assert information >= 2 * (Independence().score(table) / UNIT / n) ** 2 - 1e-9


def test_no_edge_has_the_score_that_every_edge_has_to_beat() -> None:
    table = LoopCounter(TEN_PEOPLE).count([("colour",)])[0].open_at_the_gate()
    assert Independence().score(table) == 0


def test_a_higher_threshold_draws_fewer_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    # Merging would join the two small tables whether or not they depend.
    monkeypatch.setattr(jtree, "bigger_cliques", lambda tree, *_, **__: tree)
    people = tuple(
        (x, x if index % 3 else y) for index, (x, y) in enumerate([*product("01", "01")] * 9)
    )
    pair = levels(a=2, b=2)
    low, high = (JTree(correlation=Fraction(n, 10), nominal_rows=36) for n in (2, 9))
    assert edges_of(run(low, people, domain=pair, epsilon=SILENT)) == {frozenset("ab")}
    assert len(edges_of(run(high, people, domain=pair, epsilon=SILENT))) == 2


def test_the_graph_is_a_junction_tree_over_all_attributes() -> None:
    for seed in range(5):
        table = table_of(run(JTree(nominal_rows=500), TWINS, domain=BITS, noise=ForcedNoise(seed)))
        JunctionTree(table.cliques, table.links).require_running_intersection()
        assert {name for clique in table.cliques for name in clique} == set(BITS.names)
        assert [one.attributes for one in table.measured] == list(table.cliques)


def test_no_table_has_more_cells_than_the_cap_or_than_is_useful() -> None:
    capped = table_of(run(JTree(nominal_rows=10**9, clique_cells=8), TWINS, domain=BITS))
    assert max(one.table.size for one in capped.measured) <= 8
    # 0.7 · 300 / (4 · 6) = 8.75 cells.
    useful = table_of(run(JTree(nominal_rows=300), TWINS, domain=BITS))
    assert max(one.table.size for one in useful.measured) <= 8


def test_every_draw_costs_its_share_and_tables_get_the_rest() -> None:
    done = run(JTree(nominal_rows=40), TWINS, domain=BITS, epsilon=SILENT)
    draws = draws_of(done)
    # Three edges, then twice none, of ⌈2 · 5⌉.
    assert draws == [SILENT * 3 / 100] * (3 + jtree.PATIENCE)
    tables = [one.epsilon for one in done.spends if one.mechanism != NOISY_MAX]
    assert sum(tables) == SILENT - sum(draws)


def test_without_a_pair_that_fits_nothing_is_drawn() -> None:
    assert draws_of(run(JTree(nominal_rows=1), TWINS, domain=BITS)) == []
    assert draws_of(run(JTree(edges=Fraction(0)), TWINS, domain=BITS)) == []


def test_at_most_as_many_edges_are_drawn_as_were_declared() -> None:
    for kappa in (Fraction(1, 5), Fraction(1), Fraction(2)):
        model = JTree(nominal_rows=10**6, edges=kappa, clique_cells=8)
        for seed in range(5):
            done = run(model, TWINS, domain=BITS, noise=ForcedNoise(seed))
            assert len(draws_of(done)) <= ceil(kappa * 5)


def test_draws_that_are_not_paid_for_exceed_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jtree, "Network", lambda growth, _: ForFree(growth))
    with pytest.raises(BudgetExceeded):
        run(JTree(nominal_rows=300), TWINS, domain=BITS)


class ForFree:
    """A mutant: the draws were made, and are said not to be."""

    draws = 0

    def __init__(self, growth: object) -> None:
        self.growth = growth
