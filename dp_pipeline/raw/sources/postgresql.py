"""PostgreSQL, in a transaction that can only read."""

from __future__ import annotations

import os
from typing import cast

import pyarrow as pa
from sqlalchemy import URL, Connection, Engine, create_engine
from sqlalchemy.pool import NullPool

from dp_pipeline.raw.sources.reading import check_names, declared_columns, refusal
from dp_pipeline.raw.sources.selection import Selection, around, quoted
from dp_pipeline.schema.database import EXPECTED_DRIVER, has_driver
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.spec import DatasetSpec

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


def postgresql_selection(connection: Connection, spec: DatasetSpec) -> Selection:
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
    columns = [_expression(name, kind, str(encoding)) for name, kind in found.items()]
    statement = around(spec.source.query, ", ".join(columns))
    return Selection(statement, found, person=spec.protection.column)


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


def _expression(name: str, kind: pa.DataType, encoding: str) -> str:
    """A number as it is; all else as the bytes of its text, so that no cell stops the others:
    a database without an encoding holds texts that are none.
    """
    column = f"declared.{quoted(name)}"
    if not pa.types.is_binary(kind):
        return column
    text = f"CAST({column} AS text)"
    return f"textsend({text})" if encoding == "SQL_ASCII" else f"convert_to({text}, 'UTF8')"
