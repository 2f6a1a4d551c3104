"""Reading the rows of one SELECT on a DuckDB file, read-only, as Arrow tables.

The connection reaches no other file and no network: a query that reads another source would
escape the claim of its population. Messages of DuckDB may quote a value, so they are dropped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dp_pipeline.config.database import DUCKDB
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.raw.sources import reading
from dp_pipeline.raw.sources.reading import Result
from dp_pipeline.raw.sources.sql import quote_name, select_from

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BATCH_ROWS = 50_000
_RUN_IT = "run the query in DuckDB's own client"
_REASONS = {
    "Table with name": "a table that is not there: correct the query",
    "Referenced column": "a column that is not there: correct the query",
    "syntax error": "one with a mistake in its grammar: correct the query",
    "operations are disabled": "one that reads another file: read that file as a source",
}
"""Part of DuckDB's message → what is wrong, and what to do."""

_LOCKED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "lock_configuration": "true",
}


def read_duckdb(spec: DatasetSpec) -> Iterator[pa.Table]:
    """Yield the declared columns of a query's rows, batch by batch; the first table has no row.

    SourceError if the file or the query cannot be read, or if a column is missing or of a type that
    is neither text, number, truth value nor date; DeclarationError without the package duckdb.
    """
    names = reading.declared_columns(spec)
    columns = ", ".join(map(quote_name, names))
    statement = select_from(spec.source.query, columns)
    expected = "a query that the DuckDB file can answer"
    error_of = partial(reading.refusal, spec, expected)
    # The reason of a failure at a row is not reported, since it could depend on the row.
    got = f"a failure while its rows were read: {_RUN_IT}"
    with closing(_open(spec.source.location)) as connection:
        schema = _attempt(lambda: _schema(connection, spec.source.query), error_of)
        reading.check_names(spec, schema.names)
        yield schema.empty_table().select(names)
        execute = partial(connection.execute, statement)
        reader = _attempt(lambda: execute().to_arrow_reader(_BATCH_ROWS), error_of, got)
        while (batch := _attempt(lambda: next(reader, None), error_of, got)) is not None:
            yield pa.Table.from_batches([batch])


def _schema(connection: DuckDBPyConnection, query: str) -> pa.Schema:
    statement = select_from(query, "*") + " LIMIT 0"
    schema: pa.Schema = connection.execute(statement).to_arrow_table().schema
    return schema


def duckdb_columns(location: str, query: str) -> pa.Schema:
    """Return the schema of a query on a DuckDB file, without reading a row.

    location   the address `duckdb:///FILE`

    SourceError if the file cannot be opened or the query not be answered."""

    def error_of(reason: str) -> SourceError:
        return SourceError(f"data init: expected a query that {location} can answer, got {reason}")

    with closing(_open(location)) as connection:
        return _attempt(lambda: _schema(connection, query), error_of)


def _open(location: str) -> DuckDBPyConnection:
    try:
        import duckdb
    except ImportError:
        raise DeclarationError(
            "source.database: the source needs duckdb, which cannot be imported: `pip install "
            "'dp-pipeline[duckdb]'`"
        ) from None
    path = location.removeprefix(DUCKDB)
    fault = "there is no such file: put it there, or name another"
    try:
        return duckdb.connect(path, read_only=True, config=_LOCKED)
    except duckdb.Error as error:
        if Path(path).exists():
            fault = "it cannot be opened as a DuckDB file: name another"
            if not os.access(path, os.R_OK):
                fault = "it cannot be opened: let the user who runs this read it"
        if "Could not set lock" in str(error):
            fault = "another program has it open: close that program"
    raise SourceError(f"source.database: {path}: {fault}")


def _attempt(
    read: Callable[[], Result], error_of: Callable[[str], SourceError], got: str = ""
) -> Result:
    import duckdb

    try:
        return read()
    except (duckdb.Error, pa.ArrowException, UnicodeError) as error:
        reasons = (reason for sign, reason in _REASONS.items() if sign in str(error))
        reason = got or next(reasons, f"an error of DuckDB: {_RUN_IT}")
    raise error_of(reason)
