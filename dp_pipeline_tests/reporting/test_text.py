"""Numbers, charges, parameters and progress as text."""

import math
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.parameters import fact_text, fact_values, texts_of
from dp_pipeline.models import MODELS
from dp_pipeline.reporting.text import (
    LONGEST,
    LONGEST_QUESTION,
    cost_text,
    count_text,
    noisy_text,
    number_text,
    parameter_words,
    progress,
    question_words,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.5, "0.500"),
        (9.999, "10.0"),
        (999.6, "1,000"),
        (123456.0, "123,000"),
        (-12.34, "-12.3"),
        (0.000123, "0.000123"),
        (0.00001, "1.00×10⁻⁵"),
        (1_000_000.0, "1.00×10⁶"),
        (5e-324, "4.94×10⁻³²⁴"),
        (-1e308, "-1.00×10³⁰⁸"),
        (math.nan, "n/a"),
        (math.inf, "n/a"),
    ],
)
def test_a_number_shows_three_significant_digits(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("value", "deviation", "text"),
    [
        (12.34, 0.41, "12.3 ± 0.4"),
        (12.34, 0.14, "12.3 ± 0.14"),
        (1234.0, 3.0, "1,230 ± 3"),
        (0.0, 0.4, "0.0 ± 0.4"),
        (0.001234, 5.0, "0 ± 5"),
        (12.34, 0.0, "12.3 ± 0"),
        (0.0, 0.0, "0 ± 0"),
        (1.234e-7, 2e-8, "(1.2 ± 0.2)×10⁻⁷"),
        (math.nan, 1.0, "n/a"),
    ],
)
def test_a_noisy_number_shows_no_digit_below_its_noise(value, deviation, text):
    assert noisy_text(value, deviation) == text


@given(st.text(max_size=200))
def test_no_question_is_long(kind: str):
    words = question_words(kind)
    assert len(words) <= LONGEST_QUESTION
    assert kind.startswith(words.removesuffix("…"))
    # Units of the grid are left out of distances alone.
    plain = "clipped squared distance to 3 released centres"
    assert question_words(f"{plain}, clip 135288970239490 shift 27") == plain
    assert question_words("marginal of clip 1 shift 2") == "marginal of clip 1 shift 2"


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**6))
def test_cost_is_exact_or_approximate(cost: Fraction):
    text = cost_text(cost)
    if text.startswith("≈"):
        assert len(str(cost)) > LONGEST or (cost * 10**9).denominator == 1
    else:
        assert Fraction(text) == cost


def test_a_count_keeps_its_digits_below_a_million():
    texts = [count_text(count) for count in (0, 1, 999_999, 1_000_000, -5)]
    assert texts == ["0", "1", "999,999", "1.00×10⁶", "-5"]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({}, "none"),
        ({"columns": "()", "k": "8"}, "columns: all; k: 8"),
        ({"columns": str(("x",))}, "columns: x"),
        ({"columns": str(("x", "it's")), "share": "1/3"}, "columns: x, it's; share: 1/3"),
        ({"synthetic_rows": "None"}, "synthetic_rows: not set"),
        ({"integer": "(a, b"}, "integer: (a, b"),
    ],
)
def test_parameters_are_plain_words(texts: dict[str, str], words: str):
    assert parameter_words(fact_text(texts)) == words


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("measuring", [True, False])
def test_no_parameter_of_any_model_has_a_mark_of_a_program(name: str, measuring: bool):
    words = parameter_words(fact_text(texts_of(MODELS[name](), measuring=measuring)))
    assert not set("(){}'\"") & set(words)
    assert "None" not in words


@given(st.text(max_size=60))
def test_text_that_holds_no_parameters_stays_as_it_is(text: str):
    if not text.strip().startswith("{"):
        assert parameter_words(text) == text


@pytest.mark.parametrize("text", ["{'k': '8'}", "[1]", "{" * 100_000, '"k"', "null"])
def test_text_of_another_program_stays_as_it_is(text: str):
    assert parameter_words(text) == text


@pytest.mark.chain
@given(
    st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), st.text("ab'\"\\{}", max_size=9))
)
def test_any_parameter_value_has_words(texts: dict[str, str]):
    words = parameter_words(fact_text(texts))
    by_name = (f"{name}: {texts[name] or 'none'}" for name in sorted(texts))
    assert words == ("; ".join(by_name) or "none")
    assert fact_values(fact_text(texts)) == texts


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("quiet", [False, True])
def test_a_log_gets_one_plain_line_a_step(terminal: bool, quiet: bool, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with progress(2, quiet=quiet) as on_step:
        on_step("rides: rows")
        before = capsys.readouterr()
        on_step("rides: ε=0.1")
    after = capsys.readouterr()
    assert before.out + after.out == ""
    if quiet:
        assert before.err + after.err == ""
    elif terminal:
        assert " …\n" not in before.err + after.err
    else:
        # A line is there before its step ends.
        assert (before.err, after.err) == ("rides: rows …\n", "rides: ε=0.1 …\n")
