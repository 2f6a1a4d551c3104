"""Reading the rows of one SELECT on a DuckDB file, read-only, as Arrow tables.

The connection reaches no other file and no network: a query that reads another source would
escape the claim of its population. Messages of DuckDB may quote a value, so they are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from dp_pipeline.config.database import DUCKDB
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.raw.sources import reading
from dp_pipeline.raw.sources.databases import quote_name, select_from

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BATCH_ROWS = 50_000

_LOCKED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "lock_configuration": "true",
}

_Result = TypeVar("_Result")


def read_duckdb(spec: DatasetSpec) -> Iterator[pa.Table]:
    """Yield the declared columns of a query's rows with their types; the first table is empty.

    SourceError if the file or the query cannot be read, or if a column is missing or of a type that
    is neither text, number, truth value nor date; DeclarationError without the package duckdb.
    """
    names = reading.declared_columns(spec)
    columns = ", ".join(map(quote_name, names))
    with closing(_open(spec.source.location)) as connection:
        schema = _attempt(lambda: duckdb_schema(connection, spec.source.query), spec=spec)
        reading.check_names(spec, schema.names)
        yield schema.empty_table().select(names)
        reader = _attempt(
            lambda: connection.execute(select_from(spec.source.query, columns)).to_arrow_reader(
                _BATCH_ROWS
            ),
            spec=spec,
        )
        while (table := _attempt(lambda: _next(reader), spec=spec)) is not None:
            yield table


def _next(reader: pa.RecordBatchReader) -> pa.Table | None:
    try:
        return pa.Table.from_batches([reader.read_next_batch()])
    except StopIteration:
        return None


def duckdb_schema(connection: DuckDBPyConnection, query: str) -> pa.Schema:
    """Return the columns of a query with their types, without reading a row."""
    statement = select_from(query, "*") + " LIMIT 0"
    schema: pa.Schema = connection.execute(statement).to_arrow_table().schema
    return schema


def duckdb_columns(location: str, query: str) -> pa.Schema:
    """Return the columns of a query on a file; SourceError if it cannot be read."""
    with closing(_open(location)) as connection:
        return _attempt(lambda: duckdb_schema(connection, query), spec=None)


def _open(location: str) -> DuckDBPyConnection:
    try:
        import duckdb
    except ImportError:
        raise DeclarationError(
            "source.database: the source needs duckdb, which cannot be imported: `pip install "
            "'dp-pipeline[duckdb]'`"
        ) from None
    path = location.removeprefix(DUCKDB)
    return _attempt(lambda: duckdb.connect(path, read_only=True, config=_LOCKED), spec=None)


def _attempt(read: Callable[[], _Result], *, spec: DatasetSpec | None) -> _Result:
    """Return ``read()``, or raise a SourceError without DuckDB's message."""
    import duckdb

    try:
        return read()
    except (duckdb.Error, pa.ArrowException, UnicodeError):
        pass
    if spec is None:
        raise SourceError(
            "source.database: the file cannot be opened as a DuckDB file, or cannot answer the "
            "query: correct `database` or `query`, and close other programs that have the file open"
        )
    expected = "a DuckDB file and a query that it can answer"
    raise reading.refusal(spec, expected, "an error of DuckDB: correct `database` or `query`")
