"""A ledger in one SQLite file: made once, opened for each transaction."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from dp_pipeline.ledger.files import file_errors, locked, private_folder, publish
from dp_pipeline.ledger.store import StillHeld
from dp_pipeline.ledger.tables import SQLITE_TRIGGERS, metadata
from dp_pipeline.schema.errors import Damaged, PipelineError
from dp_pipeline.schema.system_errors import with_remedy

BUSY_SECONDS = 120
_APPLICATION = 0x64706C67
_FORMATS = (1, 2)
"""In the second a ledger has a head outside; one of the first gets it when it is next written."""
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SqliteStore:
    """``ledger.sqlite`` with its folders ``locks/`` and ``keys/``.

    Every transaction opens the file and closes it again. That costs about 2.5
    milliseconds and buys three things: nothing is shared across a fork, no lock
    outlives its holder, and the last one to close moves the write-ahead log into
    the file, so that a copy of an idle ledger is a whole ledger.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "ledger.sqlite"
        self.locks = folder / "locks"
        self.keys = folder / "keys"
        self._engine = _engine(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        """Whether there is a ledger; Damaged if there was one.

        Locks and keys are only ever made after the file, so seeing one without
        the other means that the file was lost, and an empty ledger in its place
        would reset every budget.
        """
        with file_errors(self.folder):
            if self.path.exists():
                return True
            orphans = any(next(d.iterdir(), None) for d in (self.locks, self.keys) if d.is_dir())
            # Looked at again: another process may have made all of it in between.
            if orphans and not self.path.exists():
                raise Damaged(
                    f"ledger {self.path}: the file is lost, its locks or keys are not; "
                    "DP_PIPELINE_LEDGER names no other place"
                )
            return self.path.exists()

    def create(self, before: Callable[[], None]) -> None:
        """Make the ledger if it is absent; any number of processes may do so at once."""
        if self.exists():
            return
        with file_errors(self.folder):
            for folder in (self.folder, self.locks, self.keys):
                private_folder(folder)
            # Whatever made the folder, what lies in it is for its owner only.
            self.folder.chmod(0o700)
            descriptor, name = tempfile.mkstemp(prefix=".new-", dir=self.folder)
            os.close(descriptor)
            _fill(Path(name))
            before()
            publish(Path(name), self.path)

    def alone(self) -> AbstractContextManager[None]:
        """The lock of all writers.

        SQLite keeps writers apart by itself, but by polling: of six busy processes
        the unluckiest waited 1.5 s for its turn, with the lock as a queue 0.4 s.
        """
        return locked(self.locks / "ledger.lock")

    @contextmanager
    def holding(self, key: str) -> Iterator[StillHeld]:
        """The lock of one release: a file's, which nobody can lose."""
        with locked(self.locks / f"{key}.lock"):
            yield lambda: None

    @contextmanager
    def transaction(self, *, writing: bool) -> Iterator[Connection]:
        """One transaction; a reader sees one state of the rows and does not wait for writers."""
        begin = "BEGIN IMMEDIATE" if writing else "BEGIN"
        try:
            with self._engine.execution_options(begin=begin).begin() as connection:
                self._require_ledger(connection)
                yield connection
        except DBAPIError as error:
            raise self._explained(error) from None

    def _require_ledger(self, connection: Connection) -> None:
        application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
        if application != _APPLICATION:
            raise Damaged(f"ledger {self.path}: the file is not a ledger")
        version = _format(connection)
        if version not in _FORMATS:
            raise PipelineError(
                f"ledger {self.path}: expected format {_FORMATS[-1]}, got format {version}"
            )

    def knows_heads(self, connection: Connection) -> bool:
        """Whether the file is of the second format."""
        return _format(connection) >= 2

    def start_heads(self, connection: Connection) -> None:
        """Make a file of the first format one of the second."""
        if not self.knows_heads(connection):
            connection.exec_driver_sql(f"PRAGMA user_version = {_FORMATS[-1]}")

    def missing_guards(self, connection: Connection) -> list[str]:
        """The triggers that should be there, word for word, and are not."""
        rows = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE type = 'trigger'")
        present = {row[0] for row in rows}
        return [text.split()[2] for text in SQLITE_TRIGGERS if text not in present]

    def _explained(self, error: DBAPIError) -> PipelineError:
        code = getattr(error.orig, "sqlite_errorcode", None)
        reason = " ".join(str(error.orig).split())
        # No code: Python could not even decode what SQLite handed over.
        if code is None or code & 0xFF in _CORRUPT:
            return Damaged(f"ledger {self.path}: {reason}")
        return PipelineError(with_remedy(f"ledger {self.path}: {reason}", error.orig))


def _format(connection: Connection) -> int:
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def _engine(path: Path) -> Engine:
    engine = create_engine("sqlite://", creator=lambda: _connect(path), poolclass=NullPool)

    # The driver's own BEGIN is switched off: it would start as a reader and then
    # fail, instead of waiting, when a reader wants to become a writer.
    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options()["begin"])

    return engine


def _connect(path: Path) -> sqlite3.Connection:
    # mode=rw: opening must never make an empty file in the place of a lost one.
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode=rw",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _fill(path: Path) -> None:
    """Turn an empty file into an empty ledger."""
    connection = _connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    with _engine(path).execution_options(begin="BEGIN IMMEDIATE").begin() as transaction:
        transaction.exec_driver_sql(f"PRAGMA application_id = {_APPLICATION}")
        transaction.exec_driver_sql(f"PRAGMA user_version = {_FORMATS[-1]}")
        metadata.create_all(transaction)
