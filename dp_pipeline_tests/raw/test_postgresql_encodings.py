"""A database of another encoding: no text of a sensitive row decides whether it can be read."""

from __future__ import annotations

import pytest

from dp_pipeline.config.dataset import Purpose
from dp_pipeline.raw.sources import read_source
from dp_pipeline_tests.postgres_server import PostgresServer
from dp_pipeline_tests.raw.test_postgresql_source import run
from dp_pipeline_tests.raw.test_sql_source import VARIABLE, refusal, spec_at


def database(server: PostgresServer, encoding: str, purpose: str) -> str:
    name = f"{encoding}_{purpose}".lower()
    server.execute(
        f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' "
        "TEMPLATE template0"
    )
    return server.url(name)


def test_sensitive_rows_of_an_encoding_with_holes_are_refused_whatever_they_are(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database(postgres_server, "WIN1252", "release")
    monkeypatch.setenv(VARIABLE, url)
    said = set()
    for rows in ("('a')", r"(convert_from('\x81', 'WIN1252'))"):
        run(url, f"DROP TABLE IF EXISTS a; CREATE TABLE a (x text); INSERT INTO a VALUES {rows}")
        said.add(refusal(spec_at(url, "SELECT x FROM a", "x")))
    (line,) = said
    assert "expected a database of encoding UTF8, LATIN1, SQL_ASCII, got WIN1252" in line


@pytest.mark.parametrize(("encoding", "purpose"), [("LATIN1", "release"), ("WIN1252", "benchmark")])
def test_texts_that_can_be_read_are(
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    encoding: str,
    purpose: Purpose,
) -> None:
    url = database(postgres_server, encoding, purpose)
    monkeypatch.setenv(VARIABLE, url)
    run(url, "CREATE TABLE a (x text); INSERT INTO a VALUES ('ö')")
    spec = spec_at(url, "SELECT x FROM a", "x", purpose=purpose)
    assert read_source(spec).column("x").to_pylist() == ["ö"]


def test_every_byte_of_the_encodings_that_are_read_can_be_converted(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database(postgres_server, "LATIN1", "all")
    monkeypatch.setenv(VARIABLE, url)
    run(url, "CREATE TABLE a AS SELECT chr(n) AS x FROM generate_series(1, 255) AS n")
    found = read_source(spec_at(url, "SELECT x FROM a", "x")).column("x").to_pylist()
    assert sorted(found) == [chr(n) for n in range(1, 256)]
