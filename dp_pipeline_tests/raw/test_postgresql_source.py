"""A query to a real PostgreSQL server: its types, its refusals, and nothing that it could write."""

import os
import traceback
from datetime import UTC, date, datetime
from pathlib import Path

import psycopg2
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.config.parser import load_spec
from dp_pipeline.raw.prepare import discretize, normalize
from dp_pipeline.raw.sources import read_source, sql
from dp_pipeline_tests.config.declarations import declaration, written
from dp_pipeline_tests.postgres_server import PostgresServer
from dp_pipeline_tests.raw.test_sql_source import SECRET, VARIABLE, refusal, spec_at
from dp_pipeline_tests.raw.written import KEY, written_spec

RIDES = """
CREATE TYPE colour AS ENUM ('red', 'green');
CREATE TABLE rides (
    rider text, lat float8, height real, seats smallint, code bigint, fare numeric, paid boolean,
    day date, at timestamptz, kind colour, id uuid, letters char(3), note json, tags text[]
);
INSERT INTO rides VALUES
    ('ana', 1.5, 0.1, 2, 9007199254740993, 7.10, true, '2026-01-31',
     '2026-01-31 23:30:00+01', 'red', '00000000-0000-0000-0000-000000000001', 'ab', '{}', '{}'),
    ('Waltraud-Ohnegleichen', 'NaN', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL);
"""
COLUMNS = [
    *("lat", "height", "seats", "code", "fare", "paid", "day", "at", "kind", "id", "letters"),
    "rider",
]


@pytest.fixture
def rides(postgres_url, monkeypatch):
    """The URL of a database with two rides; VARIABLE names it."""
    run(postgres_url, RIDES)
    monkeypatch.setenv(VARIABLE, postgres_url)
    return postgres_url


def run(url: str, statements: str) -> None:
    connection = psycopg2.connect(url)
    with connection, connection.cursor() as cursor:
        cursor.execute(statements)
    connection.close()


def test_numbers_keep_their_type_and_all_else_is_text(rides):
    table = read_source(spec_at(rides, "SELECT * FROM rides ORDER BY lat", *COLUMNS))
    kinds = {name: str(table.schema.field(name).type) for name in COLUMNS}
    assert {kinds.pop(name) for name in ("lat", "height")} == {"double"}
    assert {kinds.pop(name) for name in ("seats", "code")} == {"int64"}
    assert set(kinds.values()) == {"string"}
    first, second = table.to_pylist()
    assert [first[name] for name in COLUMNS] == [
        *(1.5, 0.1, 2, 2**53 + 1, "7.10", "true", "2026-01-31", "2026-01-31 22:30:00+00", "red"),
        *("00000000-0000-0000-0000-000000000001", "ab", "ana"),
    ]
    assert str(second.pop("lat")) == "nan"
    assert second.pop("rider") == SECRET
    assert set(second.values()) == {None}


ANY = "text, numbers, truth values or dates in column {!r}, got the type {}: cast it"
ID = (
    "whole numbers, text or uuid in the person's column {!r}, got the type {}: store it as bigint "
    "or text"
)
REFUSED = [
    *((column, kind, ANY) for column, kind in (("note", "json"), ("tags", "_text"))),
    *((column, kind, ID) for column, kind in (("height", "float4"), ("lat", "float8"))),
    *((column, kind, ID) for column, kind in (("fare", "numeric"), ("paid", "bool"))),
]


@pytest.mark.parametrize("query", ["SELECT * FROM rides", "SELECT * FROM rides WHERE false"])
@pytest.mark.parametrize(("column", "kind", "words"), REFUSED)
def test_other_types_are_refused_whatever_the_rows(rides, query, column, kind, words):
    columns, person = ([column], None) if words == ANY else (["seats"], column)
    message = refusal(spec_at(rides, query, *columns, person=person))
    assert f"expected {words.format(column, kind)}" in message


IDS = {"code": 2**53 + 1, "seats": 2, "rider": "ana", "letters": "ab"}


@pytest.mark.parametrize("column", [*IDS, "id"])
def test_a_person_may_be_a_whole_number_a_text_or_a_uuid(rides, column):
    query = "SELECT * FROM rides ORDER BY lat"
    table = read_source(spec_at(rides, query, "lat", person=column))
    uuid = f"{0:08}-{'0000-' * 3}{1:012}"
    assert table.column(column)[0].as_py() == IDS.get(column, uuid)


def test_a_query_is_read_as_it_is_written(rides):
    # Columns that are not declared are not read.
    query = "SELECT *, 1 / (seats - 2) AS broken FROM rides"
    assert read_source(spec_at(rides, query, "seats")).column("seats").to_pylist() == [2, None]
    query = "SELECT rider || '%s :x' AS x FROM rides WHERE rider LIKE 'a%' -- the last"
    assert read_source(spec_at(rides, query, "x")).to_pydict() == {"x": ["ana%s :x"]}
    # An error has no value of a row.
    message = refusal(spec_at(rides, "SELECT CAST(rider AS int) AS x FROM rides", "x"))
    assert "expected the rows of the query, got a failure while they were read: run" in message


@pytest.mark.parametrize(
    ("query", "got"),
    [
        ("SELECT x FROM trips", "a table that is not there: correct `query`"),
        ("SELECT speed FROM rides", "a column that is not there: correct `query`"),
        ("SELECT FROM WHERE", "a query with a mistake in its grammar: correct `query`"),
        ("SELECT lat, lat FROM rides", "got 'lat' twice: rename one column"),
        ("SELECT seats FROM rides", "1 columns without it (seats): declare one of these"),
    ],
)
def test_a_query_that_cannot_be_is_refused(rides, query, got):
    assert refusal(spec_at(rides, query, "lat")).endswith(got)


WRITING = {
    "a function": "SELECT setval('numbers', 9) AS x",
    "a table": "SELECT 1 AS x INTO other",
    "with": "WITH gone AS (DELETE FROM rides RETURNING lat) SELECT lat AS x FROM gone",
    "the setting": "SELECT set_config('transaction_read_only', 'off', true) AS x",
    "a lock": "SELECT lat AS x FROM rides FOR UPDATE",
}


@pytest.mark.parametrize("query", WRITING.values(), ids=WRITING)
def test_a_query_that_would_write_is_refused_and_writes_nothing(rides, query):
    run(rides, "CREATE SEQUENCE numbers")
    refusal(spec_at(rides, query, "x"))
    connection = psycopg2.connect(rides)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT (SELECT count(*) FROM rides), nextval('numbers')")
        assert cursor.fetchone() == (2, 1)
    connection.close()


def test_all_rows_are_of_one_moment(rides, monkeypatch):
    tables, other = sql._read_tables, []

    def later(*arguments):
        run(rides, "INSERT INTO rides (lat) VALUES (8)")
        other.append("written")
        return tables(*arguments)

    monkeypatch.setattr(sql, "_read_tables", later)
    assert read_source(spec_at(rides, "SELECT lat FROM rides", "lat")).num_rows == 2
    assert other == ["written"]


def test_rows_come_in_batches_and_none_is_lost(rides, monkeypatch):
    monkeypatch.setattr(sql, "BATCH_ROWS", 7)
    query = "SELECT n AS x, CAST(n AS text) AS word FROM generate_series(1, 50) AS n"
    table = read_source(spec_at(rides, query, "x", "word"))
    assert [len(chunk) for chunk in table.column("x").chunks] == [0, *[7] * 7, 1]
    assert table.column("x").to_pylist() == list(range(1, 51))
    assert table.column("word").to_pylist() == [str(n) for n in range(1, 51)]


@pytest.mark.parametrize("purpose", ["release", "benchmark"])
def test_database_without_encoding_may_hold_bytes(postgres_server, monkeypatch, purpose):
    url = database(postgres_server, "SQL_ASCII", purpose)
    monkeypatch.setenv(VARIABLE, url)
    run(url, r"CREATE TABLE a (x text); INSERT INTO a VALUES (E'\xff'), ('b'), (E'\xc3\xb6')")
    spec = spec_at(url, "SELECT x FROM a", "x", purpose=purpose)
    if purpose == "release":
        assert set(read_source(spec).column("x").to_pylist()) == {"b", "ö", None}
    else:
        assert "UTF-8" in refusal(spec)


def loaded(folder: Path) -> DatasetSpec:
    source = f"source: {{kind: sql, database: ${VARIABLE}, query: SELECT * FROM rides}}"
    attributes = "attributes: {lat: {bounds: [0, 8]}}"
    return load_spec(written(folder, declaration(source=source, attributes=attributes)))


@pytest.mark.usefixtures("rides")
def test_no_password_is_shown(tmp_path, monkeypatch):
    url = os.environ[VARIABLE]
    spec = loaded(tmp_path)
    monkeypatch.setenv(VARIABLE, url.replace("steward:", "steward:not-"))
    with pytest.raises(SourceError, match="got a user or password that is refused") as caught:
        read_source(spec)
    shown = "".join(traceback.format_exception(caught.value)) + repr(spec) + spec.source.identity
    assert not any(word in shown for word in ("steward", "not-", "p@ss", "%40ss"))
    (identity,) = spec.source.identities
    assert identity == f"sql:postgresql://localhost:{url.rpartition(':')[2]}"


def test_another_database_than_at_loading_is_refused(rides, tmp_path, monkeypatch):
    spec = loaded(tmp_path)
    monkeypatch.setenv(VARIABLE, rides + "_other")
    with pytest.raises(DeclarationError, match="was loaded, but it names another database"):
        read_source(spec)
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(DeclarationError, match=f"{VARIABLE} must hold"):
        read_source(spec)
    url = "postgresql://me:word@127.0.0.1:1/rides"
    monkeypatch.setenv(VARIABLE, url)
    line = refusal(spec_at(url, "SELECT 1 AS x", "x"))
    assert line.endswith("got no server there: start it, or correct the URL")


def database(server: PostgresServer, encoding: str, purpose: str) -> str:
    name = f"{encoding}_{purpose}".lower()
    server.execute(
        f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' "
        "TEMPLATE template0"
    )
    return server.url(name)


def test_encoding_with_holes_is_refused(postgres_server, monkeypatch):
    url = database(postgres_server, "WIN1252", "release")
    monkeypatch.setenv(VARIABLE, url)
    lines = set()
    for rows in ("('a')", r"(convert_from('\x81', 'WIN1252'))"):
        run(url, f"DROP TABLE IF EXISTS a; CREATE TABLE a (x text); INSERT INTO a VALUES {rows}")
        lines.add(refusal(spec_at(url, "SELECT x FROM a", "x")))
    (line,) = lines
    assert "expected a database of encoding UTF8, LATIN1 or SQL_ASCII, got WIN1252" in line


@pytest.mark.parametrize(("encoding", "purpose"), [("LATIN1", "release"), ("WIN1252", "benchmark")])
def test_texts_that_can_be_read_are(postgres_server, monkeypatch, encoding, purpose):
    url = database(postgres_server, encoding, purpose)
    monkeypatch.setenv(VARIABLE, url)
    letters = range(1, 256) if encoding == "LATIN1" else [ord("ö")]
    codes = ", ".join(f"('{chr(n)}')" if n > 127 else f"(chr({n}))" for n in letters)
    run(url, f"CREATE TABLE a (x text); INSERT INTO a VALUES {codes}")
    spec = spec_at(url, "SELECT x FROM a", "x", purpose=purpose)
    assert read_source(spec).column("x").to_pylist() == [chr(n) for n in letters]


TIMES = """
CREATE TABLE rides (day date, at timestamptz, clock timestamp, fare numeric, written text);
INSERT INTO rides VALUES
    ('2026-02-01', '2026-02-01 00:30+01', '2026-02-01 00:30:00.9', 6.38, '6,38'),
    ('infinity', '-infinity', 'infinity', NULL, 'NaN'),
    ('0044-03-15 BC', '20000-01-01', '0044-03-15 BC', 1e300, '6.38'),
    (NULL, NULL, NULL, NULL, NULL);
"""
MONTHS = "bounds: [2026-01-01, 2026-12-31], every: month, zone: Europe/Zurich, nullable: true"
ATTRIBUTES = f"""{{day: {{type: date, {MONTHS}}}, at: {{type: timestamp, {MONTHS}}},
  clock: {{type: timestamp, {MONTHS}, format: "%d.%m.%Y"}},
  fare: {{bounds: [0, 10], bins: 10, nullable: true}}}}"""


@pytest.fixture
def times(postgres_url, monkeypatch):
    run(postgres_url, TIMES)
    monkeypatch.setenv(VARIABLE, postgres_url)
    return f'{{kind: sql, database: ${VARIABLE}, query: "SELECT * FROM rides"}}'


@pytest.mark.parametrize("purpose", ["benchmark", "release"])
def test_postgresql_dates_are_read_by_type(times, purpose, tmp_path):
    more = 'reading: {decimal: ","}'
    spec = written_spec(tmp_path, ATTRIBUTES, source=times, purpose=purpose, more=more)
    table = read_source(spec)
    assert table.column("day").to_pylist() == [date(2026, 2, 1), None, None, None]
    moment = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
    assert table.column("at").to_pylist() == [moment, None, None, None]
    assert table.column("clock").to_pylist()[0] == datetime(2026, 2, 1, 0, 30)
    codes = discretize(spec, normalize(spec, table, KEY)).to_pydict()
    # A fare of 10^300 is none as declared.
    assert codes["fare"] == [6, 10, 10, 10]
    assert codes["day"] == codes["at"] == codes["clock"] == [1, 12, 12, 12]
    # Dates that are declared as levels stay texts.
    levels = written_spec(tmp_path, '{day: {levels: ["2026-02-01", infinity]}}', source=times)
    assert read_source(levels).column("day").to_pylist()[:2] == ["2026-02-01", "infinity"]
