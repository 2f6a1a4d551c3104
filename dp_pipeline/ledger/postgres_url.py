"""The address of a PostgreSQL server, as a variable of the environment names it."""

from __future__ import annotations

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from dp_pipeline.schema.errors import DeclarationError

DRIVER = "postgresql+psycopg2"
"""Said outright: SQLAlchemy 2.1 takes a bare ``postgresql`` for another driver than 2.0."""


def postgres_url(text: str, *, of: str) -> URL:
    """The address that ``text`` spells; DeclarationError, without it, where it spells none.

    of   the variable's name, for messages

    >>> postgres_url("postgresql://ana:secret@db:5432/budgets", of="X").host
    'db'
    """
    expected = f"{of}: expected postgresql://user@host/database, got"
    try:
        url = make_url(text)
    # ValueError: of a port that is no number.
    except (ArgumentError, ValueError):
        raise DeclarationError(f"{expected} no address") from None
    if url.drivername not in ("postgresql", DRIVER):
        raise DeclarationError(f"{expected} an address of {url.drivername}")
    if not url.database:
        raise DeclarationError(f"{expected} an address without a database")
    if "@" in f"{url.host}{url.database}":
        # The end of a password: host and database stand in messages.
        raise DeclarationError(f"{expected} a second @: one of a password is written %40")
    return url.set(drivername=DRIVER)


def place(url: URL) -> str:
    """The address as messages show it: without user, password and options.

    >>> place(postgres_url("postgresql://ana:secret@db:5432/budgets?sslmode=require", of="X"))
    'postgresql://db:5432/budgets'
    """
    port = "" if url.port is None else f":{url.port}"
    return f"postgresql://{url.host or ''}{port}/{url.database}"
