"""The contract of a model that pays in ρ: exactly its budget, along any answers, in replays."""

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
from dp_pipeline.models.base import Model
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.models.contract import (
    check_budget,
    check_replay,
    check_valid,
    fuzz_loss,
    run,
)
from dp_pipeline_tests.models.discrete import every_delta
from dp_pipeline_tests.models.mutants import broken, half_the_noise, own_reach, unpaid
from dp_pipeline_tests.populations import AWKWARD

ONE = Fraction(1)
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


def _uniform(measured, domain, rng) -> SyntheticTable:
    names = domain.discrete
    cliques = tuple((name,) for name in names)
    codes = rng.integers(0, domain.shape(names), (5, len(names)))
    links = tuple((0, index) for index in range(1, len(names)))
    return SyntheticTable(names, codes, measured, cliques, links, domain, seed=1)


MODEL = AsksEverything()


@every_delta
@every_distance
@pytest.mark.parametrize("epsilon", [Fraction("0.1"), ONE, Fraction("2.5")], ids=str)
def test_the_scales_drawn_prove_what_is_claimed(delta, distance, epsilon):
    check_budget(MODEL, epsilon=epsilon, distance=distance, delta=delta)


@every_delta
@pytest.mark.parametrize("people_in", AWKWARD)
def test_the_recorded_answers_give_the_same_bytes_over_anybody(delta, people_in):
    check_replay(MODEL, elsewhere=[AWKWARD[people_in]], delta=delta)
    check_valid(MODEL, run(MODEL, AWKWARD[people_in], delta=delta).released)


@every_delta
@every_distance
def test_along_any_answers_a_person_costs_at_most_the_claim(delta, distance):
    fuzz_loss(MODEL, distance=distance, delta=delta, examples=12)


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


def check_everything(model: object, *, delta: Fraction | None, distance: int = 1) -> None:
    check_budget(model, epsilon=ONE, distance=distance, delta=delta)
    fuzz_loss(model, distance=distance, delta=delta, examples=12)
    check_replay(model, elsewhere=[AWKWARD["two people"]], delta=delta)


@every_delta
@pytest.mark.parametrize(
    ("wrong", "distance"),
    [(half_the_noise, 1), (own_reach, 3), (unpaid_scores, 1), (exact_scores, 1)],
)
def test_a_model_that_breaks_its_promise_is_caught(wrong, distance, delta):
    with pytest.raises((AssertionError, Damaged, OtherQuestion)):
        check_everything(broken(AsksEverything, wrong)(), delta=delta, distance=distance)
