"""URLs of databases that are allowed, their canonical names in the ledger, and allowed queries."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dp_pipeline.config.system_errors import follow_links
from dp_pipeline.config.url import canonical_host, host_and_port, host_names, is_host

if TYPE_CHECKING:
    from sqlalchemy import URL

EXPECTED_DRIVER = "psycopg2, which `pip install 'dp-pipeline[postgresql]'` brings"

_POSTGRESQL = ("postgresql", "postgresql+psycopg2")
_OPTIONS = {"sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "application_name"}
"""Allowed options of a PostgreSQL URL; others could name another host or database."""

EXPECTED_DATABASE = (
    f"postgresql://user@host/database, with no options but {', '.join(sorted(_OPTIONS))}, or "
    "sqlite:////absolute/path"
)

_DATABASE_NAME = re.compile(r"[\w.$ -]+", re.ASCII)
"""The name of a database, without connection settings, parts of a URL, or letters outside ASCII,
which programs compare in different ways."""

SQLITE = "sqlite:///"
DUCKDB = "duckdb:///"
_SERVER = re.compile(r"postgresql://(.+):(\d+)/([^/]+)")
"""Form of a name that ``database_name`` gives to a database on a server."""

_QUERY = re.compile(r"\s*(select|with)\b[^;]*;?\s*", re.IGNORECASE)


def database_url(text: str) -> URL | None:
    """Return the URL of a SQLite file or a PostgreSQL database; None for any other text.

    None also for a relative path, for several hosts, and for an option that is not known to be
    harmless. A PostgreSQL URL gets the driver psycopg2, and the port 5432 if it has none.
    """
    # The import takes a third of a second, and most data sets are files.
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
        port = url.port or 5432
    except (ArgumentError, ValueError):
        return None
    if url.drivername == "sqlite":
        is_file = Path(url.database or "").is_absolute() and not (url.query or url.host)
        return url if is_file else None
    if url.drivername not in _POSTGRESQL or not (url.host and url.database):
        return None
    # Several hosts, a socket's folder, or a rest of a password after a second @ are no host.
    if not (set(url.query) <= _OPTIONS and is_host(url.host)):
        return None
    if not _DATABASE_NAME.fullmatch(url.database):
        return None
    # The default driver differs between versions of SQLAlchemy.
    return url.set(drivername="postgresql+psycopg2", port=port)


def split_database_file(location: str) -> tuple[str, str] | None:
    """Return the prefix and the path of a database file; None for any other location.

    >>> split_database_file("duckdb:////data/rides.duckdb"), split_database_file("$RIDES")
    (('duckdb:///', '/data/rides.duckdb'), None)
    """
    prefix = next((prefix for prefix in (SQLITE, DUCKDB) if location.startswith(prefix)), None)
    return None if prefix is None else (prefix, location.removeprefix(prefix))


def has_driver() -> bool:
    """Return whether psycopg2 can be imported."""
    try:
        # One that was built for another Python raises SystemError.
        importlib.import_module("psycopg2")
    except (ImportError, SystemError):
        return False
    return True


def database_name(url: URL) -> str:
    """Return the name of a database with a canonical host, without user, password and options.

    >>> url = database_url("postgresql://me:word@127.0.0.1/rides")
    >>> database_name(url)
    'postgresql://localhost:5432/rides'
    """
    if url.drivername == "sqlite":
        return f"{SQLITE}{follow_links(str(url.database))}"
    server = host_and_port(canonical_host(str(url.host)), url.port)
    return f"postgresql://{server}/{url.database}"


def server_names(location: str) -> tuple[str, ...]:
    """Return the canonical names of a database on a server; empty for any other location.

    Names that differ in capital letters alone are the same, since people write both.

    >>> server_names("postgresql://127.1:5432/Rides")
    ('sql:postgresql://localhost:5432/rides',)
    """
    parts = _SERVER.fullmatch(location)
    if parts is None:
        return ()
    host, port, name = parts.groups()
    servers = (host_and_port(name, int(port)) for name in host_names(host))
    return tuple(f"sql:postgresql://{server}/{name.casefold()}" for server in servers)


def is_one_query(text: str) -> bool:
    """Return whether a text begins with SELECT or WITH and has no semicolon before its end.

    A second statement could end the transaction that makes the first read-only; so a semicolon in a
    quoted text is refused too.

    >>> is_one_query("SELECT x FROM rides;"), is_one_query("SELECT x FROM rides; DROP TABLE rides")
    (True, False)
    """
    return _QUERY.fullmatch(text) is not None
