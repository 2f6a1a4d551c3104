"""Read-only connections to PostgreSQL and SQLite, and the statements for declared columns.

In SQLite every cell has its own type, so all columns are read as text, also numbers: a column's
type must not depend on a row.
"""

import os
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast
from urllib.parse import quote

import pyarrow as pa
from sqlalchemy import URL, Connection, Engine, create_engine
from sqlalchemy.pool import NullPool

from dp_pipeline.config.database import EXPECTED_DRIVER, database_name, has_driver
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.reading import Signs
from dp_pipeline.raw.sources.reading import MAX_CELL_BYTES, check_names, declared_columns, refusal
from dp_pipeline.raw.values import PLAIN

CONNECT_SECONDS = 30
TIME_TYPES = {
    "date": pa.date32(),
    "timestamp": pa.timestamp("s"),
    "timestamptz": pa.timestamp("s", "UTC"),
}
"""Types of PostgreSQL that are read as text and then converted; dates out of range become null."""

INTEGER_TYPES = ("int2", "int4", "int8")
_NUMBER_TYPES = {
    **dict.fromkeys(INTEGER_TYPES, pa.int64()),
    **dict.fromkeys(("float4", "float8"), pa.float64()),
}
# Categories of types that are read as PostgreSQL's text: truth values, dates and times,
# enumerations, exact numbers, texts, and texts without a type.
_TEXT_CATEGORIES = ("B", "D", "E", "N", "S", "X")
# Their values are equal exactly if their texts are, unlike numeric, with 7 and 7.0.
_PERSON_TYPES = (*INTEGER_TYPES, "text", "varchar", "bpchar", "name", "uuid")
_TOTAL_ENCODINGS = ("UTF8", "LATIN1", "SQL_ASCII")  # The server can convert every text of these
_ADDRESS_VARIABLES = ("PGHOSTADDR", "PGSERVICE")  # They change libpq's address in spite of the URL
_READ_ONLY = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET LOCAL datestyle = 'ISO, YMD'",
    "SET LOCAL timezone = 'UTC'",
)


@dataclass(frozen=True)
class SelectStatement:
    """A SELECT statement with the types of its columns, which are known before a row is read.

    text    the SQL
    types   column → int64, double, or binary for text
    times   binary column of dates or times → their type
    signs   column → signs in which numbers are written as text
    person  column that names the person, or None
    """

    text: str
    types: dict[str, pa.DataType]
    person: str | None = None
    times: Mapping[str, pa.DataType] = field(default_factory=dict)
    signs: Mapping[str, Signs] = field(default_factory=dict)


class ColumnType(NamedTuple):
    """A column of PostgreSQL, with the name (``int4``) and the category (``N``) of its type."""

    column: str
    name: str
    category: str


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
    seconds = url.query.get("connect_timeout", CONNECT_SECONDS)
    return create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": seconds})


def select_declared(connection: Connection, spec: DatasetSpec) -> SelectStatement:
    """Make a connection read-only, and return the SQL for the declared columns of a source's query.

    No row is read. SourceError if a column is missing. On PostgreSQL also if one is neither text,
    number, truth value nor date, if the person's is neither whole number, text nor uuid, and for
    sensitive rows in an encoding in which a text could stop the query.
    """
    select = _select_sqlite if is_sqlite(connection) else _select_postgresql
    return select(connection, spec)


def is_sqlite(connection: Connection) -> bool:
    """Return whether a connection is to SQLite."""
    return connection.dialect.name == "sqlite"


def _select_postgresql(connection: Connection, spec: DatasetSpec) -> SelectStatement:
    for statement in _READ_ONLY:
        connection.exec_driver_sql(statement)
    column_types = _require_types(spec, postgresql_types(connection, spec.source.query))
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
        types[name] = _NUMBER_TYPES.get(column_types[name], pa.binary())
        column = f"declared.{quote_name(name)}"
        if pa.types.is_binary(types[name]):
            signs = next(iter(spec.signs_of(name)), PLAIN)
            decimal = signs.decimal if column_types[name] == "numeric" else "."
            column = _text_bytes(column, encoding, decimal)
        columns.append(column)
    return SelectStatement(
        select_from(spec.source.query, ", ".join(columns)),
        types,
        person=spec.protection.column,
        times={
            name: TIME_TYPES[column_types[name]]
            for name in spec.time_columns
            if column_types[name] in TIME_TYPES
        },
    )


def postgresql_types(connection: Connection, query: str) -> list[ColumnType]:
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
    return [ColumnType(column, *types[oid]) for column, oid in columns]


def _require_types(spec: DatasetSpec, types: list[ColumnType]) -> dict[str, str]:
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


def _select_sqlite(connection: Connection, spec: DatasetSpec) -> SelectStatement:
    # SQLite appends a number to a repeated name.
    names = [re.sub(r":\d+$", "", name) for name in sqlite_columns(connection, spec.source.query)]
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
    return SelectStatement(
        select_from(spec.source.query, ", ".join(columns)),
        dict.fromkeys(declared, pa.binary()),
        person=spec.protection.column,
        signs={name: signs for name in declared for signs in spec.signs_of(name)},
    )


def sqlite_columns(connection: Connection, query: str) -> list[str]:
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
