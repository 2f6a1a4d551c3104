"""MST: which pairs it measures, on which levels, and what each third pays for."""

from fractions import Fraction
from itertools import product

import networkx as nx
import numpy as np
import pytest

from dp_pipeline.models.base import guarantee_of
from dp_pipeline.models.tables.mst import Mst
from dp_pipeline.results.accountant import EXPONENTIAL, GAUSSIAN, LAPLACE, NOISY_MAX
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.models.contract import run
from dp_pipeline_tests.models.discrete import every_delta, levels
from dp_pipeline_tests.models.tables import BITS, MIXED, TWINS, table_of

SILENT = Fraction(10**4)


def pairs_of(table: SyntheticTable) -> set[frozenset[str]]:
    return {frozenset(one.attributes) for one in table.measured if len(one.attributes) == 2}


def test_without_noise_pairs_that_depend_are_in_a_tree() -> None:
    table = table_of(run(Mst(), TWINS, domain=BITS, epsilon=SILENT))
    pairs = pairs_of(table)
    assert {frozenset("ab"), frozenset("cd"), frozenset("ef")} <= pairs
    assert len(pairs) == 5
    assert nx.is_tree(nx.Graph([tuple(pair) for pair in pairs]))


def test_no_edge_closes_a_ring_however_much_its_pair_depends() -> None:
    people = tuple((*x * 3, *y * 3) for x, y in product("01", repeat=2)) * 20
    table = table_of(run(Mst(), people, domain=BITS, epsilon=SILENT))
    assert nx.is_tree(nx.Graph([tuple(pair) for pair in pairs_of(table)]))


def test_without_noise_rows_have_the_measured_pairs() -> None:
    table = table_of(run(Mst(), TWINS, domain=BITS, epsilon=SILENT))
    for pair in ("a", "b"), ("c", "d"), ("e", "f"):
        assert np.abs(table.counts(pair) - [[20, 0], [0, 20]]).max() <= 1


@pytest.mark.parametrize("seed", range(5))
def test_pairs_over_the_cap_are_not_drawn(seed: int) -> None:
    # Sizes 2, 3, 5, 40: only a with b, a with c and b with c have at most 15 cells.
    table = table_of(run(Mst(clique_cells=40), (), domain=MIXED, seed=seed))
    assert pairs_of(table) <= {frozenset("ab"), frozenset("ac"), frozenset("bc")}
    assert len(pairs_of(table)) == 2
    assert ("d",) in table.cliques


def test_levels_that_nobody_has_go_together() -> None:
    domain = levels(a=2, d=40)
    people = tuple((x, y) for x, y in product("01", ("3", "20"))) * 50
    table = table_of(run(Mst(), people, domain=domain, epsilon=Fraction(10)))
    (pair,) = [one for one in table.measured if len(one.attributes) == 2]
    # 0–2, 3, 4–19, 20 and the others, unless the noise in many of them adds up to 3σ.
    assert 5 <= pair.table.shape[1] <= 10
    assert (table.counts(("d",))[[3, 20]] >= 90).all()


@every_delta
def test_a_third_is_for_attributes_draws_and_pairs_each(delta: Fraction | None) -> None:
    done = run(Mst(), TWINS, domain=BITS, delta=delta)
    amount = guarantee_of(Mst(), Fraction(1), delta).amount
    table_noise, draw = (LAPLACE, NOISY_MAX) if delta is None else (GAUSSIAN, EXPONENTIAL)
    assert [spend.mechanism for spend in done.spends] == (
        [table_noise] * 6 + [draw] * 5 + [table_noise] * 5
    )
    assert [spend.epsilon for spend in done.spends] == [amount / 18] * 6 + [amount / 15] * 10


def test_where_no_pair_fits_the_single_attributes_get_everything() -> None:
    done = run(Mst(clique_cells=3), (), domain=BITS)
    assert [spend.epsilon for spend in done.spends] == [Fraction(1, 6)] * 6
