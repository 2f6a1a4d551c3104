"""Queries: one SELECT of a database that cannot be written to from here, read in batches.

What a driver says of an error may hold a value of a row, the user or the host: it is dropped, and
a short list of reasons stands in for what a person can mend.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

import pyarrow as pa
from sqlalchemy import URL, Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from dp_pipeline.raw.sources.postgresql import postgresql_engine, postgresql_selection
from dp_pipeline.raw.sources.reading import refusal
from dp_pipeline.raw.sources.selection import Cell, Selection, as_bytes, person_as_bytes
from dp_pipeline.raw.sources.sqlite import sqlite_engine, sqlite_selection
from dp_pipeline.schema.database import EXPECTED_DATABASE, database_name, database_url
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.spec import DatasetSpec

BATCH_ROWS = 50_000

_SQLITE = "sqlite:///"

Result = TypeVar("Result")

_REASONS = {
    "42P01": "a table that is not there",
    "42703": "a column that is not there",
    "42601": "a query with a mistake in its grammar",
    "42501": "a user who may not read it",
    "25006": "a query that writes",
    "no such table": "a table that is not there",
    "no such column": "a column that is not there",
    "syntax error": "a query with a mistake in its grammar",
    "readonly database": "a query that writes",
    "not a database": "a file that is no database",
    "unable to open": "none that can be opened",
    "password authentication failed": "a user or password that is refused",
    "Connection refused": "no server there",
    "timeout": "no answer in time",
}
"""A code of SQL or a part of a driver's message → what is said instead."""


def read_sql(spec: DatasetSpec) -> pa.Table:
    """The declared columns of the query's rows, in the order in which the database gives them:
    whole and floating numbers of PostgreSQL as such, all else as the bytes of a text.

    All rows are of one moment. SourceError where the database cannot be opened, the query is
    none of it, or a declared column is not there or of another type. DeclarationError where the
    variable names another database than when the file was loaded.
    """
    url = _url(spec)
    is_file = url.drivername == "sqlite"
    engine = sqlite_engine(url) if is_file else postgresql_engine(url)
    selecting = sqlite_selection if is_file else postgresql_selection
    connection = _attempt(spec, engine.connect, expected="a database that can be read")
    with connection:
        selection = _attempt(
            spec,
            lambda: selecting(connection, spec),
            expected="a query that this database can answer",
        )
        return _attempt(
            spec,
            lambda: _table(connection, selection),
            expected="the rows of the query",
            got="one that failed at a row",
        )


def _url(spec: DatasetSpec) -> URL:
    """The database with its user and password: a path is declared, a server's URL in a variable."""
    location = spec.source.location
    if location.startswith(_SQLITE):
        # Not parsed: a folder may have a question mark in its name.
        return URL.create("sqlite", database=location.removeprefix(_SQLITE))
    url = database_url(os.environ.get(spec.source.needs or "", ""))
    if url is None:
        raise DeclarationError(
            f"{spec.name}: source.database: expected {EXPECTED_DATABASE} in "
            f"{spec.source.needs}, got another text"
        )
    if database_name(url) != location:
        raise DeclarationError(
            f"{spec.name}: source.database: expected {location}, as when the file was loaded, "
            "got another database"
        )
    return url


def _attempt(
    spec: DatasetSpec, read: Callable[[], Result], *, expected: str, got: str = ""
) -> Result:
    """``read()``, or a SourceError that is not chained to the driver's."""
    try:
        return read()
    except (SQLAlchemyError, UnicodeError, pa.ArrowException) as error:
        # What failed at a row is not even named: the reason might be the row's.
        reason = got or _reason(error)
    raise refusal(spec, expected, reason)


def _reason(error: Exception) -> str:
    if not isinstance(error, DBAPIError):
        return "none"
    code, text = getattr(error.orig, "pgcode", None), str(error.orig)
    known = (reason for sign, reason in _REASONS.items() if sign == code or sign in text)
    return next(known, "an error of the database")


def _table(connection: Connection, selection: Selection) -> pa.Table:
    schema = pa.schema(selection.types)
    # On PostgreSQL a cursor of the server: the rows are never here all at once but as columns.
    options = {"stream_results": True, "max_row_buffer": BATCH_ROWS, "no_parameters": True}
    result = connection.exec_driver_sql(selection.statement, None, options)
    batches = [
        _batch(zip(*rows, strict=True), schema, selection.person)
        for rows in result.partitions(BATCH_ROWS)
    ]
    return pa.Table.from_batches(batches, schema)


def _batch(
    columns: Iterable[tuple[Cell, ...]], schema: pa.Schema, person: str | None
) -> pa.RecordBatch:
    arrays = [_column(cells, one, person) for cells, one in zip(columns, schema, strict=True)]
    return pa.record_batch(arrays, schema=schema)


def _column(cells: tuple[Cell, ...], field: pa.Field, person: str | None) -> pa.Array:
    if not pa.types.is_binary(field.type):
        return pa.array(cells, field.type)
    text = person_as_bytes if field.name == person else as_bytes
    return pa.array([text(cell) for cell in cells], field.type)
