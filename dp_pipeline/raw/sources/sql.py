"""PostgreSQL, in a transaction that can only read.

SelectStatement: how the declared columns are asked of one database, and as what they come back.

Queries: one SELECT of a database that cannot be written to from here, read in batches.

What a driver says of an error may hold a value of a row, the user or the host: it is dropped, and
a short list of reasons stands in for what a person can mend.

SQLite files, opened to be read only.

SQLite's columns have no types: every cell has its own. So all of them arrive as text, also
numbers: a column's type must not depend on a row.

Names and types of a query's columns, from a database that is asked for no row of it.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast
from urllib.parse import quote

import pyarrow as pa
from sqlalchemy import URL, Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from dp_pipeline.config.database import (
    EXPECTED_DATABASE,
    EXPECTED_DRIVER,
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
    LONGEST_CELL,
    check_names,
    converted_times,
    declared_columns,
    refusal,
)
from dp_pipeline.raw.values import PLAIN

Cell = bytes | memoryview | int | float | None

_FIRST_ROUNDED = 2.0**53
"""The least whole number that another one is rounded to."""


@dataclass(frozen=True)
class SelectStatement:
    """One statement and the types of its columns, known before a row was read.

    types   column → int64, double, or binary: text, judged cell by cell
    times   columns of binary that the database knows as dates or times → what they become
    signs   column → how texts of it are read, where numbers among them have to be written so
    person  the column that names the person, if there is one
    """

    statement: str
    types: dict[str, pa.DataType]
    person: str | None = None
    times: Mapping[str, pa.DataType] = field(default_factory=dict)
    signs: Mapping[str, Signs] = field(default_factory=dict)


def quoted(name: str) -> str:
    """A column's name in standard SQL."""
    return '"' + name.replace('"', '""') + '"'


def around(query: str, columns: str) -> str:
    """``columns`` of the rows of a query, whose last line may be a comment."""
    return f"SELECT {columns} FROM (\n{query.strip().removesuffix(';')}\n) AS declared"


def as_bytes(cell: Cell, signs: Signs = PLAIN) -> bytes | None:
    """A cell's text; a whole number has no point, however it is stored.

    signs   by which the text will be read
    """
    if cell is None or isinstance(cell, bytes):
        return cell
    if isinstance(cell, memoryview):
        return bytes(cell)
    is_whole = isinstance(cell, float) and cell.is_integer()
    return signs.localise(str(int(cell) if is_whole else cell)).encode()


def person_as_bytes(cell: Cell) -> bytes | None:
    """The id in a cell of a person's column; None where it names nobody.

    A floating number is an id where it is a whole one below 2^53, because only then is it surely
    the one that was meant: larger ones were rounded, so that two persons may be one, or one two.
    """
    if isinstance(cell, float) and not (cell.is_integer() and abs(cell) < _FIRST_ROUNDED):
        return None
    return as_bytes(cell)


CONNECT_SECONDS = 30

_NUMBERS = {
    "int2": pa.int64(),
    "int4": pa.int64(),
    "int8": pa.int64(),
    "float4": pa.float64(),
    "float8": pa.float64(),
}
_AS_TEXT = ("B", "D", "E", "N", "S", "X")
"""Categories of types that arrive as the text that PostgreSQL writes them as: truth values, dates
and times, enumerations, exact numbers, texts, and a text without a type."""

_OF_PERSONS = ("int2", "int4", "int8", "text", "varchar", "bpchar", "name", "uuid")
"""Types of which two values are one exactly where their texts are: a numeric may be 7 and 7.0."""

_TIMES = {
    "date": pa.date32(),
    "timestamp": pa.timestamp("s"),
    "timestamptz": pa.timestamp("s", "UTC"),
}
"""Types that arrive as text too, as every date that PostgreSQL has, and only some of them are dates
here: of the others the cell is empty."""

_TOTAL = ("UTF8", "LATIN1", "SQL_ASCII")
"""Encodings of which every text can be read; others have bytes that the server cannot convert."""

_ELSEWHERE = ("PGHOSTADDR", "PGSERVICE")
"""Variables from which libpq takes an address, whatever host the URL says."""

_FIRST = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET LOCAL datestyle = 'ISO, YMD'",
    "SET LOCAL timezone = 'UTC'",
)


def postgresql_engine(url: URL) -> Engine:
    """An engine of the server; DeclarationError where its driver cannot be imported, and where the
    environment would lead it to another server than the one that the URL names.
    """
    if not has_driver():
        raise DeclarationError(
            f"source.database: expected {EXPECTED_DRIVER}, got none that can be imported"
        )
    for name in _ELSEWHERE:
        if os.environ.get(name):
            raise DeclarationError(
                f"source.database: expected the server that its URL names, got {name}, which may "
                f"name another: unset {name}"
            )
    seconds = url.query.get("connect_timeout", CONNECT_SECONDS)
    return create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": seconds})


def postgresql_selection(connection: Connection, spec: DatasetSpec) -> SelectStatement:
    """Look at the names and types of the query's columns, at no row.

    SourceError where a column is not there or is neither text, number, truth value nor date, where
    the person's is neither whole number, text nor uuid, and for sensitive rows of an encoding in
    which one text could stop the others.
    """
    for statement in _FIRST:
        connection.exec_driver_sql(statement)
    types = _declared_types(connection, spec)
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
    if spec.is_release and encoding not in _TOTAL:
        # One such text would stop the query, and tell that it is there.
        raise refusal(spec, f"a database of encoding {', '.join(_TOTAL)}", str(encoding))
    found = {name: _NUMBERS.get(types[name], pa.binary()) for name in declared_columns(spec)}
    columns = [
        _expression(name, kind, str(encoding), _sign(spec, name, types[name]))
        for name, kind in found.items()
    ]
    statement = around(spec.source.query, ", ".join(columns))
    times = {one: _TIMES[types[one]] for one in spec.times if types[one] in _TIMES}
    return SelectStatement(statement, found, person=spec.protection.column, times=times)


def _sign(spec: DatasetSpec, name: str, type_: str) -> str:
    """What stands before the decimals of a stored number that arrives as text."""
    signs = next(iter(spec.signs_of(name)), PLAIN)
    return signs.decimal if type_ == "numeric" else "."


def _declared_types(connection: Connection, spec: DatasetSpec) -> dict[str, str]:
    """The name of every declared column's type."""
    statement = around(spec.source.query, "*") + " LIMIT 0"
    # Without parameters a percent sign is one.
    described = connection.exec_driver_sql(statement, None, {"no_parameters": True}).cursor
    assert described is not None
    columns = [(str(one[0]), cast(int, one[1])) for one in described.description]
    check_names(spec, [name for name, _ in columns])
    oids = ", ".join(str(oid) for _, oid in columns)
    rows = connection.exec_driver_sql(
        f"SELECT oid, typname, typcategory FROM pg_catalog.pg_type WHERE oid IN ({oids})"
    )
    types = {int(oid): (str(name), str(category)) for oid, name, category in rows}
    declared = {name: types[oid] for name, oid in columns if name in declared_columns(spec)}
    for column, (name, category) in declared.items():
        if (category not in _AS_TEXT and name != "uuid") or name == "money":
            expected = f"text, numbers, truth values or dates in column {column!r}"
            raise refusal(spec, expected, f"the type {name}")
        if column == spec.protection.column and name not in _OF_PERSONS:
            expected = f"whole numbers, text or uuid in the person's column {column!r}"
            raise refusal(spec, expected, f"the type {name}: store it as bigint or text")
    return {column: name for column, (name, _) in declared.items()}


def _expression(name: str, kind: pa.DataType, encoding: str, sign: str) -> str:
    """A number as it is; all else as the bytes of its text, so that no cell stops the others:
    a database without an encoding holds texts that are none.
    """
    column = f"declared.{quoted(name)}"
    if not pa.types.is_binary(kind):
        return column
    text = f"left(CAST({column} AS text), {LONGEST_CELL + 1})"
    if sign != ".":
        text = f"replace({text}, '.', '{sign}')"
    return f"textsend({text})" if encoding == "SQL_ASCII" else f"convert_to({text}, 'UTF8')"


_TWICE = re.compile(r":\d+$")
"""What SQLite puts behind a name that a query gives twice."""


def sqlite_engine(url: URL) -> Engine:
    """An engine of a file that must be there; nothing can be written through it."""
    uri = f"file:{quote(str(url.database))}?mode=ro"
    return create_engine(
        "sqlite://", creator=lambda: sqlite3.connect(uri, uri=True), poolclass=NullPool
    )


def sqlite_selection(connection: Connection, spec: DatasetSpec) -> SelectStatement:
    """Look at the columns of the query, at no row; SourceError where one is not there."""
    connection.exec_driver_sql("PRAGMA query_only = ON")
    described = connection.exec_driver_sql(around(spec.source.query, "*") + " LIMIT 0")
    names = [_TWICE.sub("", name) for name in described.keys()]  # noqa: SIM118
    check_names(spec, names)
    # As bytes: a text that is not UTF-8 would stop the query.
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    driver.text_factory = bytes
    declared = declared_columns(spec)
    statement = around(spec.source.query, ", ".join(map(_bounded, declared)))
    types = dict.fromkeys(declared, pa.binary())
    signs = {name: one for name in declared for one in spec.signs_of(name)}
    return SelectStatement(statement, types, person=spec.protection.column, signs=signs)


def _bounded(name: str) -> str:
    """A column whose cells come no longer than needed to see that they are too long."""
    column, most = quoted(name), LONGEST_CELL + 1
    is_long = f"typeof({column}) IN ('text', 'blob') AND length(CAST({column} AS blob)) > {most}"
    return f"CASE WHEN {is_long} THEN substr(CAST({column} AS blob), 1, {most}) ELSE {column} END"


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


def read_sql(spec: DatasetSpec) -> Iterator[pa.Table]:
    """The declared columns of the query's rows, in the order in which the database gives them:
    whole and floating numbers of PostgreSQL as such, all else as the bytes of a text. The first
    table has no row.

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
        tables = _tables(connection, selection)
        table: pa.Table | None
        while (
            table := _attempt(
                spec,
                lambda: next(tables, None),
                expected="the rows of the query",
                got="one that failed at a row",
            )
        ) is not None:
            yield table


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


def _tables(connection: Connection, selection: SelectStatement) -> Iterator[pa.Table]:
    schema = pa.schema(selection.types)
    # On PostgreSQL a cursor of the server: the rows are never here all at once but as columns.
    options = {"stream_results": True, "max_row_buffer": BATCH_ROWS, "no_parameters": True}
    result = connection.exec_driver_sql(selection.statement, None, options)
    yield _timed(schema.empty_table(), selection)
    for rows in result.partitions(BATCH_ROWS):
        batch = _batch(zip(*rows, strict=True), schema, selection)
        yield _timed(pa.Table.from_batches([batch]), selection)


def _timed(table: pa.Table, selection: SelectStatement) -> pa.Table:
    """The same with days and times as such."""
    for name, type_ in selection.times.items():
        cells = converted_times(table.column(name).cast(pa.string()), type_)
        table = table.set_column(table.column_names.index(name), name, cells)
    return table


def _batch(
    columns: Iterable[tuple[Cell, ...]], schema: pa.Schema, selection: SelectStatement
) -> pa.RecordBatch:
    arrays = [_column(cells, one, selection) for cells, one in zip(columns, schema, strict=True)]
    return pa.record_batch(arrays, schema=schema)


def _column(cells: tuple[Cell, ...], field: pa.Field, selection: SelectStatement) -> pa.Array:
    if not pa.types.is_binary(field.type):
        return pa.array(cells, field.type)
    if field.name == selection.person:
        return pa.array(map(person_as_bytes, cells), field.type)
    signs = selection.signs.get(field.name, PLAIN)
    return pa.array([as_bytes(cell, signs) for cell in cells], field.type)


_KINDS: dict[str, ColumnKind] = {
    "B": "boolean",
    "N": "number",
    "D": "text",
    "E": "text",
    "S": "text",
    "X": "text",
}
"""PostgreSQL's category of a type → what it is to us."""

_WHOLE = ("int2", "int4", "int8")


def query_columns(source: Source) -> tuple[SourceColumn, ...]:
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


def _untyped(connection: Connection, source: Source) -> tuple[SourceColumn, ...]:
    connection.exec_driver_sql("PRAGMA query_only = ON")
    described = connection.exec_driver_sql(f"{around(source.query, '*')} LIMIT 0")
    return tuple(SourceColumn(str(name), "unknown") for name in described.keys())  # noqa: SIM118


def _typed(connection: Connection, source: Source) -> tuple[SourceColumn, ...]:
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


def _found(name: str, type_: str, category: str) -> SourceColumn:
    kind: ColumnKind = "text" if type_ == "uuid" else _KINDS.get(category, "unusable")
    if type_ in _TIMES:
        kind = "date" if type_ == "date" else "timestamp"
    return SourceColumn(name, "unusable" if type_ == "money" else kind, type_, type_ in _WHOLE)
