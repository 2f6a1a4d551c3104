"""The contract of a model that pays in ρ: exactly its budget, along any answers, by its transcript.

A small model asks everything that there is to ask in ρ; its mutants are caught.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pytest

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import Damaged, OtherQuestion
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import UNIT, DependenceScore, Independence
from dp_pipeline.gate.selection import Candidates
from dp_pipeline.models.base import Model, PrivacyGuarantee
from dp_pipeline.results.accountant import GAUSSIAN, LAPLACE
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.instruments import ForcedNoise
from dp_pipeline_tests.models.contract import (
    check_budget,
    check_replay,
    check_valid,
    claimed,
    fuzz_loss,
    run,
)
from dp_pipeline_tests.models.mutants import WrongFit, broken, half_the_noise, own_reach, unpaid
from dp_pipeline_tests.populations import AWKWARD, TEN_PEOPLE, Row

ONE = Fraction(1)
DELTA = Fraction(1, 10**9)
every_delta = pytest.mark.parametrize("delta", [None, DELTA], ids=["in epsilon", "in rho"])
every_distance = pytest.mark.parametrize("distance", [1, 3])


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
            "edge", [one for one in pairs if one != first], amount=tenth, penalties={first: 1}
        )
        tables = curator.tabulate({first: tenth, second: curator.accountant.remaining - tenth})
        return _uniform((rows, *tables), curator.domain, rng)


def _uniform(
    measured: tuple[NoisyMarginal, ...], domain: Domain, rng: np.random.Generator
) -> SyntheticTable:
    names = domain.discrete
    cliques = tuple((name,) for name in names)
    codes = rng.integers(0, domain.shape(names), (5, len(names)))
    links = tuple((0, index) for index in range(1, len(names)))
    return SyntheticTable(names, codes, measured, cliques, links, domain, seed=1)


MODEL = AsksEverything()


@every_delta
@every_distance
@pytest.mark.parametrize("epsilon", [Fraction("0.1"), ONE, Fraction("2.5")], ids=str)
def test_the_scales_drawn_prove_what_is_claimed(
    delta: Fraction | None, distance: int, epsilon: Fraction
) -> None:
    check_budget(MODEL, epsilon=epsilon, distance=distance, delta=delta)


@every_delta
@pytest.mark.parametrize("people_in", AWKWARD)
def test_the_recorded_answers_give_the_same_bytes_over_anybody(
    delta: Fraction | None, people_in: str
) -> None:
    check_replay(MODEL, elsewhere=[AWKWARD[people_in]], delta=delta)
    check_valid(MODEL, run(MODEL, AWKWARD[people_in], delta=delta).released)


@every_delta
@every_distance
def test_along_any_answers_a_person_costs_at_most_the_claim(
    delta: Fraction | None, distance: int
) -> None:
    fuzz_loss(MODEL, distance=distance, delta=delta, examples=12)


def test_a_model_pays_in_epsilon_and_with_a_delta_in_rho() -> None:
    assert claimed(MODEL, ONE).amount == 1
    rho = claimed(MODEL, ONE, DELTA).amount
    assert 0 < rho < Fraction(1, 10)
    done = run(MODEL, TEN_PEOPLE, delta=DELTA)
    assert {spend.currency for spend in done.spends} == {"zcdp"}
    assert sum(spend.epsilon for spend in done.spends) == rho


# Mutants.


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
    exact = session._candidates.exact(curator._executor.counter)
    released = sound(curator, epsilon)
    return replace(released, codes=np.repeat(released.codes[:1], int(exact[0]) // UNIT, axis=0))


def check_everything(model: object, *, delta: Fraction | None, distance: int = 1) -> None:
    check_budget(model, epsilon=ONE, distance=distance, delta=delta)
    fuzz_loss(model, distance=distance, delta=delta, examples=12)
    check_replay(model, elsewhere=[AWKWARD["two people"]], delta=delta)


@every_delta
@pytest.mark.parametrize(
    ("wrong", "distance"),
    [(half_the_noise, 1), (own_reach, 3), (unpaid_scores, 1), (exact_scores, 1)],
)
def test_a_model_that_breaks_its_promise_is_caught(
    wrong: WrongFit, distance: int, delta: Fraction | None
) -> None:
    with pytest.raises((AssertionError, Damaged, OtherQuestion)):
        check_everything(broken(AsksEverything, wrong)(), delta=delta, distance=distance)


WRONG_GATES: dict[str, tuple[object, str, Callable[..., object]]] = {
    "all scores for the price of one": (
        Candidates,
        "moves",
        lambda self, places: [self._moves[places[0]]] + [0] * (len(places) - 1),
    ),
    "half a score": (Independence, "linf", lambda _, rows: UNIT * rows),
}


@every_delta
@pytest.mark.parametrize("name", WRONG_GATES)
def test_a_gate_that_charges_too_little_for_scores_is_caught(
    name: str, delta: Fraction | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*WRONG_GATES[name])
    with pytest.raises(AssertionError):
        fuzz_moves(delta)


def fuzz_moves(delta: Fraction | None) -> None:
    """Fail if one person moves what is measured or chosen from by more than was paid for."""
    for rows in (TEN_PEOPLE, *AWKWARD.values()):
        for person in (TEN_PEOPLE[0], (0.0, 0.7, "red", "yes")):
            check_each_draw(rows, person, delta)


def check_each_draw(rows: tuple[Row, ...], person: Row, delta: Fraction | None) -> None:
    one, other = (
        run(MODEL, everybody, noise=ForcedNoise(1), delta=delta)
        for everybody in (rows, (*rows, person))
    )
    for here, there, spend in zip(one.draws, other.draws, one.spends, strict=True):
        moved = np.abs(here.exact - there.exact).ravel().astype(object)
        if spend.mechanism == LAPLACE:
            assert moved.sum() <= spend.sensitivity
        elif spend.mechanism == GAUSSIAN:
            assert (moved * moved).sum() <= spend.sensitivity
        else:
            assert moved.max() <= spend.sensitivity


@every_delta
def test_no_draw_of_the_model_moves_by_more_than_was_paid_for(delta: Fraction | None) -> None:
    fuzz_moves(delta)


# Neighbours that replace one row.


@dataclass(frozen=True)
class ReadsPublicRows(AsksEverything):
    """For neighbours with as many rows."""

    needs_public_rows: ClassVar[bool] = True

    def fit(
        self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator
    ) -> SyntheticTable:
        assert curator.public_rows() >= 0
        return super().fit(curator, epsilon=epsilon, rng=rng)


@every_delta
def test_public_rows_are_checked_where_a_row_is_replaced(delta: Fraction | None) -> None:
    model = ReadsPublicRows()
    assert model.needs_public_rows
    check_budget(model, epsilon=ONE, distance=1, delta=delta)
    check_replay(model, delta=delta)
    fuzz_loss(model, distance=1, delta=delta, examples=12)


def test_a_claim_over_a_domain_is_asked_for_with_the_domain() -> None:
    class ClaimsByAttribute(AsksEverything):
        def guarantee(self, epsilon: Fraction, domain: Domain | None = None) -> PrivacyGuarantee:
            return PrivacyGuarantee("dp", epsilon * len(domain.names), "a multiple")

    assert claimed(ClaimsByAttribute(), ONE).amount == 4
