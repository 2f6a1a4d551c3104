"""Looks without noise: benchmark rows alone, recorded before the look, never called private."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation, Damaged, DeclarationError
from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.parts import PartsCounter
from dp_pipeline.results.accountant import Accountant, Disclosure
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.gate.questions import FailingCounter
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN, LoopCounter

Question = Callable[[Curator], IntArray]
QUESTIONS: dict[str, Question] = {
    "bounds": lambda curator: curator.disclose_bounds(("x", "y"), reason="because"),
    "records": lambda curator: curator.disclose_records(("x", "y"), 3, 7, reason="because"),
}


class Recorded:
    """Rows that are looked at only after the accountant knows."""

    domain = TOWN

    def __init__(self, accountant: Accountant) -> None:
        self._accountant, self._loop = accountant, LoopCounter(TEN_PEOPLE)

    def __getattr__(self, name: str) -> object:
        assert self._accountant.kind == "not-dp"
        return getattr(self._loop, name)


def benchmark(counter: Counter | None, transcript: Transcript | None = None) -> Curator:
    """A curator over public rows."""
    return curator_over(counter, epsilon=Fraction(1), transcript=transcript, benchmark=True)


@pytest.fixture(params=QUESTIONS.values(), ids=QUESTIONS.keys())
def ask(request: pytest.FixtureRequest) -> Question:
    return request.param


def test_nothing_is_disclosed_of_protected_rows(ask: Question) -> None:
    transcript = Transcript()
    curator = curator_over(FailingCounter(), transcript=transcript)
    with pytest.raises(BoundaryViolation, match="Only benchmark rows may be disclosed"):
        ask(curator)
    assert curator.accountant.kind == "dp"
    assert transcript.records == ()


def test_the_charge_comes_before_any_row_is_read(ask: Question) -> None:
    curator = benchmark(None)
    executor = replace(curator._executor, counter=Recorded(curator.accountant))
    ask(replace(curator, _executor=executor))
    (disclosed,) = curator.accountant.disclosures
    assert disclosed == Disclosure(disclosed.what, "because")
    assert curator.accountant.spends == ()


def test_no_noise_is_drawn_and_the_answers_are_exact() -> None:
    curator = benchmark(LoopCounter(TEN_PEOPLE))
    low, high = QUESTIONS["bounds"](curator)
    assert [
        coordinate.decode(q) for coordinate, q in zip(TOWN.box(("x", "y")), low, strict=True)
    ] == [pytest.approx(0.5, abs=1e-4), pytest.approx(-0.9, abs=1e-4)]
    assert high.tolist() == [1 << 16, 1 << 16]
    records = QUESTIONS["records"](curator)
    everybody = LoopCounter(TEN_PEOPLE).places(("x", "y"))
    assert len({tuple(row) for row in records.tolist()} & set(everybody)) == 3


def test_the_answers_are_replayed_without_rows(ask: Question) -> None:
    transcript = Transcript()
    first = ask(benchmark(LoopCounter(TEN_PEOPLE), transcript))
    (record,) = transcript.records
    assert record.words.startswith("disclosed without noise: ")
    replay = benchmark(None, transcript.rewind())
    assert np.array_equal(ask(replay), first)
    assert replay.accountant.kind == "not-dp"
    with pytest.raises(Damaged, match="needs a stored answer"):
        ask(replay)


@pytest.mark.parametrize("columns", [(), ("x", "x"), ("colour",), ("age",)])
def test_wrong_columns_are_refused_before_they_are_recorded(columns) -> None:
    curator = benchmark(FailingCounter())
    records = partial(curator.disclose_records, many=1, salt=0)
    for ask in (curator.disclose_bounds, records):
        with pytest.raises((BoundaryViolation, DeclarationError)):
            ask(columns, reason="because")
    assert curator.accountant.disclosures == ()


@pytest.mark.parametrize(("many", "salt"), [(0, 0), (-1, 0), (1 << 25, 0), (1, -1), (1, 1 << 63)])
def test_no_records_and_salts_that_are_none_are_refused(many: int, salt: int) -> None:
    curator = benchmark(FailingCounter())
    with pytest.raises(BoundaryViolation, match="A disclosure needs 1 to"):
        curator.disclose_records(("x",), many, salt, reason="because")
    assert curator.accountant.disclosures == ()


def test_units_with_parts_disclose_nothing(ask: Question) -> None:
    with pytest.raises(BoundaryViolation, match="can be counted in tables alone, not by"):
        ask(benchmark(PartsCounter(LoopCounter(TEN_PEOPLE), TOWN)))
