"""Proposals of public rows: every value fits what is proposed."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.cli.draft import _source_fields
from dp_pipeline.config.attribute_parser import attribute_section
from dp_pipeline.config.database import database_name, database_url
from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.draft import SourceColumn
from dp_pipeline.config.encoding import INVALID
from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.config.reading_parser import DEFAULT_READING
from dp_pipeline.config.source import Source
from dp_pipeline.config.yaml_text import Document, field_text
from dp_pipeline.raw.proposals import (
    MAX_CODES,
    MAX_LEVELS,
    likely_delimiter,
    neat_bounds,
    propose_columns,
    propose_fields,
    read_schema,
)
from dp_pipeline.raw.values import level_codes, missing_cells, valid_numbers
from dp_pipeline_tests.raw.test_sql_source import sqlite_file

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


REMARKS = {
    "65 different texts": [f"note {n}" for n in range(MAX_LEVELS + 1)],
    "a single value": ["a", "a", ""],
    "no value": ["", None],
    "numbers too large": ["1e15", "2e15", *map(str, range(MAX_CODES))],
    "numbers with a point or a comma of unclear": ["1,234", "2,345"],
    "dates that fit two formats": ["1/2/2026", "2/3/2026"],
}


@pytest.mark.parametrize("remark", REMARKS)
def test_what_cannot_be_declared_has_a_remark(remark):
    actual = proposal(REMARKS[remark])
    assert (actual.proposal, actual.remark.startswith(remark)) == ({}, True)


def test_public_look_covers_every_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("age,town\n1,a\n2,b\n30.5,a\n")
    kinds = {"age": "unknown", "odd": "unusable", "town": "unknown"}
    columns = [SourceColumn(*pair) for pair in kinds.items()]
    rows, proposed = propose_columns(Source("csv", str(path)), columns, name="toy")
    assert rows == 3
    proposals = {column.name: bool(column.proposal) for column in proposed}
    assert proposals == {"age": True, "odd": False, "town": True}


SECRET = "90210777"

TYPES = {
    "n": (pa.int32(), "whole number"),
    "x": (pa.float64(), "number"),
    "town": (pa.large_string(), "text"),
    "colour": (pa.dictionary(pa.int8(), pa.string()), "text"),
    "let": (pa.bool_(), "boolean"),
    "nothing": (pa.null(), "unknown"),
    "start": (pa.timestamp("us"), "timestamp"),
    "price": (pa.decimal128(8, 2), "unusable"),
    "tags": (pa.list_(pa.string()), "unusable"),
}


def csv(path: Path, text: str | bytes, **options: object) -> Source:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Source("csv", str(path), **options)


def test_csv_gives_names_and_no_types(tmp_path):
    actual = read_schema(csv(tmp_path / "a.csv", f"\ufeffage,home town\n1,{SECRET}\n"))
    assert actual == (SourceColumn("age", "unknown"), SourceColumn("home town", "unknown"))
    # A truncated file still has columns, and with a declared header nothing is read at all.
    rows = b"".join(b"%d,%d\n" % (n * n, n**3) for n in range(200_000))
    whole = gzip.compress(b"age,town\n" + rows)
    cut = csv(tmp_path / "a.csv.gz", whole[: len(whole) // 2])
    absent = Source("csv", str(tmp_path / "absent.csv"), header=("age", "town"))
    for source in (cut, absent):
        assert list(kinds(read_schema(source))) == ["age", "town"]


ROWS = st.lists(st.binary(max_size=40), max_size=20)


@settings(max_examples=40)
@given(rows_before=ROWS, rows_after=ROWS)
def test_no_row_of_a_csv_file_changes_its_columns(rows_before, rows_after, tmp_path_factory):
    """Not even one that is broken: rows are not read."""
    folder = tmp_path_factory.mktemp("rows")
    actual = [
        read_schema(csv(folder / "a.csv", b"\n".join([b"age;town", *rows]), delimiter=";"))
        for rows in (rows_before, rows_after)
    ]
    assert actual[0] == actual[1]
    assert list(kinds(actual[0])) == ["age", "town"]
    assert likely_delimiter(folder / "a.csv") == ";"


NAMES_FAULT = "names of columns in the first line, got "
NO_NAMES = "line, got no row of names: write one above the rows, give the names by --header"
ODD_NAMES = {
    "a number": (f"1,{SECRET}\n2,x\n", f"{NAMES_FAULT}a number: correct it"),
    "an empty cell": (f"{SECRET}abc,,x\n", f"{NAMES_FAULT}an empty cell"),
    "a long text": (f"{SECRET * 60}a,b\n", f"{NAMES_FAULT}a cell of more than 200 characters"),
    "twice": (f"a{SECRET},a{SECRET}\n", "a different name for each column"),
    "no line": ("", NO_NAMES),
    "blank lines": ("\n\n", NO_NAMES),
    # An unclosed quotation mark makes no name of rows.
    **{
        f"an open quotation mark {end!r}": (
            end.join(['id,"age,sex', f"1,44,{SECRET}", '2,33,f"', "3,1,m", ""]), "of several lines"
        )
        for end in ("\n", "\r\n", "\r")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_first_line_is_refused_unquoted(name, tmp_path):
    text, words = ODD_NAMES[name]
    with pytest.raises(SourceError) as caught:
        read_schema(csv(tmp_path / "a.csv", text))
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


def test_likely_delimiter_cuts_the_first_line_most(tmp_path):
    path = tmp_path / "a.csv"
    for line, delimiter in (
        ("a,b", ","),
        ("a;b,c;d", ";"),
        ("a\tb\tc", "\t"),
        ("a|b", "|"),
        ("a", ","),
    ):
        path.write_text(f"{line}\n1,2,3,4\n")
        assert likely_delimiter(path) == delimiter


@pytest.mark.parametrize("rows", [0, 3])
def test_parquet_types_decide_whatever_the_rows(rows, tmp_path):
    table = pa.table({name: pa.nulls(rows, kind) for name, (kind, _) in TYPES.items()})
    pq.write_table(table, tmp_path / "a.parquet")
    actual = read_schema(Source("parquet", str(tmp_path / "a.parquet")))
    assert kinds(actual) == {name: kind for name, (_, kind) in TYPES.items()}
    assert [column.type for column in actual[-3:]] == ["timestamp", "decimal128", "list"]


def kinds(columns: Sequence[SourceColumn]) -> dict[str, str]:
    return {each.name: "whole " * each.is_integer + each.kind for each in columns}


@pytest.mark.parametrize("name", ["absent.parquet", "text.parquet", "empty"])
def test_what_is_no_parquet_is_refused_in_one_line(name, tmp_path):
    (tmp_path / "text.parquet").write_text(SECRET)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"expected .*parquet.*, got") as caught:
        read_schema(Source("parquet", str(tmp_path / name)))
    assert SECRET not in str(caught.value)


def test_of_a_folder_the_first_part_speaks(tmp_path):
    for name, column in (("b.parquet", "late"), ("a.parquet", "age"), ("_a.parquet", "own")):
        pq.write_table(pa.table({column: [1]}), tmp_path / name)
    assert list(kinds(read_schema(Source("parquet", str(tmp_path))))) == ["age"]


def test_a_url_with_a_password_is_not_quoted(tmp_path):
    url = f"postgresql://ana:{SECRET}@h/x"
    with pytest.raises(DeclarationError, match="must be a path, sqlite:///PATH") as refusal:
        _source_fields(url, tmp_path, query="", header="", delimiter="")
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize("query", ["SELECT nowhere FROM rides", "SELECT * FROM walks"])
def test_of_sqlite_a_query_has_names_and_no_types(query, tmp_path):
    url = sqlite_file(tmp_path / "a.db", "age INTEGER, town TEXT", [(7, SECRET)])
    good = Source("sql", url, query="SELECT age, town AS place FROM rides")
    assert read_schema(good) == (SourceColumn("age", "unknown"), SourceColumn("place", "unknown"))
    expected = "expected a database that answers one SELECT, got a (column|table) that is not there"
    with pytest.raises(SourceError, match=expected) as caught:
        read_schema(Source("sql", url, query=query))
    assert caught.value.__context__ is None


def test_column_types_of_a_postgresql_query_are_read(postgres_url, monkeypatch):
    monkeypatch.setenv("RIDES_DATABASE", postgres_url)
    query = (
        "SELECT 1::int8 AS age, 2.5::numeric AS fare, 'x'::text AS town, true AS let, "
        "now() AS start, '{1}'::int[] AS tags, '3'::money AS price"
    )
    location = database_name(database_url(postgres_url))
    actual = read_schema(Source("sql", location, needs="RIDES_DATABASE", query=query))
    expected = ["whole number", "number", "text", "boolean", "timestamp", "unusable", "unusable"]
    assert list(kinds(actual).values()) == expected
