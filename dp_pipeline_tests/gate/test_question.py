"""A question is known by what was asked, by all of it, and by no word."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import OtherQuestion
from dp_pipeline.gate import charge as questions
from dp_pipeline.gate import table_curator
from dp_pipeline.gate.charge import digest_of, question_digest
from dp_pipeline.results.accountant import LAPLACE, Spend
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.gate.golden_questions import FILE, golden_questions
from dp_pipeline_tests.gate.questions import ONE
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.populations import TEN_PEOPLE

ADVICE = """a question of the gate has another identity than before.
Releases that were begun could not be finished. If it is answered otherwise now, or is a new one,
write the file anew and say why:
    python -m dp_pipeline_tests.gate.golden_questions
"""
SPEND = Spend("the marginal of age", LAPLACE, Fraction(1, 3), 2, Fraction(6))


def test_every_kind_of_question_has_its_golden_identity() -> None:
    assert list(golden_questions()) == FILE.read_text(encoding="utf-8").splitlines(), ADVICE


def test_a_reworded_question_gets_the_answer_that_was_paid_for(monkeypatch):
    transcript = Transcript()
    measured = curator_over(TEN_PEOPLE, transcript=transcript).measure(("smokes",), epsilon=ONE)
    monkeypatch.setattr(table_curator, "_words", lambda names: f"how many {' × '.join(names)}")
    again = curator_over(None, transcript=transcript.rewind())
    assert again.measure(("smokes",), epsilon=ONE).table.tolist() == measured.table.tolist()
    assert "marginal of smokes" in transcript.records[0].words


def test_another_version_makes_another_question(monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = Transcript()
    curator_over(TEN_PEOPLE, transcript=transcript).measure(("smokes",), epsilon=ONE)
    monkeypatch.setattr(questions, "DIGEST_VERSION", questions.DIGEST_VERSION + 1)
    with pytest.raises(OtherQuestion, match="'discrete Laplace: marginal of smokes, Δ=1, ε=1'"):
        curator_over(None, transcript=transcript.rewind()).measure(("smokes",), epsilon=ONE)


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "noisy max"},
        {"epsilon": Fraction(1, 4)},
        {"sensitivity": 3},
        {"scale": Fraction(7)},
        {"currency": "zcdp"},
    ],
    ids=str,
)
def test_the_key_of_a_question_includes_its_noise(change: Mapping[str, object]) -> None:
    same = Spend(**{**vars(SPEND), "what": "how old they are"})
    other = Spend(**{**vars(SPEND), **change})  # type: ignore[arg-type]
    question = ("marginal", ("age",))
    digest = question_digest(question, SPEND)
    assert question_digest(question, same) == digest
    assert question_digest(question, other) != digest
    assert question_digest(question, None) != digest
    assert question_digest(question, SPEND, ("ab",)) != digest


public = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda parts: st.lists(parts, max_size=3).map(tuple),
    max_leaves=6,
)


@settings(max_examples=80)
@given(value=public, other=public)
def test_what_differs_has_another_digest(value: object, other: object) -> None:
    # repr tells True from 1, which are equal to Python and to JSON are not.
    assert (digest_of(value) == digest_of(other)) == (repr(value) == repr(other))


def test_keys_of_arrays_depend_on_numbers_and_shape() -> None:
    numbers = np.arange(5_000)
    changed = numbers.copy()
    changed[2_500] += 1
    shapes = [numbers, changed, numbers.reshape(50, 100), numbers[:-1]]
    assert len({digest_of(shape) for shape in shapes}) == len(shapes)
    assert digest_of(numbers.astype(np.int16)) == digest_of(numbers)
    assert digest_of(numbers[::2]) == digest_of(numbers[::2].copy())


@dataclass(frozen=True)
class Rule:
    columns: tuple[str, ...]
    bits: int = 0


def test_every_field_of_a_rule_belongs_to_a_question() -> None:
    assert digest_of(Rule(("x",))) == digest_of([["columns", ["x"]], ["bits", 0]])
    assert digest_of(Rule(("x",), bits=1)) != digest_of(Rule(("x",)))


@pytest.mark.parametrize("value", [0.5, np.array([0.5]), b"x", {1, 2}, np.float64(1)], ids=repr)
def test_what_has_no_exact_text_is_no_part_of_a_question(value: object) -> None:
    with pytest.raises(TypeError, match="must be made of texts"):
        digest_of(("marginal", value))
