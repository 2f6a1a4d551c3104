"""URLs of databases: allowed ones, and the canonical names by which the ledger knows them; and
queries.
"""

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

EXPECTED_DATABASE = "postgresql://user@host/database or sqlite:///path"

_POSTGRESQL = ("postgresql", "postgresql+psycopg2")
_OPTIONS = {"sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "application_name"}
"""Options of a PostgreSQL URL. Others might name another host or database than the URL shows."""

_DATABASE_NAME = re.compile(r"[\w.$ -]+", re.ASCII)
"""The name of a database: no settings of a connection, no part of a URL, and no letter that two
programs could compare in two ways."""

SQLITE = "sqlite:///"
_SERVER = re.compile(r"postgresql://(.+):(\d+)/([^/]+)")
"""The form of ``database_name`` of a server."""

_QUERY = re.compile(r"\s*(select|with)\b[^;]*;?\s*", re.IGNORECASE)


def database_url(text: str) -> URL | None:
    """Return the URL with its driver and port, or None for another than EXPECTED_DATABASE."""
    # The import takes a third of a second, and most data sets are files.
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
        port = url.port or 5432
    except (ArgumentError, ValueError):
        return None
    if url.drivername == "sqlite":
        return url if _is_file(url) else None
    if url.drivername not in _POSTGRESQL or not (url.host and url.database):
        return None
    # Several hosts, a socket's folder or a second @, which is one of a password, are no host.
    if not (
        set(url.query) <= _OPTIONS and is_host(url.host) and _DATABASE_NAME.fullmatch(url.database)
    ):
        return None
    # The default driver differs between versions of SQLAlchemy.
    return url.set(drivername="postgresql+psycopg2", port=port)


def has_driver() -> bool:
    """Return whether psycopg2 can be imported; one of another Python raises SystemError."""
    try:
        importlib.import_module("psycopg2")
    except (ImportError, SystemError):
        return False
    return True


def _is_file(url: URL) -> bool:
    """Return whether a URL of SQLite is a path and nothing else."""
    path = url.database or ""
    if url.query or url.host or path.startswith("file:"):
        return False
    return Path(path).is_absolute()


def database_name(url: URL) -> str:
    """Return the name of a database, without user, password and options, its host canonical.

    >>> url = database_url("postgresql://me:word@127.0.0.1/rides")
    >>> database_name(url)
    'postgresql://localhost:5432/rides'
    """
    if url.drivername == "sqlite":
        return f"{SQLITE}{follow_links(str(url.database))}"
    server = host_and_port(canonical_host(str(url.host)), url.port)
    return f"postgresql://{server}/{url.database}"


def server_names(location: str) -> tuple[str, ...]:
    """Return the canonical names of a database on a server; none for another text.

    Two databases whose names differ in capital letters alone are one: people write both for one.

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
    """Return whether ``text`` can be one SELECT and nothing behind it.

    A semicolon inside of a quoted text is refused too: a second statement could end the transaction
    that makes the first read-only.

    >>> is_one_query("SELECT x FROM rides;"), is_one_query("SELECT x FROM rides; DROP TABLE rides")
    (True, False)
    """
    return _QUERY.fullmatch(text) is not None
