"""Parameters in words: those that the facts of a release hold, of every model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.parameters import fact_text, fact_values, texts_of
from dp_pipeline.models import MODELS
from dp_pipeline.reporting.text import parameter_words


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
