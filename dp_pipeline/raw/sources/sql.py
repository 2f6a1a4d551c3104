"""Reading the rows of one SELECT in batches, through a read-only connection.

A driver's message may quote a value of a row, the user or the host. So it is dropped, and a short
list of reasons replaces it.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from sqlalchemy import URL, Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from dp_pipeline.config.database import EXPECTED_DATABASE, database_name, database_url
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.draft import ColumnKind, SourceColumn
from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.config.reading import Signs
from dp_pipeline.config.source import Source
from dp_pipeline.raw.sources.databases import (
    INTEGER_TYPES,
    TIME_TYPES,
    ColumnType,
    SelectStatement,
    is_sqlite,
    open_database,
    postgresql_types,
    select_declared,
    sqlite_columns,
)
from dp_pipeline.raw.sources.reading import Result, convert_times, refusal
from dp_pipeline.raw.values import PLAIN

Cell = bytes | memoryview | int | float | None
BATCH_ROWS = 50_000
_FIRST_ROUNDED = 2.0**53  # The least whole number that represents several as a double
_SQLITE = "sqlite:///"
_REASONS = {
    "42P01": "a table that is not there: correct `query`",
    "42703": "a column that is not there: correct `query`",
    "42601": "a query with a mistake in its grammar: correct `query`",
    "42501": "a user who may not read it: let the user of the URL read it",
    "25006": "a query that writes: correct `query`",
    "no such table": "a table that is not there: correct `query`",
    "no such column": "a column that is not there: correct `query`",
    "syntax error": "a query with a mistake in its grammar: correct `query`",
    "readonly database": "a query that writes: correct `query`",
    "not a database": "a file that is no database: correct `database`",
    "unable to open": "a file that cannot be opened: let the user who runs this read it",
    "password authentication failed": "a user or password that is refused: correct the URL",
    "Connection refused": "no server there: start it, or correct the URL",
    "timeout": "no answer in time: run again, or correct the URL",
    "could not translate host name": "no server of that name: correct the URL",
    "database is locked": "a file that another program has locked: close that program",
}
"""SQL code, or part of a driver's message → reported reason."""


def read_sql(spec: DatasetSpec) -> Iterator[pa.Table]:
    """Yield the declared columns of a query's rows, batch by batch; the first table has no row.

    Integers and floats of PostgreSQL keep their type, dates and times become such, all else is
    bytes of text. All rows are of one moment of the database.

    SourceError if the database cannot be opened or answer the query, or if a declared column is
    missing or of a wrong type. DeclarationError if the variable has another database than when the
    file was loaded.
    """
    engine = open_database(_source_url(spec))
    with _attempt(spec, engine.connect, expected="a database that can be read") as connection:
        statement = _attempt(
            spec,
            lambda: select_declared(connection, spec),
            expected="a query that this database can answer",
        )
        tables = _read_tables(connection, statement)
        while (
            table := _attempt(
                spec,
                lambda: next(tables, None),
                expected="the rows of the query",
                got="a failure while they were read: run the query in the database's own client",
            )
        ) is not None:
            yield table


def _sqlite_url(location: str) -> URL:
    # Not parsed, since a folder's name may have a question mark.
    return URL.create("sqlite", database=location.removeprefix(_SQLITE))


def _source_url(spec: DatasetSpec) -> URL:
    location = spec.source.location
    if location.startswith(_SQLITE):
        return _sqlite_url(location)
    return _url_of_variable(f"{spec.name}: source.database", spec.source)


def _url_of_variable(place: str, source: Source) -> URL:
    text = os.environ.get(source.needs or "", "")
    url = database_url(text)
    if url is None:
        got = "holds another text: correct it" if text else "is not set: export it"
        raise DeclarationError(
            f"{place}: the variable {source.needs} must hold an address like "
            f"{EXPECTED_DATABASE}, but it {got}"
        )
    if database_name(url) != source.location:
        raise DeclarationError(
            f"{place}: the variable {source.needs} must name {source.location}, as when the "
            "file was loaded, but it names another database: start again"
        )
    return url


def _attempt(
    spec: DatasetSpec, read: Callable[[], Result], *, expected: str, got: str = ""
) -> Result:
    """Return ``read()``; if the database fails, raise a SourceError without the driver's words."""
    try:
        return read()
    except (SQLAlchemyError, UnicodeError, pa.ArrowException) as error:
        # The reason of a failure at a row is not reported, since it could depend on the row.
        reason = _missing_file(spec.source.location) or got or _reason(error)
    raise refusal(spec, expected, reason)


def _missing_file(location: str) -> str:
    is_there = not location.startswith(_SQLITE) or Path(location.removeprefix(_SQLITE)).exists()
    return "" if is_there else "no file there: put it there, or correct `database`"


def _reason(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else None
    code = getattr(cause, "pgcode", None)
    # With a code the text quotes the query, in which any of these words may stand.
    text = "" if code else str(cause)
    reasons = (reason for sign, reason in _REASONS.items() if sign == code or sign in text)
    return next(reasons, "an error of the database: run the query in the database's own client")


def _read_tables(connection: Connection, statement: SelectStatement) -> Iterator[pa.Table]:
    schema = pa.schema(statement.types)
    # On PostgreSQL a server-side cursor, so that the rows are read in batches.
    options = {"stream_results": True, "max_row_buffer": BATCH_ROWS, "no_parameters": True}
    result = connection.exec_driver_sql(statement.text, None, options)
    yield _with_times(schema.empty_table(), statement)
    for rows in result.partitions(BATCH_ROWS):
        columns: Iterable[tuple[Cell, ...]] = zip(*rows, strict=True)
        arrays = [_array(c, field, statement) for c, field in zip(columns, schema, strict=True)]
        yield _with_times(pa.table(arrays, schema=schema), statement)


def _with_times(table: pa.Table, statement: SelectStatement) -> pa.Table:
    for name, type_ in statement.times.items():
        cells = convert_times(table.column(name).cast(pa.string()), type_)
        table = table.set_column(table.column_names.index(name), name, cells)
    return table


def _array(cells: tuple[Cell, ...], field: pa.Field, statement: SelectStatement) -> pa.Array:
    if not pa.types.is_binary(field.type):
        return pa.array(cells, field.type)
    if field.name == statement.person:
        return pa.array(map(person_as_bytes, cells), field.type)
    signs = statement.signs.get(field.name, PLAIN)
    return pa.array([as_bytes(cell, signs) for cell in cells], field.type)


def as_bytes(cell: Cell, signs: Signs = PLAIN) -> bytes | None:
    """Return a cell as bytes: bytes unchanged, else its text in UTF-8; None for None.

    A whole floating number is written without `.0`.

    signs   signs in which numbers are written
    """
    if cell is None or isinstance(cell, bytes):
        return cell
    if isinstance(cell, memoryview):
        return bytes(cell)
    is_whole = isinstance(cell, float) and cell.is_integer()
    return signs.localise(str(int(cell) if is_whole else cell)).encode()


def person_as_bytes(cell: Cell) -> bytes | None:
    """Return the id in a cell of the person's column as bytes of text; None if it names no person.

    A floating number is an id only if whole and below 2^53, since larger ones are rounded.
    """
    if isinstance(cell, float) and not (cell.is_integer() and abs(cell) < _FIRST_ROUNDED):
        return None
    return as_bytes(cell)


_KINDS: dict[str, ColumnKind] = {"B": "boolean", "N": "number", **dict.fromkeys("DESX", "text")}
"""PostgreSQL's category of a type → kind of a column in a draft."""


def query_columns(source: Source) -> tuple[SourceColumn, ...]:
    """Return the columns of a source's query with their types, without reading a row.

    Those of SQLite are of unknown kind. SourceError if the database does not answer,
    DeclarationError if the variable of its address is not set.
    """
    if source.location.startswith(_SQLITE):
        url = _sqlite_url(source.location)
    else:
        url = _url_of_variable("data init", source)
    try:
        with open_database(url).connect() as connection:
            if is_sqlite(connection):
                names = sqlite_columns(connection, source.query)
                return tuple(SourceColumn(name, "unknown") for name in names)
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
            return tuple(map(_source_column, postgresql_types(connection, source.query)))
    except SQLAlchemyError as error:
        reason = _missing_file(source.location) or _reason(error)
        reason = reason.replace("`query`", "--query").replace("`database`", "--from")
    # Raised outside the handler, since the driver's message may have the user or the host.
    expected = "a database that answers one SELECT"
    raise SourceError(f"{source.identity}: expected {expected}, got {reason}")


def _source_column(type_: ColumnType) -> SourceColumn:
    kind: ColumnKind = "text" if type_.name == "uuid" else _KINDS.get(type_.category, "unusable")
    if type_.name in TIME_TYPES:
        kind = "date" if type_.name == "date" else "timestamp"
    if type_.name == "money":
        kind = "unusable"
    return SourceColumn(type_.column, kind, type_.name, type_.name in INTEGER_TYPES)
