"""URLs of databases: which may be read, and what of one may be shown."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from dp_pipeline.schema.url import is_this_machine

EXPECTED_DATABASE = "postgresql://user@host/database or sqlite:///path"

_POSTGRESQL = ("postgresql", "postgresql+psycopg2")
_OPTIONS = {"sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "application_name"}
"""Of a PostgreSQL URL. Another option might name another host or database than the URL shows."""

_QUERY = re.compile(r"\s*(select|with)\b[^;]*;?\s*", re.IGNORECASE)


def database_url(text: str) -> URL | None:
    """The URL with its driver and port, or None where it is not one of EXPECTED_DATABASE; its
    ``str`` hides the password.
    """
    try:
        url = make_url(text)
        port = url.port or 5432
    except (ArgumentError, ValueError):
        return None
    if url.drivername == "sqlite":
        return url if _is_file(url) else None
    if url.drivername not in _POSTGRESQL or not (url.host and url.database):
        return None
    # A second @ is one of a password, whose end would be a part of what is shown.
    if not set(url.query) <= _OPTIONS or "@" in f"{url.host}{url.database}":
        return None
    # By its name, because which driver is meant by none differs between versions of SQLAlchemy.
    return url.set(drivername="postgresql+psycopg2", port=port)


def _is_file(url: URL) -> bool:
    """Whether a URL of SQLite is a path and nothing else."""
    path = url.database or ""
    if url.query or url.host or path.startswith("file:"):
        return False
    return Path(path).is_absolute()


def database_name(url: URL) -> str:
    """Which database it is, without user, password and options: what the ledger knows it by.

    This machine has one name, so that two lineages over one database meet.

    >>> url = database_url("postgresql://me:word@127.0.0.1/rides")
    >>> database_name(url)
    'postgresql://localhost:5432/rides'
    """
    if url.drivername == "sqlite":
        return f"sqlite:///{Path(str(url.database)).resolve()}"
    host = str(url.host).lower()
    if is_this_machine(host):
        host = "localhost"
    return f"postgresql://{host}:{url.port}/{url.database}"


def is_one_query(text: str) -> bool:
    """Whether ``text`` can be one SELECT and nothing behind it.

    A semicolon inside of a quoted text is not told from one that ends a statement:
    a second statement could end the transaction that makes the first read-only.

    >>> is_one_query("SELECT x FROM rides;"), is_one_query("SELECT x FROM rides; DROP TABLE rides")
    (True, False)
    """
    return _QUERY.fullmatch(text) is not None
