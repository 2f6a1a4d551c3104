"""Scores that were looked up once: every question about them is paid for, and none shows them."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation, BudgetExceeded, DeclarationError
from dp_pipeline.gate import selection
from dp_pipeline.gate import selection as candidates_file
from dp_pipeline.gate.counter import Sealed
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import (
    UNIT,
    DependenceScore,
    FScore,
    Independence,
    MutualInformation,
    Score,
)
from dp_pipeline.gate.selection import MAX_SCORE, ScoreSession
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.gate.questions import ONE, PAIRS, moved
from dp_pipeline_tests.instruments import SILENT, ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN, LoopCounter

FLAT = {pair: DependenceScore(np.zeros(TOWN.shape(pair), np.int64)) for pair in PAIRS}
"""A pair's gap from nothing is the number of rows: one person moves every score by one row."""

MIXED: dict[tuple[str, ...], Score] = {**FLAT, PAIRS[1]: Independence()}
FIFTH = SILENT / 5


def session_over(rows=TEN_PEOPLE, scores=None) -> ScoreSession:
    """A session without noise to speak of."""
    return curator_over(rows).open_scores(FLAT if scores is None else scores)


@dataclass(frozen=True)
class CountedCounter(LoopCounter):
    """Remembers what it was asked."""

    asked: list[list[tuple[str, ...]]] = field(default_factory=list)

    def count(self, marginals: Sequence[tuple[str, ...]]) -> list[Sealed]:
        self.asked.append(list(marginals))
        return super().count(marginals)


def test_all_scores_and_their_total_are_those_of_the_tables() -> None:
    session = session_over(scores=MIXED)
    (table,) = LoopCounter(TEN_PEOPLE).count([PAIRS[1]])
    exact = [10 * UNIT, Independence().score(table.open_at_the_gate()), 10 * UNIT]
    assert session.measure_all(amount=FIFTH * 4).tolist() == pytest.approx(exact, abs=9)
    session = session_over(scores=MIXED)
    assert session.measure_total(amount=FIFTH * 4) == pytest.approx(sum(exact), abs=9)


def test_a_penalty_decides_between_equal_scores() -> None:
    for dear in PAIRS:
        penalties = {pair: UNIT for pair in PAIRS if pair != dear}
        assert session_over().choose("edge", PAIRS, amount=SILENT, penalties=penalties) == dear


def test_only_a_named_candidate_is_chosen() -> None:
    for pair in PAIRS:
        assert session_over().choose("edge", [pair], amount=SILENT) == pair


def test_many_scores_take_one_reading_of_the_rows() -> None:
    counter = CountedCounter(TEN_PEOPLE)
    session = curator_over(counter).open_scores(MIXED)
    assert counter.asked == []
    session.measure_all(amount=FIFTH)
    session.measure_total(amount=FIFTH)
    session.choose("edge", PAIRS, amount=FIFTH)
    assert counter.asked == [list(PAIRS)]


def test_too_many_tables_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates_file, "MAX_CELLS_AT_ONCE", 12)
    counter = CountedCounter(TEN_PEOPLE)
    parts = curator_over(counter).open_scores(MIXED).measure_all(amount=SILENT)
    assert counter.asked == [list(PAIRS[:2]), list(PAIRS[2:])]
    assert parts.tolist() == session_over(scores=MIXED).measure_all(amount=SILENT).tolist()


def test_a_table_of_many_is_counted_in_one_scan() -> None:
    counter = CountedCounter(TEN_PEOPLE)
    tables = curator_over(counter).tabulate({(): SILENT / 2, ("colour",): SILENT / 2})
    assert counter.asked == [[(), ("colour",)]]
    assert [table.table.tolist() for table in tables] == [10, [4, 3, 3]]
    assert [table.attributes for table in tables] == [(), ("colour",)]


def test_no_tables_cost_nothing() -> None:
    curator = curator_over(TEN_PEOPLE)
    assert curator.tabulate({}) == ()
    assert curator.accountant.spends == ()


def test_an_interrupted_tabulation_draws_what_is_missing() -> None:
    amounts = {("colour",): ONE / 4, (): ONE / 4, ("smokes", "y"): ONE / 2}
    whole = Transcript()
    first = curator_over(TEN_PEOPLE, epsilon=ONE, transcript=whole).tabulate(amounts)
    for answered in range(4):
        part, noise = Transcript(), RecordingNoise(ForcedNoise(1))
        for record in whole.records[:answered]:
            part.store(record.question, record.answer)
        rows = TEN_PEOPLE if answered < 3 else None
        curator = curator_over(rows, epsilon=ONE, transcript=part.rewind(), noise=noise)
        again = curator.tabulate(amounts)
        assert len(noise.draws) == 3 - answered
        for one, other in zip(again[:answered], first, strict=False):
            assert np.array_equal(one.table, other.table)
        assert curator.accountant.remaining == 0


ASKED: dict[str, Callable[[ScoreSession], object]] = {
    "all": lambda one: one.measure_all(amount=ONE),
    "together": lambda one: one.measure_together(epsilon=ONE),
    "total": lambda one: one.measure_total(amount=ONE),
    "choose": lambda one: one.choose("edge", PAIRS[:2], amount=ONE),
}
PAID = {
    "all": (2 + 1 + 1) * UNIT + 1,
    "together": 2 * UNIT + 1,
    "total": (2 + 1 + 1) * UNIT + 1,
    "choose": 2 * UNIT + 1,
}
"""For gaps of one row and a score U of two."""


@pytest.mark.parametrize("kind", ASKED)
def test_a_question_is_paid_for_with_what_a_person_moves_by(kind: str) -> None:
    curator = curator_over(TEN_PEOPLE, epsilon=ONE)
    session = curator.open_scores(MIXED)
    assert curator.accountant.spends == ()
    ASKED[kind](session)
    (spend,) = curator.accountant.spends
    assert (spend.sensitivity, spend.epsilon) == (PAID[kind], ONE)
    with pytest.raises(BudgetExceeded):
        ASKED[kind](session)


@pytest.mark.parametrize("kind", ["all", "total"])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_sensitivity_of_gaps_is_reached(kind: str, rows: int) -> None:
    person = list(TEN_PEOPLE[:1]) * rows
    ((most, paid),) = moved(lambda one: ASKED[kind](one.open_scores(FLAT)), [], person)
    assert most == paid == 3 * rows * UNIT


def test_all_scores_for_the_price_of_one_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # The mutant of the edge filter: noise for one score on every one of them.
    monkeypatch.setattr(selection, "sum", max, raising=False)
    ((most, paid),) = moved(
        lambda one: one.open_scores(FLAT).measure_all(amount=ONE), [], [TEN_PEOPLE[0]]
    )
    assert most == 3 * paid


def test_scores_near_the_end_of_int64_are_cut_and_never_refused() -> None:
    far = DependenceScore(np.full((3, 2), 1 << 62))
    scores = {PAIRS[0]: far, PAIRS[1]: DependenceScore(np.full((2, 3), -(1 << 62)))}
    session = session_over(scores=scores)
    answers = session.measure_all(amount=SILENT / 2)
    assert np.abs(answers - MAX_SCORE).max() < 9
    assert abs(session.measure_total(amount=SILENT / 4) - MAX_SCORE) < 9


def test_a_session_shows_no_score_and_is_not_stored() -> None:
    session = session_over()
    session.measure_all(amount=SILENT / 2)
    assert repr(session) == str(session) == "ScoreSession(3 candidates)"
    with pytest.raises(TypeError, match="must not be stored or copied"):
        pickle.dumps(session._exact._counts)
    shown = " ".join(f"{var!r}" for name, var in vars(session).items() if name != "_executor")
    assert str(10 * UNIT) not in shown


class OwnScore(DependenceScore):
    """A score that nobody has proven."""

    def linf(self, rows_per_unit: int) -> int:
        return rows_per_unit


def asked_of_all(question: Callable[[ScoreSession], object]) -> Callable[[Curator], object]:
    return lambda curator: question(curator.open_scores(FLAT))


REFUSED: dict[str, Callable[[Curator], object]] = {
    "no candidates": lambda one: one.open_scores({}),
    "a score of one's own": lambda one: one.open_scores(
        {PAIRS[0]: OwnScore(np.zeros((3, 2), np.int64))}
    ),
    "a gap of another shape": lambda one: one.open_scores({PAIRS[1]: FLAT[PAIRS[0]]}),
    "an attribute twice": lambda one: one.open_scores({("y", "y"): Independence()}),
    "a score of the number of rows": lambda one: one.open_scores({(): Independence()}),
    "an unknown attribute": lambda one: one.open_scores({("y", "z"): Independence()}),
    "mutual information of private rows": lambda one: one.open_scores(
        {PAIRS[0]: MutualInformation(10)}
    ),
    "F of private rows": lambda one: one.open_scores({PAIRS[1]: FScore()}),
    "no amount": asked_of_all(lambda one: one.measure_all(amount=Fraction(0))),
    "a float amount": asked_of_all(lambda one: one.measure_total(amount=0.5)),  # type: ignore[arg-type]
    "a choice among none": asked_of_all(lambda one: one.choose("edge", [], amount=ONE)),
    "a choice of one twice": asked_of_all(
        lambda one: one.choose("edge", [PAIRS[0], PAIRS[0]], amount=ONE)
    ),
    "a choice of another": asked_of_all(
        lambda one: one.choose("edge", [("colour", "y")], amount=ONE)
    ),
    "a penalty of another": asked_of_all(
        lambda one: one.choose("edge", PAIRS, amount=ONE, penalties={("colour", "y"): 1})
    ),
    "a penalty that is not whole": asked_of_all(
        lambda one: one.choose("edge", PAIRS, amount=ONE, penalties={PAIRS[0]: 0.5})  # type: ignore[dict-item]
    ),
    "a penalty beyond int64": asked_of_all(
        lambda one: one.choose("edge", PAIRS, amount=ONE, penalties={PAIRS[0]: 1 << 62})
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_proven_is_refused_before_any_charge(name: str) -> None:
    counter = CountedCounter(TEN_PEOPLE)
    curator = curator_over(counter)
    with pytest.raises((BoundaryViolation, DeclarationError)) as refused:
        REFUSED[name](curator)
    assert len(str(refused.value).splitlines()) == 1
    assert (counter.asked, curator.accountant.spends) == ([], ())


def test_candidates_do_not_change_after_they_are_opened() -> None:
    scores = dict(FLAT)
    session = curator_over(TEN_PEOPLE).open_scores(scores)
    scores.clear()
    answers: IntArray = session.measure_all(amount=SILENT)
    assert len(answers) == 3
