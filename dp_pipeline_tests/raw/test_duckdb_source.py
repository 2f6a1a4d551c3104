"""A query on a DuckDB file gives its columns with their types, and reaches nothing else."""

import sys
import traceback
from pathlib import Path

import pyarrow as pa
import pytest

from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.config.source import Source
from dp_pipeline.raw.proposals import read_schema
from dp_pipeline.raw.sources import read_source
from dp_pipeline_tests.raw.source_specs import spec_of
from dp_pipeline_tests.raw.test_sql_source import SECRET

duckdb = pytest.importorskip("duckdb", reason="the extra duckdb is not installed")


@pytest.fixture
def rides(tmp_path):
    """The location of a file with three rides."""
    path = tmp_path / "ri'des #%.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE rides (lat DOUBLE, rider VARCHAR, fare INTEGER, day DATE)")
        connection.execute(
            "INSERT INTO rides VALUES (1.5, 'ana', 7, '2026-11-21'), (5.0, 'bo', NULL, NULL), "
            f"(NULL, '{SECRET}', 9, '2026-11-22')"
        )
    return f"duckdb:///{path}"


def read(location: str, query: str, *columns: str, person: str | None = None) -> pa.Table:
    source = Source("sql", location, query=query)
    return read_source(spec_of(source, *columns, person=person, purpose="release"))


def test_columns_of_a_query_keep_their_types(rides):
    table = read(rides, "SELECT * FROM rides ORDER BY rider", "lat", "fare", person="rider")
    assert table.column("lat").to_pylist() == [None, 1.5, 5.0]
    assert table.column("fare").to_pylist() == [9, 7, None]
    assert pa.types.is_integer(table.schema.field("fare").type)
    assert table.column("rider").to_pylist() == [SECRET, "ana", "bo"]


def test_a_query_without_rows_has_all_columns(rides):
    table = read(rides, "SELECT * FROM rides WHERE false", "lat", "fare")
    assert (table.num_rows, table.column_names) == (0, ["lat", "fare"])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('{other}')",
        "SELECT * FROM '{other}'",
        "SELECT lat, fare, 1 // 0 AS x FROM nothing",
        "SELECT CAST(rider AS DOUBLE) AS lat, fare FROM rides",
    ],
)
def test_another_file_or_a_bad_query_is_refused_in_a_line(rides, tmp_path, query):
    (tmp_path / "other.csv").write_text("lat,fare\n1,2\n")
    with pytest.raises(SourceError, match="a query that the DuckDB file can answer") as caught:
        read(rides, query.format(other=tmp_path / "other.csv"), "lat", "fare")
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "\n" not in str(caught.value)


def test_the_file_is_known_by_its_path_and_not_written(rides):
    path = Path(rides.removeprefix("duckdb:///"))
    before = path.read_bytes()
    read(rides, "SELECT * FROM rides", "lat")
    assert path.read_bytes() == before
    source = Source("sql", rides, query="SELECT * FROM rides")
    assert source.identities == (f"file:{path}",)


def test_a_draft_proposes_the_columns_of_a_query(rides):
    columns = read_schema(Source("sql", rides, query="SELECT * FROM rides"))
    assert [(column.name, column.kind) for column in columns] == [
        ("lat", "number"), ("rider", "text"), ("fare", "number"), ("day", "date"),
    ]  # fmt: skip


def test_without_duckdb_the_extra_is_named(rides, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(DeclarationError, match=r"dp-pipeline\[duckdb\]"):
        read(rides, "SELECT * FROM rides", "lat")
