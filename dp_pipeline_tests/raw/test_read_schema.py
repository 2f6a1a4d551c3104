"""The first look at a source: names and declared types, never a row."""

import gzip
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.cli.draft import _source_fields
from dp_pipeline.config.database import database_name, database_url
from dp_pipeline.config.draft import SourceColumn
from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.config.source import Source
from dp_pipeline.raw.proposals import likely_delimiter, read_schema

SECRET = "90210777"

TYPES = pa.schema(
    {
        "n": pa.int32(),
        "x": pa.float64(),
        "town": pa.large_string(),
        "colour": pa.dictionary(pa.int8(), pa.string()),
        "let": pa.bool_(),
        "nothing": pa.null(),
        "start": pa.timestamp("us"),
        "price": pa.decimal128(8, 2),
        "tags": pa.list_(pa.string()),
    }
)


def csv(path: Path, text: str | bytes, **options: object) -> Source:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Source("csv", str(path), **options)  # type: ignore[arg-type]


def test_csv_gives_names_and_no_types(tmp_path):
    actual = read_schema(csv(tmp_path / "a.csv", f"\ufeffage,home town\n1,{SECRET}\n"))
    assert actual == (SourceColumn("age", "unknown"), SourceColumn("home town", "unknown"))


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


def test_truncated_file_still_has_columns(tmp_path):
    rows = b"".join(b"%d,%d\n" % (n * n, n**3) for n in range(200_000))
    whole = gzip.compress(b"age,town\n" + rows)
    actual = read_schema(csv(tmp_path / "a.csv.gz", whole[: len(whole) // 2]))
    assert list(kinds(actual)) == ["age", "town"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"1,{SECRET}\n2,x\n", "names of columns in the first line, got a number: correct it"),
        (f"{SECRET}abc,,x\n", "names of columns in the first line, got an empty cell"),
        (f"{SECRET * 60}a,b\n", "in the first line, got a cell of more than 200 characters"),
        (f"a{SECRET},a{SECRET}\n", "a different name for each column"),
        ("", "a csv source with columns, got no row of names: write one"),
        ("\n\n", "a csv source with columns, got no row of names: write one"),
    ],
    ids=["a number", "an empty cell", "a long text", "twice", "no line", "blank lines"],
)
def test_odd_first_line_is_refused_unquoted(text, named, tmp_path):
    with pytest.raises(SourceError) as caught:
        read_schema(csv(tmp_path / "a.csv", text))
    assert named in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


def test_with_a_declared_header_nothing_is_read_at_all(tmp_path):
    source = Source("csv", str(tmp_path / "absent.csv"), header=("age", "town"))
    assert list(kinds(read_schema(source))) == ["age", "town"]


@pytest.mark.parametrize(
    ("line", "delimiter"),
    [("a,b", ","), ("a;b,c;d", ";"), ("a\tb\tc", "\t"), ("a|b", "|"), ("a", ",")],
)
def test_likely_delimiter_cuts_the_first_line_most(line, delimiter, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"{line}\n1,2,3,4\n")
    assert likely_delimiter(path) == delimiter


@pytest.mark.parametrize("rows", [0, 3])
def test_parquet_types_decide_whatever_the_rows(rows, tmp_path):
    table = pa.table({field.name: pa.nulls(rows, field.type) for field in TYPES}, TYPES)
    pq.write_table(table, tmp_path / "a.parquet")
    actual = read_schema(Source("parquet", str(tmp_path / "a.parquet")))
    expected = ["whole number", "number", "text", "text", "boolean", "unknown", "timestamp"]
    assert list(kinds(actual).values()) == [*expected, "unusable", "unusable"]
    assert [column.type for column in actual[-3:]] == ["timestamp", "decimal128", "list"]


def kinds(columns: Sequence[SourceColumn]) -> dict[str, str]:
    return {each.name: "whole " * each.is_integer + each.kind for each in columns}


def test_of_a_folder_the_first_part_speaks(tmp_path):
    for name, column in (("b.parquet", "late"), ("a.parquet", "age"), ("_a.parquet", "own")):
        pq.write_table(pa.table({column: [1]}), tmp_path / name)
    assert list(kinds(read_schema(Source("parquet", str(tmp_path))))) == ["age"]


@pytest.mark.parametrize("name", ["absent.parquet", "text.parquet", "empty"])
def test_what_is_no_parquet_is_refused_in_one_line(name, tmp_path):
    (tmp_path / "text.parquet").write_text(SECRET)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"expected .*parquet.*, got") as caught:
        read_schema(Source("parquet", str(tmp_path / name)))
    assert SECRET not in str(caught.value)


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE rides (age INTEGER, town TEXT)")
        connection.execute("INSERT INTO rides VALUES (7, ?)", (SECRET,))
    connection.close()
    return path


def test_of_sqlite_a_query_has_names_and_no_types(database):
    source = Source("sql", f"sqlite:///{database}", query="SELECT age, town AS place FROM rides")
    assert read_schema(source) == (SourceColumn("age", "unknown"), SourceColumn("place", "unknown"))


@pytest.mark.parametrize("query", ["SELECT nowhere FROM rides", "SELECT * FROM walks"])
def test_failing_query_is_refused_without_driver_words(query, database):
    expected = "expected a database that answers one SELECT, got a (column|table) that is not there"
    with pytest.raises(SourceError, match=expected) as caught:
        read_schema(Source("sql", f"sqlite:///{database}", query=query))
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


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_unclosed_quote_makes_no_name_of_rows(tmp_path, end):
    path = tmp_path / "rides.csv"
    lines = ['id,"age,sex', f"1,44,{SECRET}", '2,33,f"', "3,1,m", ""]
    path.write_bytes(end.join(lines).encode())
    with pytest.raises(SourceError, match="of several lines") as refusal:
        read_schema(Source("csv", str(path)))
    assert SECRET not in str(refusal.value)


def test_a_url_with_a_password_is_not_quoted(tmp_path):
    url = f"postgresql://ana:{SECRET}@h/x"
    with pytest.raises(DeclarationError, match="must be a path, sqlite:///PATH") as refusal:
        _source_fields(url, tmp_path, query="", header="", delimiter="")
    assert SECRET not in str(refusal.value)
