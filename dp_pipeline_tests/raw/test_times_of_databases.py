"""Dates, times and decimal signs of databases: by their type, and none of them an error."""

import sqlite3
from datetime import UTC, date, datetime

import psycopg2
import pytest

from dp_pipeline.raw.prepare import discretized, normalized
from dp_pipeline.raw.sources import read_source
from dp_pipeline_tests.raw.test_sql_source import VARIABLE
from dp_pipeline_tests.raw.written import KEY, written_spec

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
def rides(postgres_url, monkeypatch):
    connection = psycopg2.connect(postgres_url)
    with connection, connection.cursor() as cursor:
        cursor.execute(TIMES)
    connection.close()
    monkeypatch.setenv(VARIABLE, postgres_url)
    return f'{{kind: sql, database: ${VARIABLE}, query: "SELECT * FROM rides"}}'


@pytest.mark.parametrize("purpose", ["benchmark", "release"])
def test_postgresql_dates_are_read_by_type(rides, purpose, tmp_path):
    more = 'reading: {decimal: ","}'
    spec = written_spec(tmp_path, ATTRIBUTES, source=rides, purpose=purpose, more=more)
    table = read_source(spec)
    assert table.column("day").to_pylist() == [date(2026, 2, 1), None, None, None]
    moment = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
    assert table.column("at").to_pylist() == [moment, None, None, None]
    assert table.column("clock").to_pylist()[0] == datetime(2026, 2, 1, 0, 30)
    codes = discretized(spec, normalized(spec, table, KEY)).to_pydict()
    # A fare of 10^300 is none as declared.
    assert codes["fare"] == [6, 10, 10, 10]
    assert codes["day"] == codes["at"] == codes["clock"] == [1, 12, 12, 12]


def test_postgresql_dates_declared_as_levels_stay_texts(rides, tmp_path):
    attributes = '{day: {levels: ["2026-02-01", infinity]}}'
    spec = written_spec(tmp_path, attributes, source=rides)
    assert read_source(spec).column("day").to_pylist()[:2] == ["2026-02-01", "infinity"]


def test_numbers_of_sqlite_are_numbers_beside_texts_with_a_comma(tmp_path):
    connection = sqlite3.connect(tmp_path / "rides.db")
    connection.execute("CREATE TABLE rides (fare)")
    cells = [(6.38,), ("6,38",), ("6.38",), (6,), (None,)]
    connection.executemany("INSERT INTO rides VALUES (?)", cells)
    connection.commit()
    connection.close()
    source = '{kind: sql, database: "sqlite:///rides.db", query: "SELECT fare FROM rides"}'
    attributes = '{fare: {bounds: [0, 10], bins: 10, decimal: ","}}'
    spec = written_spec(tmp_path, attributes, source=source)
    codes = discretized(spec, normalized(spec, read_source(spec), KEY)).to_pydict()
    assert codes == {"fare": [6, 6, 6]}
