"""Reading the rows of one SELECT of PostgreSQL or SQLite in batches, by a read-only connection.

In SQLite every cell has its own type, so all columns are read as text, also numbers: a column's
type must not depend on a row. A driver's message may quote a value of a row, the user or the host.
So it is dropped, and a short list of reasons replaces it.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import quote

import pyarrow as pa
from sqlalchemy import URL, Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from dp_pipeline.config.database import (
    EXPECTED_DATABASE,
    EXPECTED_DRIVER,
    SQLITE,
    database_name,
    database_url,
    has_driver,
)
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.draft import ColumnKind, SourceColumn
from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.config.reading import Signs
from dp_pipeline.config.source import Source
from dp_pipeline.raw.sources.reading import (
    MAX_CELL_BYTES,
    Result,
    check_names,
    convert_times,
    declared_columns,
    refusal,
)
from dp_pipeline.raw.values import PLAIN

Cell = bytes | memoryview | int | float | None
BATCH_ROWS = 50_000
_FIRST_ROUNDED = 2.0**53  # The least whole number that represents several as a double
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

_CONNECT_SECONDS = 30
_TIME_TYPES = {
    "date": pa.date32(),
    "timestamp": pa.timestamp("s"),
    "timestamptz": pa.timestamp("s", "UTC"),
}
"""Types of PostgreSQL that are read as text and then converted; dates out of range become null."""

_INTEGER_TYPES = ("int2", "int4", "int8")
_NUMBER_TYPES = {
    **dict.fromkeys(_INTEGER_TYPES, pa.int64()),
    **dict.fromkeys(("float4", "float8"), pa.float64()),
}
# Categories of types that are read as PostgreSQL's text: truth values, dates and times,
# enumerations, exact numbers, texts, and texts without a type.
_TEXT_CATEGORIES = ("B", "D", "E", "N", "S", "X")
# Their values are equal exactly if their texts are, unlike numeric, with 7 and 7.0.
_PERSON_TYPES = (*_INTEGER_TYPES, "text", "varchar", "bpchar", "name", "uuid")
_TOTAL_ENCODINGS = ("UTF8", "LATIN1", "SQL_ASCII")  # The server can convert every text of these
_ADDRESS_VARIABLES = ("PGHOSTADDR", "PGSERVICE")  # They change libpq's address in spite of the URL
_READ_ONLY = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET LOCAL datestyle = 'ISO, YMD'",
    "SET LOCAL timezone = 'UTC'",
)


class _ColumnType(NamedTuple):
    """A column of PostgreSQL, with the name (``int4``) and the category (``N``) of its type."""

    column: str
    name: str
    category: str


def read_sql(spec: DatasetSpec) -> Iterator[pa.Table]:
    """Yield the declared columns of a query's rows, batch by batch; the first table has no row.

    Integers and floats of PostgreSQL keep their type, dates and times become such, all else is
    bytes of text. All rows are of one moment of the database.

    SourceError if the database cannot be opened or answer the query, or if a declared column is
    missing or of a wrong type. DeclarationError if the variable has another database than when the
    file was loaded.
    """
    engine = open_database(_source_url(f"{spec.name}: source.database", spec.source))
    with _attempt(spec, engine.connect, expected="a database that can be read") as connection:
        statement, schema = _attempt(
            spec,
            lambda: select_declared(connection, spec),
            expected="a query that this database can answer",
        )
        tables = _read_tables(connection, statement, schema, spec)
        while (
            table := _attempt(
                spec,
                lambda: next(tables, None),
                expected="the rows of the query",
                got="a failure while they were read: run the query in the database's own client",
            )
        ) is not None:
            yield table


def _source_url(place: str, source: Source) -> URL:
    if source.location.startswith(SQLITE):
        # Not parsed, since a folder's name may have a question mark.
        return URL.create("sqlite", database=source.location.removeprefix(SQLITE))
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


def open_database(url: URL) -> Engine:
    """Return an SQLAlchemy engine for a database, without connecting; SQLite's is read-only.

    DeclarationError if the driver of PostgreSQL cannot be imported, or if the environment could
    redirect it to another server than the URL's.
    """
    if url.drivername == "sqlite":
        uri = f"file:{quote(str(url.database))}?mode=ro"
        return create_engine(
            "sqlite://", creator=lambda: sqlite3.connect(uri, uri=True), poolclass=NullPool
        )
    if not has_driver():
        raise DeclarationError(
            f"source.database: {database_name(url)} needs {EXPECTED_DRIVER}, but it cannot be "
            "imported"
        )
    for variable in _ADDRESS_VARIABLES:
        if os.environ.get(variable):
            raise DeclarationError(
                f"source.database: {database_name(url)}: the variable {variable} may name another "
                f"server than the URL does: unset {variable}"
            )
    seconds = url.query.get("connect_timeout", _CONNECT_SECONDS)
    return create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": seconds})


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
    is_there = not location.startswith(SQLITE) or Path(location.removeprefix(SQLITE)).exists()
    return "" if is_there else "no file there: put it there, or correct `database`"


def _reason(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else None
    code = getattr(cause, "pgcode", None)
    # With a code the text quotes the query, in which any of these words may stand.
    text = "" if code else str(cause)
    reasons = (reason for sign, reason in _REASONS.items() if sign == code or sign in text)
    return next(reasons, "an error of the database: run the query in the database's own client")


def select_declared(connection: Connection, spec: DatasetSpec) -> tuple[str, pa.Schema]:
    """Make a connection read-only, and return the SQL for the declared columns of a source's query.

    Also the schema of its rows, in which text is binary; times are selected as text.
    No row is read. SourceError if a column is missing. On PostgreSQL also if one is neither text,
    number, truth value nor date, if the person's is neither whole number, text nor uuid, and for
    sensitive rows in an encoding in which a text could stop the query.
    """
    select = _select_sqlite if _is_sqlite(connection) else _select_postgresql
    return select(connection, spec)


def _is_sqlite(connection: Connection) -> bool:
    return connection.dialect.name == "sqlite"


def _select_postgresql(connection: Connection, spec: DatasetSpec) -> tuple[str, pa.Schema]:
    for statement in _READ_ONLY:
        connection.exec_driver_sql(statement)
    column_types = _require_types(spec, _postgresql_types(connection, spec.source.query))
    encoding = str(connection.exec_driver_sql("SHOW server_encoding").scalar())
    if spec.is_release and encoding not in _TOTAL_ENCODINGS:
        # A text that cannot be converted would stop the query, which reveals it.
        raise refusal(
            spec,
            "a database of encoding UTF8, LATIN1 or SQL_ASCII",
            f"{encoding}: export the rows to Parquet",
        )
    types: dict[str, pa.DataType] = {}
    columns = []
    for name in declared_columns(spec):
        type_ = _NUMBER_TYPES.get(column_types[name], pa.binary())
        column = f"declared.{quote_name(name)}"
        if pa.types.is_binary(type_):
            signs = next(iter(spec.signs_of(name)), PLAIN)
            decimal = signs.decimal if column_types[name] == "numeric" else "."
            column = _text_bytes(column, encoding, decimal)
            if name in spec.time_columns:
                type_ = _TIME_TYPES.get(column_types[name], type_)
        types[name] = type_
        columns.append(column)
    return select_from(spec.source.query, ", ".join(columns)), pa.schema(types)


def _postgresql_types(connection: Connection, query: str) -> list[_ColumnType]:
    """Return the columns of a query with their types, in its order, without reading a row."""
    statement = select_from(query, "*") + " LIMIT 0"
    # So that a percent sign is no parameter.
    cursor = connection.exec_driver_sql(statement, None, {"no_parameters": True}).cursor
    assert cursor is not None
    columns = [(str(item[0]), cast(int, item[1])) for item in cursor.description]
    oids = ", ".join(str(oid) for _, oid in columns)
    rows = connection.exec_driver_sql(
        f"SELECT oid, typname, typcategory FROM pg_catalog.pg_type WHERE oid IN ({oids})"
    )
    types = {int(oid): (str(name), str(category)) for oid, name, category in rows}
    return [_ColumnType(column, *types[oid]) for column, oid in columns]


def _require_types(spec: DatasetSpec, types: list[_ColumnType]) -> dict[str, str]:
    check_names(spec, [type_.column for type_ in types])
    declared = [type_ for type_ in types if type_.column in declared_columns(spec)]
    for column, name, category in declared:
        if (category not in _TEXT_CATEGORIES and name != "uuid") or name == "money":
            expected = f"text, numbers, truth values or dates in column {column!r}"
            raise refusal(spec, expected, f"the type {name}: cast it to text in the query")
        if column == spec.protection.column and name not in _PERSON_TYPES:
            expected = f"whole numbers, text or uuid in the person's column {column!r}"
            raise refusal(spec, expected, f"the type {name}: store it as bigint or text")
    return {type_.column: type_.name for type_ in declared}


def _text_bytes(column: str, encoding: str, decimal: str) -> str:
    """Return the SQL for the bytes of a column's text, cut behind MAX_CELL_BYTES + 1 characters.

    An invalid text would stop the query otherwise.

    decimal   decimal sign in which numbers are written
    """
    text = f"left(CAST({column} AS text), {MAX_CELL_BYTES + 1})"
    if decimal != ".":
        text = f"replace({text}, '.', '{decimal}')"
    return f"textsend({text})" if encoding == "SQL_ASCII" else f"convert_to({text}, 'UTF8')"


def _select_sqlite(connection: Connection, spec: DatasetSpec) -> tuple[str, pa.Schema]:
    # SQLite appends a number to a repeated name.
    names = [re.sub(r":\d+$", "", name) for name in _sqlite_columns(connection, spec.source.query)]
    check_names(spec, names)
    # Bytes, since a text that is not UTF-8 would stop the query.
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    driver.text_factory = bytes
    declared, length, columns = declared_columns(spec), MAX_CELL_BYTES + 1, []
    for column in map(quote_name, declared):
        content = f"CAST({column} AS blob)"
        is_long = f"typeof({column}) IN ('text', 'blob') AND length({content}) > {length}"
        columns.append(f"CASE WHEN {is_long} THEN substr({content}, 1, {length}) ELSE {column} END")
    statement = select_from(spec.source.query, ", ".join(columns))
    return statement, pa.schema(dict.fromkeys(declared, pa.binary()))


def _sqlite_columns(connection: Connection, query: str) -> list[str]:
    """Make a connection to SQLite read-only, and return the names of a query's columns."""
    connection.exec_driver_sql("PRAGMA query_only = ON")
    return list(connection.exec_driver_sql(select_from(query, "*") + " LIMIT 0").keys())


def quote_name(name: str) -> str:
    """Return a column's name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def select_from(query: str, columns: str) -> str:
    """Return the SQL that selects ``columns``, SQL too, from a query.

    The last line of the query may be a comment."""
    return f"SELECT {columns} FROM (\n{query.strip().removesuffix(';')}\n) AS declared"


def _read_tables(
    connection: Connection, statement: str, schema: pa.Schema, spec: DatasetSpec
) -> Iterator[pa.Table]:
    # On PostgreSQL a server-side cursor, so that the rows are read in batches.
    options = {"stream_results": True, "max_row_buffer": BATCH_ROWS, "no_parameters": True}
    result = connection.exec_driver_sql(statement, None, options)
    yield schema.empty_table()
    for rows in result.partitions(BATCH_ROWS):
        columns: Iterable[tuple[Cell, ...]] = zip(*rows, strict=True)
        arrays = [_column(c, field, spec) for c, field in zip(columns, schema, strict=True)]
        yield pa.table(arrays, schema=schema)


def _column(
    cells: tuple[Cell, ...], field: pa.Field, spec: DatasetSpec
) -> pa.Array | pa.ChunkedArray:
    is_time = pa.types.is_temporal(field.type)
    if not is_time and not pa.types.is_binary(field.type):
        return pa.array(cells, field.type)
    if field.name == spec.protection.column:
        return pa.array(map(person_as_bytes, cells), field.type)
    signs = next(iter(spec.signs_of(field.name)), PLAIN)
    texts = pa.array([as_bytes(cell, signs) for cell in cells], pa.binary())
    if is_time:
        return convert_times(pa.chunked_array([texts.cast(pa.string())]), field.type)
    return texts


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
    try:
        with open_database(_source_url("data init", source)).connect() as connection:
            if _is_sqlite(connection):
                names = _sqlite_columns(connection, source.query)
                return tuple(SourceColumn(name, "unknown") for name in names)
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
            return tuple(map(_source_column, _postgresql_types(connection, source.query)))
    except SQLAlchemyError as error:
        reason = _missing_file(source.location) or _reason(error)
        reason = reason.replace("`query`", "--query").replace("`database`", "--from")
    # Raised outside the handler, since the driver's message may have the user or the host.
    expected = "a database that answers one SELECT"
    raise SourceError(f"{source.identity}: expected {expected}, got {reason}")


def _source_column(type_: _ColumnType) -> SourceColumn:
    kind: ColumnKind = "text" if type_.name == "uuid" else _KINDS.get(type_.category, "unusable")
    if type_.name in _TIME_TYPES:
        kind = "date" if type_.name == "date" else "timestamp"
    if type_.name == "money":
        kind = "unusable"
    return SourceColumn(type_.column, kind, type_.name, type_.name in _INTEGER_TYPES)
