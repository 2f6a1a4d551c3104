"""Cells that a spreadsheet would compute are text; numbers stay numbers."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.spreadsheet import escape_formula

FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1"]
FORMULAS += ["-", "+1/3"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_quoted(text):
    assert escape_formula(text) == f"'{text}"


WORDS = ["-0.5", "+3", "-1e-9", "-.5", "", "ε=0.5", "a=1", "'=1", -0.5, None]


@pytest.mark.parametrize("value", WORDS)
def test_a_number_or_a_word_stays_as_it_is(value):
    assert escape_formula(value) == value


@given(st.text(max_size=9))
def test_no_cell_begins_with_a_formula(text):
    written = io.StringIO()
    csv.writer(written).writerow([escape_formula(text), "end"])
    first, _ = next(csv.reader(io.StringIO(written.getvalue(), newline="")))
    if first.lstrip(" ")[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") and first.strip(" "):
        float(first)
    assert first in (text, f"'{text}")
