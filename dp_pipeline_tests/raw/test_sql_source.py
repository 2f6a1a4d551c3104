"""A query gives the declared columns of a database that it cannot write to."""

import importlib
import sqlite3
import sys
import traceback
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy.exc import OperationalError

from dp_pipeline.config.database import database_name, database_url
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.config.source import Source
from dp_pipeline.raw import great_expectations_session
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import discretize, normalize
from dp_pipeline.raw.proposals import read_schema
from dp_pipeline.raw.sources import read_source, sql
from dp_pipeline.raw.stages import read_stage
from dp_pipeline_tests.raw.written import KEY, spec_of, written_spec

SECRET = "Waltraud-Ohnegleichen"
"""A value that stands in rows and must never stand in a message."""

VARIABLE = "RIDES_DATABASE"
TODAY = date(2026, 11, 21)


def spec_at(url, query, *columns, person=None, purpose="release"):
    """A data set of a file of SQLite, or of the database that VARIABLE names."""
    if url.startswith("sqlite:"):
        source = Source("sql", url, query=query)
    else:
        database = database_url(url)
        source = Source("sql", database_name(database), query=query, needs=VARIABLE)
    return spec_of(source, *columns, person=person, purpose=purpose)


def refusal(spec: DatasetSpec) -> str:
    """The one line of a refused source, after a look for the secret in all that is printed."""
    with pytest.raises(SourceError) as caught:
        read_source(spec)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    message = str(caught.value)
    assert message.startswith(f"city: {spec.source.identity}: expected ")
    assert ", got " in message
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "\n" not in message
    return message


def sqlite_file(path: Path, columns: str, rows: list[tuple[object, ...]]) -> str:
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE rides ({columns})")
    marks = ", ".join("?" * len(rows[0]))
    connection.executemany(f"INSERT INTO rides VALUES ({marks})", rows)
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


@pytest.fixture
def rides(tmp_path):
    """The URL of a file with three rides, each cell of another type than its column's."""
    rows = [(1.5, "ana", 7), (5.0, "bo ", "much"), (None, "", 0.1)]
    return sqlite_file(tmp_path / "ri'des ?#%.db", "lat REAL, rider TEXT, fare INTEGER", rows)


def test_every_cell_of_sqlite_is_the_text_of_its_own_value(rides):
    table = read_source(spec_at(rides, "SELECT * FROM rides;", "fare", "lat", person="rider"))
    cells = {"fare": ["7", "much", "0.1"], "lat": ["1.5", "5", None], "rider": ["ana", "bo ", ""]}
    assert table.to_pydict() == cells
    assert table.schema.types == [pa.string()] * 3
    # A query may hold comments, percent signs and names with quotes.
    query = "SELECT lat, ':x %s' AS note FROM rides WHERE rider LIKE 'a%' -- the last"
    assert read_source(spec_at(rides, query, "note")).to_pydict() == {"note": [":x %s"]}
    spec = spec_at(rides, 'SELECT lat AS "a ""b"" %s" FROM rides', 'a "b" %s')
    assert read_source(spec).column(0).to_pylist() == ["1.5", "5", None]


def test_rounded_sqlite_id_names_no_person(tmp_path):
    ids = [7, 7.0, "7", 2**60 + 1, float(2**60), -(2.0**53), 2.0**53 - 1, 0.5, float("inf"), None]
    url = sqlite_file(tmp_path / "a.db", "rider", [(each,) for each in ids])
    spec = spec_at(url, "SELECT 1 AS x, rider FROM rides", "x", person="rider")
    actual = read_source(spec).column("rider").to_pylist()
    expected = ["7", "7", "7", str(2**60 + 1), None, None, str(2**53 - 1), None, None, None]
    assert actual == expected


def test_numbers_of_sqlite_are_numbers_beside_texts_with_a_comma(tmp_path):
    cells = [(6.38,), ("6,38",), ("6.38",), (6,), (None,)]
    url = sqlite_file(tmp_path / "rides.db", "fare", cells)
    source = f'{{kind: sql, database: "{url}", query: "SELECT fare FROM rides"}}'
    attributes = '{fare: {bounds: [0, 10], bins: 10, decimal: ","}}'
    spec = written_spec(tmp_path, attributes, source=source)
    codes = discretize(spec, normalize(spec, read_source(spec), KEY)).to_pydict()
    assert codes == {"fare": [6, 6, 6]}


def test_a_cell_of_sqlite_that_is_no_text_spoils_itself_only(rides):
    query = "SELECT lat, CASE WHEN lat = 5 THEN CAST(x'FF' AS TEXT) ELSE rider END AS r FROM rides"
    released = read_source(spec_at(rides, query, "r", person="r"))
    assert released.column("r").to_pylist() == ["ana", None, ""]
    assert read_source(spec_at(rides, query, "r")).column("r").to_pylist() == ["ana", None, ""]
    assert "UTF-8" in refusal(spec_at(rides, query, "r", purpose="benchmark"))


@pytest.mark.parametrize(
    ("query", "got"),
    [
        ("SELECT lat FROM trips", "a table that is not there: correct `query`"),
        ("SELECT lat, speed FROM rides", "a column that is not there: correct `query`"),
        ("SELECT lat FROM rides WHERE", "a query with a mistake in its grammar: correct `query`"),
        ("SELECT fare FROM rides", "1 columns without it (fare): declare one of these"),
        ("SELECT lat, lat FROM rides", "got 'lat' twice: rename one column"),
        (
            f"WITH x AS (SELECT 1) INSERT INTO rides VALUES (1, '{SECRET}', 1)",
            "grammar: correct `query`",
        ),
    ],
)
def test_a_query_that_cannot_be_is_refused_before_a_row_is_read(rides, query, got):
    assert refusal(spec_at(rides, query, "lat")).endswith(got)


def test_the_error_of_a_query_has_no_value_of_a_row(rides):
    query = f"SELECT lat, json_extract('{SECRET}' || rider, '$') AS x FROM rides"
    message = refusal(spec_at(rides, query, "x"))
    assert "expected the rows of the query, got a failure while they were read: run" in message


def test_a_file_of_sqlite_must_be_there_and_be_one(tmp_path):
    absent = f"sqlite:///{tmp_path}/none.db"
    message = refusal(spec_at(absent, "SELECT 1 AS x", "x"))
    assert message.endswith("got no file there: put it there, or correct `database`")
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text.db").write_text(SECRET * 100)
    other = spec_at(f"sqlite:///{tmp_path}/text.db", "SELECT x FROM a", "x")
    assert refusal(other).endswith("a file that is no database: correct `database`")


def test_nothing_can_be_written_to_a_file_of_sqlite(rides):
    spec = spec_at(rides, "SELECT lat FROM rides", "lat")
    engine = sql.open_database(sql._source_url(spec.name, spec.source))
    with engine.connect() as connection:
        with pytest.raises(OperationalError, match="readonly database"):
            connection.exec_driver_sql("DELETE FROM rides")
        sql.select_declared(connection, spec)
        # Not even beside the file.
        with pytest.raises(OperationalError, match="readonly database"):
            connection.exec_driver_sql("CREATE TEMP TABLE other (x)")


def test_a_snapshot_of_a_query_is_read_once_and_names_the_query(rides, tmp_path):
    def run(spec):
        snapshot = ingest(spec, tmp_path / "raw", key=KEY, snapshot_id="one", today=TODAY)
        assert snapshot.manifest["source"] == spec.source.identity
        return read_stage(snapshot, "ingested").column("lat").to_pylist()

    spec = spec_at(rides, "SELECT lat FROM rides", "lat")
    assert run(spec) == ["1.5", "5", None]
    Path(spec.source.location.removeprefix("sqlite:///")).unlink()
    assert run(spec) == ["1.5", "5", None]
    with pytest.raises(DeclarationError, match=r"its source is .*; name a new snapshot"):
        run(spec_at(rides, "SELECT lat FROM rides WHERE fare > 0", "lat"))


@pytest.fixture(params=["SystemError('built for another')", "ImportError('no libpq')"])
def broken_driver(request, tmp_path, monkeypatch):
    """A psycopg2 that raises where it is imported."""
    (tmp_path / "psycopg2.py").write_text(f"raise {request.param}\n")
    for name in [module for module in sys.modules if module.partition(".")[0] == "psycopg2"]:
        monkeypatch.delitem(sys.modules, name)
    # Set first, so that what it becomes meanwhile is put back.
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    del sys.modules["psycopg2"]
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("broken_driver")
def test_missing_driver_is_named_with_its_extra(monkeypatch):
    url = f"postgresql://ana:{SECRET}@localhost/rides"
    monkeypatch.setenv(VARIABLE, url)
    with pytest.raises(DeclarationError, match=r"psycopg2, which `pip install .*postgres") as error:
        read_source(spec_at(url, "SELECT x FROM rides"))
    assert SECRET not in str(error.value)
    # It is no matter for rows without a server.
    great_expectations_session.load_library()
    with pytest.raises(ImportError):
        importlib.import_module("psycopg2")


@pytest.mark.parametrize("variable", ["PGHOSTADDR", "PGSERVICE"])
def test_environment_leads_to_no_other_server(variable, monkeypatch):
    url = "postgresql://ana@localhost/rides"
    monkeypatch.setenv(VARIABLE, url)
    monkeypatch.setenv(variable, SECRET)
    with pytest.raises(DeclarationError, match=f"may name another .* unset {variable}") as error:
        read_source(spec_at(url, "SELECT x FROM rides"))
    assert SECRET not in str(error.value)


def test_columns_are_of_a_file_in_a_folder_with_a_question_mark(tmp_path: Path) -> None:
    (tmp_path / "a?b").mkdir()
    sqlite_file(tmp_path / "a", "other TEXT", [("x",)])
    url = sqlite_file(tmp_path / "a?b" / "rides.db", "town TEXT", [("Graz",)])
    columns = sql.query_columns(Source("sql", url, query="SELECT * FROM rides"))
    assert [column.name for column in columns] == ["town"]


@pytest.fixture
def duckdb_rides(tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="the extra duckdb is not installed")
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


def test_columns_of_a_query_keep_their_types(duckdb_rides):
    path = Path(duckdb_rides.removeprefix("duckdb:///"))
    before = path.read_bytes()
    query = "SELECT * FROM rides ORDER BY rider"
    table = read(duckdb_rides, query, "lat", "fare", person="rider")
    assert table.column("lat").to_pylist() == [None, 1.5, 5.0]
    assert table.column("fare").to_pylist() == [9, 7, None]
    assert pa.types.is_integer(table.schema.field("fare").type)
    assert table.column("rider").to_pylist() == [SECRET, "ana", "bo"]
    table = read(duckdb_rides, "SELECT * FROM rides WHERE false", "lat", "fare")
    assert (table.num_rows, table.column_names) == (0, ["lat", "fare"])
    assert path.read_bytes() == before
    assert Source("sql", duckdb_rides, query=query).identities == (f"file:{path}",)


def test_another_file_or_a_bad_query_is_refused_in_a_line(duckdb_rides, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("lat,fare\n1,2\n")
    for query in (
        *(f"SELECT * FROM read_csv('{other}')", f"SELECT * FROM '{other}'"),
        "SELECT lat, fare, 1 // 0 AS x FROM nothing",
        "SELECT CAST(rider AS DOUBLE) AS lat, fare FROM rides",
    ):
        with pytest.raises(SourceError, match="a query that the DuckDB file can answer") as caught:
            read(duckdb_rides, query, "lat", "fare")
        assert SECRET not in "".join(traceback.format_exception(caught.value))
        assert "\n" not in str(caught.value)


def test_without_duckdb_the_extra_is_named(duckdb_rides, monkeypatch):
    columns = read_schema(Source("sql", duckdb_rides, query="SELECT * FROM rides"))
    assert [(column.name, column.kind) for column in columns] == [
        ("lat", "number"), ("rider", "text"), ("fare", "number"), ("day", "date"),
    ]  # fmt: skip
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(DeclarationError, match=r"dp-pipeline\[duckdb\]"):
        read(duckdb_rides, "SELECT * FROM rides", "lat")
