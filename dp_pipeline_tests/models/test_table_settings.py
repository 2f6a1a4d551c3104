"""What the contract says of models of tables, at settings that are not the default ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import BudgetExceeded, Damaged, OtherQuestion
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import UNIT, DependenceScore, Independence
from dp_pipeline.models.base import Model
from dp_pipeline.models.tables.aim_like import AimLike
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.models.tables.jtree import JTree
from dp_pipeline.models.tables.mst import Mst
from dp_pipeline.models.tables.privbayes import PrivBayes
from dp_pipeline.models.tables.privhd import PrivHd
from dp_pipeline.models.tables.priview import PriView
from dp_pipeline.models.tables.threshold_filter import ThresholdFilter
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.models.contract import (
    check_budget,
    check_loss,
    check_replay,
    check_valid,
    claimed,
    fuzz_loss,
    run,
)
from dp_pipeline_tests.models.discrete import every_delta, levels
from dp_pipeline_tests.models.mutants import (
    broken,
    half_the_noise,
    own_reach,
    plans_by_rows,
    question_too_many,
    smaller_budget,
    unpaid,
)
from dp_pipeline_tests.models.tables import BITS, FEW, TWINS, table_of, wide
from dp_pipeline_tests.populations import AWKWARD, TEN_PEOPLE, TOWN


@dataclass(frozen=True)
class AsksEverything(Model):
    """Rows, scores, choices and tables, in either currency."""

    summary: ClassVar[str] = "everything that can be asked of scores and tables"
    accounts_in_rho: ClassVar[bool] = True

    def check(self, domain: Domain) -> None:
        """Any domain."""

    def fit(
        self,
        curator: Curator,
        *,
        epsilon: Fraction,  # noqa: ARG002
        rng: np.random.Generator,
    ) -> SyntheticTable:
        tenth = curator.accountant.remaining / 10
        (rows,) = curator.tabulate({(): tenth})
        names = curator.domain.discrete
        pairs: list[tuple[str, ...]] = list(combinations(names, 2))
        session = curator.open_scores(dict.fromkeys(pairs, Independence()))
        session.measure_all(amount=tenth)
        session.measure_total(amount=tenth)
        gaps = {
            pair: DependenceScore(np.zeros(curator.domain.shape(pair), np.int64)) for pair in pairs
        }
        further = curator.open_scores(gaps)
        first = further.choose("edge", pairs, amount=tenth)
        second = further.choose(
            "edge", [pair for pair in pairs if pair != first], amount=tenth, penalties={first: 1}
        )
        tables = curator.tabulate({first: tenth, second: curator.accountant.remaining - tenth})
        codes = rng.integers(0, curator.domain.shape(names), (5, len(names)))
        cliques = tuple((name,) for name in names)
        links = tuple((0, index) for index in range(1, len(names)))
        measured = (rows, *tables)
        return SyntheticTable(names, codes, measured, cliques, links, curator.domain, seed=1)


SETTINGS: dict[str, Model] = {
    "everything asked": AsksEverything(),
    "aim_like, one round": AimLike(rounds=1),
    "aim_like, pairs": AimLike(candidates=1),
    "aim_like, few fit": AimLike(clique_cells=8, rounds=2),
    "aim_like, none fits": AimLike(clique_cells=5),
    "mst, all pairs": Mst(),
    "mst, few pairs fit": Mst(clique_cells=6),
    "mst, none fits": Mst(clique_cells=4),
    "jtree, rows paid": JTree(),
    "jtree, rows declared": JTree(nominal_rows=300),
    "jtree, nothing fits": JTree(nominal_rows=1),
    "jtree, one table": JTree(nominal_rows=10**9, edges=Fraction(9)),
    "jtree, no edges": JTree(edges=Fraction(0)),
    "privbayes, rows paid": PrivBayes(),
    "privbayes, rows declared": PrivBayes(nominal_rows=300),
    "privbayes, no pair fits": PrivBayes(nominal_rows=1),
    "privbayes, all in one table": PrivBayes(nominal_rows=10**9),
    "privbayes, few candidates": PrivBayes(nominal_rows=300, candidates=3, negatives="clipped"),
    "privhd, tuned": PrivHd(),
    "privhd, published": PrivHd(variant="published"),
    "privhd, composed": PrivHd(variant="composed"),
    "privhd, peeling": PrivHd(variant="peeling"),
    "priview, by cells": PriView(),
    "priview, small views": PriView(view_cells=8),
    "priview, pairs": PriView(view_size=2),
    "priview, three at a time": PriView(view_size=3, family_cells=8),
    "threshold_filter, a hundred": ThresholdFilter(),
    "threshold_filter, one": ThresholdFilter(empty_cells=1),
}
CASES = {
    f"{name}{' in rho' if delta else ''}": (model, delta)
    for name, model in SETTINGS.items()
    for delta in (None, Fraction(1, 10**9))
    if delta is None or model.accounts_in_rho
}
every_case = pytest.mark.parametrize(("model", "delta"), CASES.values(), ids=CASES.keys())
every_domain = pytest.mark.parametrize(
    ("domain", "rows"), [(BITS, TWINS), (TOWN, TEN_PEOPLE)], ids=["bits", "town"]
)
BIT_ROWS = list(product("01", repeat=6))


@every_case
@every_domain
@pytest.mark.parametrize("distance", [1, 3])
def test_the_scales_drawn_prove_what_was_asked(model, delta, domain, rows, distance):
    for epsilon in (Fraction("0.1"), Fraction(5, 7)):
        check_budget(model, rows, epsilon=epsilon, distance=distance, domain=domain, delta=delta)


@every_case
@settings(max_examples=6)
@given(
    rows=st.lists(st.sampled_from(BIT_ROWS), min_size=1, max_size=12),
    person=st.sampled_from(BIT_ROWS),
    seed=st.integers(0, 1000),
)
def test_along_any_answers_a_person_loses_no_more_than_claimed(model, delta, rows, person, seed):
    how = {"epsilon": Fraction(1), "domain": BITS, "delta": delta}
    loss = check_loss(model, rows, (person,) * 2, distance=2, seed=seed, **how)
    if isinstance(model, PriView | ThresholdFilter):
        assert loss == claimed(model, **how).amount, "no share of ε protects nobody"


@every_case
@every_domain
def test_stored_answers_replayed_over_nobody_give_the_same_bytes(model, delta, domain, rows):
    check_replay(model, rows, domain=domain, elsewhere=[(), None], delta=delta)


@every_case
@pytest.mark.parametrize("people_in", FEW)
def test_whoever_the_people_are_the_table_is_a_valid_one(model, delta, people_in):
    for epsilon in (Fraction(1, 1000), Fraction(1000)):
        check_valid(model, run(model, FEW[people_in], epsilon=epsilon, delta=delta).released)


@pytest.mark.parametrize(
    ("model", "delta"), [case for case in CASES.values() if isinstance(case[0], TableModel)]
)
def test_one_level_and_a_declared_number_of_rows_are_all_right(model, delta):
    for domain in (levels(a=1), levels(a=1, b=2)):
        seven = replace(model, synthetic_rows=7)
        table = table_of(run(seven, (), domain=domain, delta=delta))
        assert len(table.codes) == 7
        check_valid(model, table, domain=domain)


@pytest.mark.parametrize(
    ("mutant", "refusal"),
    [
        (broken(AimLike, smaller_budget)(), AssertionError),
        (broken(Mst, question_too_many)(), BudgetExceeded),
    ],
    ids=["a smaller budget", "a question too many"],
)
def test_a_budget_that_is_not_the_claim_is_caught(mutant, refusal):
    with pytest.raises(refusal):
        check_budget(mutant, TWINS, epsilon=Fraction(1), distance=1, domain=BITS)


@pytest.mark.parametrize(
    ("base", "parameter", "value"),
    [
        (AimLike, "rounds", lambda rows: min(16, rows + 1)),
        (Mst, "synthetic_rows", int),
        (PrivBayes, "nominal_rows", lambda rows: 10 * rows + 1),
    ],
)
def test_a_parameter_of_the_true_number_of_rows_is_caught(base, parameter, value):
    mutant = broken(base, plans_by_rows(parameter, value))()
    with pytest.raises((AssertionError, Damaged, OtherQuestion)):
        check_replay(mutant, TWINS, domain=BITS, elsewhere=[()])


WIDE: dict[str, TableModel] = {
    "mst": Mst(),
    "jtree": JTree(),
    "privbayes": PrivBayes(candidates=20),
    "privhd": PrivHd(),
    "aim_like": AimLike(rounds=1),
    "priview": PriView(),
}
SLOW = ("aim_like", "priview")


@pytest.mark.parametrize(
    "name",
    [pytest.param(model, marks=[pytest.mark.chain] if model in SLOW else []) for model in WIDE],
)
def test_forty_attributes_are_released_at_a_tiny_epsilon(name: str) -> None:
    domain, counter = wide(40, 1000)
    for epsilon in (Fraction(1, 1000), Fraction(10))[: 1 if name in SLOW else 2]:
        table = table_of(run(WIDE[name], counter, domain=domain, epsilon=epsilon))
        assert table.codes.shape[1] == 40
        assert sum(marginal.table.size for marginal in table.measured) <= WIDE[name].most_cells(
            domain
        )


def unpaid_scores(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
    """Look at all scores once more, past the accountant."""
    pairs: list[tuple[str, ...]] = list(combinations(curator.domain.discrete, 2))
    session = unpaid(curator).open_scores(dict.fromkeys(pairs, Independence()))
    session.measure_all(amount=curator.accountant.remaining * 10)
    return sound(curator, epsilon)


def exact_scores(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> SyntheticTable:
    """Draw as many rows as the first score says, without noise."""
    names = curator.domain.discrete
    session = curator.open_scores(
        {names[:2]: DependenceScore(np.zeros(curator.domain.shape(names[:2]), np.int64))}
    )
    exact = session._exact(curator._executor.counter).open_at_the_gate()
    released = sound(curator, epsilon)
    return replace(released, codes=np.repeat(released.codes[:1], int(exact[0]) // UNIT, axis=0))


@every_delta
@pytest.mark.parametrize(
    ("wrong", "distance"),
    [(half_the_noise, 1), (own_reach, 3), (unpaid_scores, 1), (exact_scores, 1)],
)
def test_a_model_that_breaks_its_promise_is_caught(wrong, distance, delta):
    model, how = broken(AsksEverything, wrong)(), {"distance": distance, "delta": delta}
    with pytest.raises((AssertionError, Damaged, OtherQuestion)):
        check_budget(model, epsilon=Fraction(1), **how)
        fuzz_loss(model, examples=12, **how)
        check_replay(model, elsewhere=[AWKWARD["two people"]], delta=delta)
