"""Scores that were looked up once: every question about them is paid for, and none shows them."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation, BudgetExceeded, Damaged
from dp_pipeline.gate import selection
from dp_pipeline.gate.counter import Sealed
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
from dp_pipeline_tests.instruments import SILENT, RecordingNoise, curator_over
from dp_pipeline_tests.populations import NOBODY, TEN_PEOPLE, TOWN, LoopCounter

FLAT = {pair: DependenceScore(np.zeros(TOWN.shape(pair), np.int64)) for pair in PAIRS}
"""A pair's gap from nothing is the number of rows: one person moves every score by one row."""

MIXED: dict[tuple[str, ...], Score] = {**FLAT, PAIRS[1]: Independence()}
FIFTH = SILENT / 5


def session_over(rows=TEN_PEOPLE, scores=None) -> ScoreSession:
    """A session without noise to speak of."""
    return curator_over(rows).open_scores(FLAT if scores is None else scores)


@dataclass(frozen=True)
class CountedCounter(LoopCounter):
    """Records the marginals of every scan."""

    scans: list[list[tuple[str, ...]]] = field(default_factory=list)

    def count(self, marginals: Sequence[tuple[str, ...]]) -> list[Sealed]:
        self.scans.append(list(marginals))
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
    assert counter.scans == []
    session.measure_all(amount=FIFTH)
    session.measure_total(amount=FIFTH)
    session.choose("edge", PAIRS, amount=FIFTH)
    assert counter.scans == [list(PAIRS)]


def test_too_many_tables_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MAX_CELLS_AT_ONCE", 12)
    counter = CountedCounter(TEN_PEOPLE)
    parts = curator_over(counter).open_scores(MIXED).measure_all(amount=SILENT)
    assert counter.scans == [list(PAIRS[:2]), list(PAIRS[2:])]
    assert parts.tolist() == session_over(scores=MIXED).measure_all(amount=SILENT).tolist()


def test_a_table_of_many_is_counted_in_one_scan() -> None:
    counter = CountedCounter(TEN_PEOPLE)
    tables = curator_over(counter).tabulate({(): SILENT / 2, ("colour",): SILENT / 2})
    assert counter.scans == [[(), ("colour",)]]
    assert [table.table.tolist() for table in tables] == [10, [4, 3, 3]]
    assert [table.attributes for table in tables] == [(), ("colour",)]


def test_no_tables_cost_nothing() -> None:
    curator = curator_over(TEN_PEOPLE)
    assert (curator.tabulate({}), curator.accountant.spends) == ((), ())


QUERIES: dict[str, Callable[[ScoreSession], object]] = {
    "all": lambda session: session.measure_all(amount=ONE),
    "together": lambda session: session.measure_together(epsilon=ONE),
    "total": lambda session: session.measure_total(amount=ONE),
    "choose": lambda session: session.choose("edge", PAIRS[:2], amount=ONE),
}
PAID = {"all": 4, "together": 2, "total": 4, "choose": 2}
"""Rows that a person moves them by: one row for a gap, and two for a score U."""


@pytest.mark.parametrize("kind", QUERIES)
def test_a_question_is_paid_for_with_what_a_person_moves_by(kind: str) -> None:
    curator = curator_over(TEN_PEOPLE, epsilon=ONE)
    session = curator.open_scores(MIXED)
    assert curator.accountant.spends == ()
    QUERIES[kind](session)
    (spend,) = curator.accountant.spends
    assert (spend.sensitivity, spend.epsilon) == (PAID[kind] * UNIT + 1, ONE)
    with pytest.raises(BudgetExceeded):
        QUERIES[kind](session)


@pytest.mark.parametrize("kind", ["all", "total"])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_sensitivity_of_gaps_is_reached(kind: str, rows: int) -> None:
    person = list(TEN_PEOPLE[:1]) * rows
    ((most, paid),) = moved(lambda curator: QUERIES[kind](curator.open_scores(FLAT)), [], person)
    assert most == paid == 3 * rows * UNIT


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


def test_candidates_do_not_change_after_they_are_opened() -> None:
    scores = dict(FLAT)
    session = curator_over(TEN_PEOPLE).open_scores(scores)
    scores.clear()
    answers: IntArray = session.measure_all(amount=SILENT)
    assert len(answers) == 3


PUBLIC: dict[str, Any] = {"benchmark": True, "relation": "replace_one", "distance": 2}
NOT_PUBLIC: dict[str, dict[str, Any]] = {
    "rows to be protected": {**PUBLIC, "benchmark": False},
    "a person more or less": {**PUBLIC, "relation": "add_remove"},
    "a person with many rows": {**PUBLIC, "distance": 6},
    "what is not declared": {},
}


@pytest.mark.parametrize("rows", [NOBODY, TEN_PEOPLE])
def test_public_rows_are_free_and_recorded(rows: Any) -> None:
    transcript, noise = Transcript(), RecordingNoise()
    curator = curator_over(rows, transcript=transcript, noise=noise, **PUBLIC)
    assert curator.public_rows() == len(rows)
    assert (curator.accountant.spends, noise.draws) == ((), [])
    assert curator.accountant.kind == "dp"
    (record,) = transcript.records
    assert (record.words, int(record.answer)) == ("public, not noisy: number of rows", len(rows))


def test_the_recorded_number_of_rows_is_replayed_over_other_rows() -> None:
    transcript = Transcript()
    curator_over(TEN_PEOPLE, transcript=transcript, **PUBLIC).public_rows()
    for rows in (None, NOBODY):
        again = curator_over(rows, transcript=transcript.rewind(), **PUBLIC)
        assert again.public_rows() == 10
    with pytest.raises(Damaged, match="needs a stored answer"):
        curator_over(None, **PUBLIC).public_rows()


@pytest.mark.parametrize("name", NOT_PUBLIC)
def test_elsewhere_scores_of_public_rows_are_refused(name: str) -> None:
    transcript = Transcript()
    curator = curator_over(TEN_PEOPLE, transcript=transcript, **NOT_PUBLIC[name])
    for ask in (
        curator.public_rows,
        lambda: curator.open_scores({PAIRS[0]: MutualInformation(10)}),
        lambda: curator.choose("edge", {PAIRS[1]: FScore()}, epsilon=ONE),
    ):
        with pytest.raises(BoundaryViolation, match="needs a public number of rows"):
            ask()
    assert (curator.accountant.spends, transcript.records) == ((), ())


def test_scores_of_public_rows_are_charged_like_others() -> None:
    curator = curator_over(TEN_PEOPLE, **PUBLIC)
    rows = curator.public_rows()
    pairs = {pair: MutualInformation(rows) for pair in PAIRS}
    session = curator.open_scores(pairs)
    session.measure_all(amount=SILENT / 2)
    (spend,) = curator.accountant.spends
    assert spend.sensitivity == 3 * MutualInformation(10).linf(2)
    families = curator.open_scores({("smokes", "colour", "y"): FScore()})
    exact = families.measure_total(amount=SILENT / 2)
    # Five who do not smoke are red or green below, or blue; of smokers two are left elsewhere.
    assert exact == -3 * UNIT


def test_a_score_of_another_number_of_rows_shows_no_number() -> None:
    curator = curator_over(TEN_PEOPLE, **PUBLIC)
    session = curator.open_scores({PAIRS[0]: MutualInformation(11)})
    with pytest.raises(BoundaryViolation, match="must count") as refused:
        session.measure_all(amount=ONE)
    assert "10" not in str(refused.value)
    assert np.isclose(float(curator.accountant.spent), 1)
