"""Sessions on a PostgreSQL server: how they are opened, locked, and what goes wrong in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL, Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from dp_pipeline.ledger.postgres_url import place
from dp_pipeline.schema.database import EXPECTED_DRIVER, has_driver
from dp_pipeline.schema.errors import Damaged, PipelineError

_WAITING = ("statement", "lock", "idle_session", "idle_in_transaction_session")
"""Time limits that a server may set, and that would end a wait for a lock, or lose one."""
_DAMAGED = ("XX", "42P01", "42703")
"""Beginnings of SQLSTATE: data is corrupted; a table or a column is gone."""

_LOCK = text("SELECT current_setting('fsync') FROM (SELECT pg_advisory_lock(:number)) AS held")
_HELD = text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() "
    "AND granted AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = :number"
)


class Sessions:
    """Each is a connection of its own: nothing is shared across a fork, no lock outlives its
    holder. Connect to the server itself: a pooler that hands one connection to several would
    hand on its locks too.
    """

    def __init__(self, address: URL) -> None:
        self._name = place(address)
        self._engine = _engine(address)

    def __str__(self) -> str:
        return self._name

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """A connection, closed when the block ends; its transactions see one state of the rows."""
        with self.errors():
            connection = self._engine.connect()
        with connection:
            yield connection

    def lock(self, connection: Connection, name: str) -> None:
        """Wait for a lock, and hold it until the session ends.

        Raises PipelineError on a server that may forget what it has committed.
        """
        with connection.begin():
            fsync = connection.execute(_LOCK, {"number": _number(name)}).scalar_one()
        if fsync != "on":
            raise PipelineError(
                f"ledger {self}: expected a server that writes to the disk, got fsync {fsync!r}"
            )

    def holds(self, connection: Connection, name: str) -> bool:
        """Whether a session is still there and has the lock."""
        try:
            with connection.begin():
                return bool(connection.execute(_HELD, {"number": _number(name)}).scalar_one())
        except DBAPIError:
            return False

    @contextmanager
    def errors(self) -> Iterator[None]:
        """What the server or the driver says as one line, without the statement."""
        try:
            yield
        except DBAPIError as error:
            state = getattr(error.orig, "pgcode", None) or ""
            said = getattr(getattr(error.orig, "diag", None), "message_primary", None)
            reason = " ".join(str(said or error.orig).split())
            kind = Damaged if state.startswith(_DAMAGED) else PipelineError
            raise kind(f"ledger {self}: {reason}") from None


def _engine(address: URL) -> Engine:
    given = address.query.get("options", ())
    limits = [f"-c {name}_timeout=0" for name in _WAITING]
    options = [given] if isinstance(given, str) else list(given)
    if not has_driver():
        raise PipelineError(
            f"ledger {place(address)}: expected {EXPECTED_DRIVER}, got none that can be imported"
        )
    return create_engine(
        address,
        poolclass=NullPool,
        isolation_level="REPEATABLE READ",
        connect_args={
            "options": " ".join([*options, *limits, "-c synchronous_commit=on"]),
            "application_name": "dp-pipeline ledger",
            "connect_timeout": 10,
            "keepalives_idle": 60,
        },
    )


def _number(name: str) -> int:
    """A lock's number: 64 bits with a sign, as the server wants it."""
    digest = hashlib.sha256(f"dp_pipeline ledger {name}".encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
