"""A ledger in one SQLite file, which is opened anew for each transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.config.system_errors import with_remedy
from dp_pipeline.files import sync, temporary_folder
from dp_pipeline.ledger.book import Store
from dp_pipeline.ledger.head import FORMAT, file_errors, locked, make_folders

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

MOVED = "ledger.sqlite.moved"
"""Name of the file once the ledger is on a server: nothing opens it again."""
BUSY_SECONDS = 120
_APPLICATION = 0x64706C67
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""Codes of a damaged file; SQLITE_ERROR is that of a table or column that is gone."""


class SqliteStore(Store):
    """A ledger in the file ``ledger.sqlite``, with folders for its locks and keys.

    Opening the file for every transaction costs about 2.5 ms. In return a fork shares nothing, no
    lock outlives its process, and the last one to close moves the write-ahead log into the file, so
    that a copy of an idle ledger is complete.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "ledger.sqlite"

    def __str__(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        # Locks and keys are made after the file: an empty ledger in the place of a lost file would
        # reset every budget.
        with file_errors(self.folder):
            if self.path.exists():
                return True
            existing = [folder for folder in (self.keys, self.locks) if folder.is_dir()]
            orphans = [folder for folder in existing if next(folder.iterdir(), None)]
            # Asked again: another process may have made all of it in between.
            if orphans and not self.path.exists():
                if (self.folder / MOVED).exists():
                    raise Damaged(
                        f"The rows of ledger {self.path} were moved to a server: all commands but "
                        "`budget move` find them while DP_PIPELINE_LEDGER names that server"
                    )
                raise Damaged(
                    f"The file of ledger {self.path} is lost, but its {orphans[0].name} are here: "
                    "put back a copy, or name its server in DP_PIPELINE_LEDGER"
                )
            return self.path.exists()

    def create(self, before_visible: Callable[[], None]) -> None:
        if self.exists():
            return
        make_folders(self.folder, self.locks, self.keys)
        with file_errors(self.folder):
            with temporary_folder(self.path) as folder:
                new = folder / self.path.name
                new.touch(mode=0o600)
                _fill(new)
                before_visible()
                sync(new)
                # Of many processes one wins; its ledger is as good as ours.
                with suppress(FileExistsError):
                    self.path.hardlink_to(new)
            sync(self.folder)

    def exclusive(self) -> AbstractContextManager[None]:
        # SQLite's own lock is polled: of six busy processes one waited 1.5 s for its turn, with
        # this lock as a queue 0.4 s.
        return locked(self.locks / "ledger.lock")

    @contextmanager
    def unchecked_transaction(self, *, writing: bool) -> Iterator[Connection]:
        from sqlalchemy.exc import DBAPIError

        begin = "BEGIN IMMEDIATE" if writing else "BEGIN"
        try:
            with _engine(self.path).execution_options(begin=begin).begin() as connection:
                yield connection
        except DBAPIError as error:
            code = getattr(error.orig, "sqlite_errorcode", None)
            reason = " ".join(str(error.orig).split())
            # No code: Python could not even decode what SQLite handed over.
            if code is None or code & 0xFF in _CORRUPT:
                raise self._damage_error(reason) from None
            message = with_remedy(f"ledger {self.path}: {reason}", error.orig)
            raise PipelineError(message) from None
        except UnicodeDecodeError:
            # Python's driver cannot even read what SQLite says of a name that is no text.
            raise self._damage_error("the names of its tables are not text") from None

    def require_sound(self, connection: Connection) -> None:
        result = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalars().all()
        if result != ["ok"]:
            raise Damaged(
                f"ledger {self.path}: {' '.join(' '.join(result).split())}: where only an index is "
                "damaged, `REINDEX` in the sqlite3 program makes it anew; otherwise put back a "
                "copy with all rows"
            )

    def format(self, connection: Connection) -> int:
        application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
        if application != _APPLICATION:
            raise Damaged(f"The file {self.path} is not a ledger: put back a copy of the ledger")
        return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())

    def _damage_error(self, reason: str) -> Damaged:
        return Damaged(
            f"The database of ledger {self.path} is damaged: {reason}: put back the copy with all "
            "rows"
        )


@lru_cache(maxsize=16)
def _engine(path: Path) -> Engine:
    """Return the SQLAlchemy engine of a file, cached because it keeps compiled statements."""
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import NullPool

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
    from dp_pipeline.ledger.guards import create_guards
    from dp_pipeline.ledger.journal import create_tables, write_seal

    connection = _connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    with _engine(path).execution_options(begin="BEGIN IMMEDIATE").begin() as transaction:
        transaction.exec_driver_sql(f"PRAGMA application_id = {_APPLICATION}")
        create_tables(transaction)
        write_seal(transaction)
        create_guards(transaction)
        transaction.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")
