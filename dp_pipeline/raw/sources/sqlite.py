"""SQLite files, opened to be read only.

SQLite's columns have no types: every cell has its own. So all of them arrive as text, also
numbers: a column's type must not depend on a row.
"""

from __future__ import annotations

import re
import sqlite3
from urllib.parse import quote

import pyarrow as pa
from sqlalchemy import URL, Connection, Engine, create_engine
from sqlalchemy.pool import NullPool

from dp_pipeline.raw.sources.reading import check_names, declared_columns
from dp_pipeline.raw.sources.selection import Selection, around, quoted
from dp_pipeline.schema.spec import DatasetSpec

_TWICE = re.compile(r":\d+$")
"""What SQLite puts behind a name that a query gives twice."""


def sqlite_engine(url: URL) -> Engine:
    """An engine of a file that must be there; nothing can be written through it."""
    uri = f"file:{quote(str(url.database))}?mode=ro"
    return create_engine(
        "sqlite://", creator=lambda: sqlite3.connect(uri, uri=True), poolclass=NullPool
    )


def sqlite_selection(connection: Connection, spec: DatasetSpec) -> Selection:
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
    statement = around(spec.source.query, ", ".join(map(quoted, declared)))
    types = dict.fromkeys(declared, pa.binary())
    return Selection(statement, types, person=spec.protection.column)
