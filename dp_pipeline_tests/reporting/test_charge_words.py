"""A charge in words: short, exact where that is short, and nothing in it for programs alone."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.reporting.text import (
    LONGEST,
    LONGEST_QUESTION,
    cost_text,
    count_text,
    question_words,
)


def test_question_words_omit_grid_units():
    plain = "clipped squared distance to 3 released centres"
    assert question_words(f"{plain}, clip 135288970239490 shift 27") == plain
    assert question_words("marginal of clip 1 shift 2") == "marginal of clip 1 shift 2"


@given(st.text(max_size=200))
def test_no_question_is_long(kind: str):
    words = question_words(kind)
    assert len(words) <= LONGEST_QUESTION
    assert kind.startswith(words.removesuffix("…"))


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**6))
def test_cost_is_exact_or_approximate(cost: Fraction):
    text = cost_text(cost)
    if text.startswith("≈"):
        assert len(str(cost)) > LONGEST or (cost * 10**9).denominator == 1
    else:
        assert Fraction(text) == cost


def test_a_count_keeps_its_digits_below_a_million():
    assert [count_text(item) for item in (0, 1, 999_999, 1_000_000, -5)] == [
        "0", "1", "999,999", "1.00×10⁶", "-5",
    ]  # fmt: skip
