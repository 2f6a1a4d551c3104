"""MST: which pairs it measures, on which levels, and what each third pays for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.gate.curator import Curator
from dp_pipeline.models.base import guarantee_of
from dp_pipeline.models.tables.mst import Mst
from dp_pipeline.release.accountant import EXPONENTIAL, GAUSSIAN, LAPLACE, NOISY_MAX
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.spec.domain import Domain
from dp_pipeline.spec.errors import BudgetExceeded, Damaged, DeclarationError, OtherQuestion
from dp_pipeline_tests.models.contract import (
    check_budget,
    check_loss,
    check_replay,
    check_valid,
    run,
)
from dp_pipeline_tests.models.tables import BITS, FEW, MIXED, TWINS, levels, table_of, wide
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN

ONE = Fraction(1)
SILENT = Fraction(10**4)
DELTA = Fraction(1, 10**9)
MODELS = {
    "all pairs": Mst(),
    "few pairs fit": Mst(clique_cells=6),
    "none fits": Mst(clique_cells=4),
}
DOMAINS = {"bits": (BITS, TWINS), "town": (TOWN, TEN_PEOPLE)}

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
every_domain = pytest.mark.parametrize("domain, rows", DOMAINS.values(), ids=DOMAINS.keys())
every_delta = pytest.mark.parametrize("delta", [None, DELTA], ids=["in epsilon", "in rho"])


def pairs_of(table: SyntheticTable) -> set[frozenset[str]]:
    return {frozenset(one.attributes) for one in table.measured if len(one.attributes) == 2}


# What is measured.


def test_without_noise_the_pairs_that_depend_are_edges_of_a_spanning_tree() -> None:
    table = table_of(run(Mst(), TWINS, domain=BITS, epsilon=SILENT))
    pairs = pairs_of(table)
    assert {frozenset("ab"), frozenset("cd"), frozenset("ef")} <= pairs
    assert len(pairs) == 5
    assert nx.is_tree(nx.Graph([tuple(pair) for pair in pairs]))


def test_no_edge_closes_a_ring_however_much_its_pair_depends() -> None:
    people = tuple((*x * 3, *y * 3) for x, y in product("01", repeat=2)) * 20
    table = table_of(run(Mst(), people, domain=BITS, epsilon=SILENT))
    assert nx.is_tree(nx.Graph([tuple(pair) for pair in pairs_of(table)]))


def test_without_noise_the_rows_have_the_pairs_that_were_measured() -> None:
    table = table_of(run(Mst(), TWINS, domain=BITS, epsilon=SILENT))
    for pair in ("a", "b"), ("c", "d"), ("e", "f"):
        assert np.abs(table.counts(pair) - [[20, 0], [0, 20]]).max() <= 1


@pytest.mark.parametrize("seed", range(5))
def test_pairs_over_the_cap_are_not_drawn_and_the_rest_is_a_forest(seed: int) -> None:
    # Sizes 2, 3, 5, 40: only a with b, a with c and b with c have at most 15 cells.
    table = table_of(run(Mst(clique_cells=40), (), domain=MIXED, seed=seed))
    assert pairs_of(table) <= {frozenset("ab"), frozenset("ac"), frozenset("bc")}
    assert len(pairs_of(table)) == 2
    assert ("d",) in table.cliques


def test_a_cap_that_an_attribute_passes_is_refused_by_name() -> None:
    with pytest.raises(DeclarationError, match="at most 32 cells, got d with 40"):
        Mst(clique_cells=32).check(MIXED)


def test_levels_that_nobody_has_go_together_in_the_tables_of_pairs() -> None:
    domain = levels(a=2, d=40)
    people = tuple((x, y) for x, y in product("01", ("3", "20"))) * 50
    table = table_of(run(Mst(), people, domain=domain, epsilon=Fraction(10)))
    (pair,) = [one for one in table.measured if len(one.attributes) == 2]
    # 0–2, 3, 4–19, 20 and the others, unless the noise in many of them adds up to 3σ.
    assert 5 <= pair.table.shape[1] <= 10
    assert (table.counts(("d",))[[3, 20]] >= 90).all()


# What is paid.


@every_delta
def test_a_third_is_for_single_attributes_one_for_draws_and_one_for_pairs(
    delta: Fraction | None,
) -> None:
    done = run(Mst(), TWINS, domain=BITS, delta=delta)
    amount = guarantee_of(Mst(), ONE, delta).amount
    table_noise, draw = (LAPLACE, NOISY_MAX) if delta is None else (GAUSSIAN, EXPONENTIAL)
    assert [spend.mechanism for spend in done.spends] == (
        [table_noise] * 6 + [draw] * 5 + [table_noise] * 5
    )
    assert [spend.epsilon for spend in done.spends] == [amount / 18] * 6 + [amount / 15] * 10


def test_where_no_pair_fits_the_single_attributes_get_everything() -> None:
    done = run(Mst(clique_cells=3), (), domain=BITS)
    assert [spend.epsilon for spend in done.spends] == [Fraction(1, 6)] * 6


@every_model
@every_domain
@every_delta
@pytest.mark.parametrize("distance", [1, 3])
def test_the_scales_drawn_prove_exactly_what_was_asked(
    model: Mst,
    domain: Domain,
    rows: Sequence[tuple],
    delta: Fraction | None,
    distance: int,
) -> None:
    for epsilon in (Fraction("0.1"), Fraction(5, 7)):
        check_budget(model, rows, epsilon=epsilon, distance=distance, domain=domain, delta=delta)


@every_delta
@settings(derandomize=True, deadline=None, max_examples=15)
@given(
    rows=st.lists(st.sampled_from(list(product("01", repeat=6))), max_size=12),
    person=st.sampled_from(TWINS),
    seed=st.integers(0, 1000),
)
def test_along_any_answers_a_person_costs_at_most_what_is_claimed(
    delta: Fraction | None, rows: list[tuple], person: tuple, seed: int
) -> None:
    check_loss(
        Mst(), rows, (person,) * 2, epsilon=ONE, distance=2, seed=seed, domain=BITS, delta=delta
    )


@every_model
@every_domain
@every_delta
def test_recorded_answers_replayed_over_nobody_give_the_same_bytes(
    model: Mst, domain: Domain, rows: Sequence[tuple], delta: Fraction | None
) -> None:
    check_replay(model, rows, domain=domain, elsewhere=[(), None], delta=delta)


# Mutants.


@dataclass(frozen=True)
class MeasuresOnceMore(Mst):
    """Counts the rows before it begins, past its thirds."""

    def fit(
        self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator
    ) -> SyntheticTable:
        amount = curator.accountant.left
        released = super().fit(curator, epsilon=epsilon, rng=rng)
        curator.tabulate({(): amount / 100})
        return released


@dataclass(frozen=True)
class CountsTheRows(Mst):
    """Draws as many rows as there are."""

    def fit(
        self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator
    ) -> SyntheticTable:
        rows = 7 if curator._route.counter is None else len(curator._route.counter.rows)  # type: ignore
        return Mst(synthetic_rows=rows).fit(curator, epsilon=epsilon, rng=rng)


def test_a_question_beyond_the_thirds_is_refused() -> None:
    with pytest.raises(BudgetExceeded):
        check_budget(MeasuresOnceMore(), TWINS, epsilon=ONE, distance=1, domain=BITS)


def test_a_model_that_counts_the_rows_is_caught() -> None:
    with pytest.raises((AssertionError, Damaged, OtherQuestion)):
        check_replay(CountsTheRows(), TWINS, domain=BITS, elsewhere=[()])


# Any rows, any ε.


@every_model
@every_delta
@pytest.mark.parametrize("people_in", FEW)
def test_whoever_the_people_are_the_table_is_a_valid_one(
    model: Mst, people_in: str, delta: Fraction | None
) -> None:
    for epsilon in (Fraction(1, 1000), Fraction(1000)):
        check_valid(model, run(model, FEW[people_in], epsilon=epsilon, delta=delta).released)


def test_one_attribute_one_level_and_a_declared_number_of_rows_are_all_right() -> None:
    table = table_of(run(Mst(synthetic_rows=7), (), domain=levels(a=1)))
    assert table.codes.tolist() == [[0]] * 7
    assert table_of(run(Mst(), (), domain=levels(a=1, b=2))).codes.shape[1] == 2


def test_a_wide_table_is_released_at_a_tiny_epsilon_and_a_large_one() -> None:
    domain, counter = wide(40, 1000)
    for epsilon in (Fraction(1, 1000), Fraction(10)):
        table = table_of(run(Mst(), counter, domain=domain, epsilon=epsilon))
        assert table.codes.shape[1] == 40
