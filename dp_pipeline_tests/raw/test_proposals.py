"""Proposals of public rows: every value fits what is proposed."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.attribute_parser import attribute_section
from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.draft import SourceColumn
from dp_pipeline.config.encoding import INVALID
from dp_pipeline.config.reading_parser import DEFAULT_READING
from dp_pipeline.config.source import Source
from dp_pipeline.config.yaml_text import Document, field_text
from dp_pipeline.raw.proposals import (
    MAX_CODES,
    MAX_LEVELS,
    neat_bounds,
    propose_columns,
    propose_fields,
)
from dp_pipeline.raw.values import level_codes, missing_cells, valid_numbers

X = SourceColumn("x", "unknown")


def proposal(values: list[str | None]) -> SourceColumn:
    return propose_fields(X, pa.chunked_array([pa.array(values, pa.string())]))


def attribute(column: SourceColumn) -> Attribute:
    """The attribute that the proposal declares, by way of its text."""
    lines = "\n".join(field_text("x", column.proposal))
    section = Document.of_text(lines, Path("a.yaml")).texts["x"]
    return attribute_section(section).attribute("x", "drop", DEFAULT_READING)


CELLS = st.one_of(
    st.sampled_from(["", "?", "NA", "missing", "yes", "no", " yes"]),
    st.sampled_from(["1", "1.0", "-3", "2.5", "1e3"]),
    st.integers(-(10**6), 10**6).map(str),
    st.floats(-1e6, 1e6).map(repr),
    st.text(max_size=3),
)


@settings(max_examples=40)
@given(values=st.lists(st.one_of(st.none(), CELLS), min_size=1, max_size=60))
def test_no_row_of_public_texts_is_lost_under_what_is_proposed(values):
    actual = proposal(values)
    column = pa.chunked_array([pa.array(values, pa.string())])
    if not actual.proposal:
        assert actual.remark
        return
    assert_no_row_is_lost(attribute(actual), column)


@settings(max_examples=40)
@given(values=st.lists(st.one_of(st.none(), st.floats(-1e12, 1e12)), min_size=1, max_size=40))
def test_no_row_of_public_numbers_is_lost_under_what_is_proposed(values):
    column = pa.chunked_array([pa.array(values, pa.float64())])
    proposal = propose_fields(X, column)
    if proposal.proposal:
        assert_no_row_is_lost(attribute(proposal), column)


def assert_no_row_is_lost(declared: Attribute, column: pa.ChunkedArray) -> None:
    if declared.is_numeric:
        valid = valid_numbers(declared, column)
        assert (missing_cells(declared, column) | np.isfinite(valid)).all()
    else:
        assert (level_codes(declared, column) != INVALID).all()


@settings(max_examples=40)
@given(least=st.floats(-1e9, 1e9, allow_subnormal=False), width=st.floats(1e-6, 1e9))
def test_neat_bounds_hold_both_numbers_and_little_more(least, width):
    most = least + width
    if not most > least:
        return
    lower, upper = map(float, neat_bounds(least, most))
    assert lower <= least < most <= upper
    assert upper - lower <= 1.3 * (most - least)


NULLABLE, TENTHS = {"nullable": "true"}, {"bins": "10"}
PROPOSED = {
    "texts": (["b", "a", "b"], {"levels": ["a", "b"]}),
    "codes": (["10", "9", "10"], {"levels": ["9", "10"]}),
    "a quantity": (
        [str(n) for n in range(11)], TENTHS | {"bounds": ["0", "10"], "integer": "true"}
    ),
    "missing numbers": (
        ["0.5", "1.5", "?"], NULLABLE | TENTHS | {"bounds": ["0.5", "1.5"], "missing": ["?"]}
    ),
    "a null": (["a", "b", None], NULLABLE | {"levels": ["a", "b"]}),
    "a level called missing": (
        ["a", "b", "missing", ""], NULLABLE | {"levels": ["a", "b"], "missing": ["missing"]}
    ),
    "comma": (["0,5", "1,5"], TENTHS | {"bounds": ["0.5", "1.5"], "decimal": ","}),
    "comma and groups": (
        ["1.200,5", "200"],
        TENTHS | {"bounds": ["200", "1300"], "decimal": ",", "thousands": "."},
    ),
    "days": (
        ["2026-01-01", "2026-12-31", ""],
        NULLABLE | {"type": "date", "bounds": ["2026-01-01", "2026-12-31"], "every": "week"},
    ),
    "times": (
        ["2026-10-01T23:00:00+00:00", "2026-10-30 10:00"],
        {"type": "timestamp", "bounds": ["2026-10-01", "2026-10-30"], "every": "day"},
    ),
    "a format": (
        ["1.2.2016", "31.12.2026"],
        {"type": "date", "bounds": ["2016-02-01", "2026-12-31"], "every": "year"}
        | {"format": "%d.%m.%Y"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROPOSED)
def test_what_is_proposed(name):
    values, fields = PROPOSED[name]
    assert proposal(values).proposal == fields


@pytest.mark.parametrize(
    ("values", "remark"),
    [
        ([f"note {n}" for n in range(MAX_LEVELS + 1)], "65 different texts"),
        (["a", "a", ""], "a single value"),
        (["", None], "no value"),
        (["1e15", "2e15", *map(str, range(MAX_CODES))], "numbers too large"),
        (["1,234", "2,345"], "numbers with a point or a comma of unclear"),
        (["1/2/2026", "2/3/2026"], "dates that fit two formats"),
    ],
    ids=["too many", "one", "none", "too large", "two signs", "two formats"],
)
def test_what_cannot_be_declared_has_a_remark(values, remark):
    actual = proposal(values)
    assert (actual.proposal, actual.remark.startswith(remark)) == ({}, True)


def test_public_look_covers_every_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("age,town\n1,a\n2,b\n30.5,a\n")
    kinds = {"age": "unknown", "odd": "unusable", "town": "unknown"}
    columns = [SourceColumn(*pair) for pair in kinds.items()]
    rows, looked = propose_columns(Source("csv", str(path)), columns, name="toy")
    assert rows == 3
    proposals = {column.name: bool(column.proposal) for column in looked}
    assert proposals == {"age": True, "odd": False, "town": True}
