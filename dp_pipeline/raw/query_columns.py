"""Names and types of a query's columns, from a database that is asked for no row of it."""

from __future__ import annotations

import os

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from dp_pipeline.raw.sources.postgresql import postgresql_engine
from dp_pipeline.raw.sources.selection import around
from dp_pipeline.raw.sources.sqlite import sqlite_engine
from dp_pipeline.schema.database import EXPECTED_DATABASE, database_url
from dp_pipeline.schema.errors import DeclarationError, SourceError
from dp_pipeline.schema.found_column import FoundColumn, FoundKind
from dp_pipeline.schema.source import Source

_KINDS: dict[str, FoundKind] = {
    "B": "boolean",
    "N": "number",
    "D": "text",
    "E": "text",
    "S": "text",
    "X": "text",
}
"""PostgreSQL's category of a type → what it is to us."""

_WHOLE = ("int2", "int4", "int8")


def query_columns(source: Source) -> tuple[FoundColumn, ...]:
    """The columns of one query, in its order. Columns of SQLite have no types.

    Raises SourceError, without the driver's words, where the database does not answer, and
    DeclarationError where its variable is not set.
    """
    url = database_url(_named(source))
    if url is None:
        raise DeclarationError(f"{source.location}: expected {EXPECTED_DATABASE}, got another text")
    is_file = url.drivername == "sqlite"
    try:
        with (sqlite_engine if is_file else postgresql_engine)(url).connect() as connection:
            return _untyped(connection, source) if is_file else _typed(connection, source)
    except SQLAlchemyError:
        pass
    # Raised outside of the handler: the driver's message may hold the user or the host.
    raise SourceError(f"{source.identity}: expected a database that answers one SELECT, got none")


def _named(source: Source) -> str:
    """The URL of the database, from its variable unless a path of SQLite stands in the file."""
    if source.needs is None or source.location.startswith("sqlite:///"):
        return source.location
    text = os.environ.get(source.needs)
    if not text:
        raise DeclarationError(f"data init: expected a URL in {source.needs}, got none")
    return text


def _untyped(connection: Connection, source: Source) -> tuple[FoundColumn, ...]:
    connection.exec_driver_sql("PRAGMA query_only = ON")
    described = connection.exec_driver_sql(f"{around(source.query, '*')} LIMIT 0")
    return tuple(FoundColumn(str(name), "unknown") for name in described.keys())  # noqa: SIM118


def _typed(connection: Connection, source: Source) -> tuple[FoundColumn, ...]:
    connection.exec_driver_sql("SET TRANSACTION READ ONLY")
    statement = f"{around(source.query, '*')} LIMIT 0"
    described = connection.exec_driver_sql(statement, None, {"no_parameters": True}).cursor
    assert described is not None
    columns = [(str(one[0]), int(str(one[1]))) for one in described.description]
    listed = ", ".join(str(oid) for _, oid in columns)
    rows = connection.exec_driver_sql(
        f"SELECT oid, typname, typcategory FROM pg_catalog.pg_type WHERE oid IN ({listed})"
    )
    types = {int(oid): (str(name), str(category)) for oid, name, category in rows}
    return tuple(_found(name, *types[oid]) for name, oid in columns)


def _found(name: str, type_: str, category: str) -> FoundColumn:
    kind: FoundKind = "text" if type_ == "uuid" else _KINDS.get(category, "unusable")
    return FoundColumn(name, "unusable" if type_ == "money" else kind, type_, type_ in _WHOLE)
