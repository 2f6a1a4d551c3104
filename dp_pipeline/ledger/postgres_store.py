"""A ledger on a PostgreSQL server; its locks hold here and there, its keys lie here."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, text

from dp_pipeline.ledger.errors import ReservationOver
from dp_pipeline.ledger.files import file_errors, locked, private_folder, sweep_locks
from dp_pipeline.ledger.head import Tip, newest
from dp_pipeline.ledger.postgres_guards import GUARDS, drop_guards, missing_guards
from dp_pipeline.ledger.postgres_sessions import Sessions
from dp_pipeline.ledger.postgres_soundness import require_sound
from dp_pipeline.ledger.postgres_url import postgres_url
from dp_pipeline.ledger.store import StillHeld, require_format
from dp_pipeline.ledger.tables import FORMAT, add_state, metadata, write_seal
from dp_pipeline.schema.errors import Damaged, PipelineError

LEDGER_VARIABLE = "DP_PIPELINE_LEDGER"
_KIND = "dp_pipeline ledger"
_MARK = re.compile(rf"{_KIND}, format (\d+)")
"""The comment on the table: what SQLite keeps in its header."""
_WRITERS = "writers"
_INDEXES_OF_THE_SECOND = (
    *("entries_by_lineage", "entries_by_key", "entries_by_source"),
    *("one_reserve_per_key", "one_account_per_lineage"),
)
_FOUND = text("SELECT to_regclass('entries') IS NOT NULL")
_MARKED = text("SELECT obj_description(to_regclass('entries'), 'pg_class')")


class PostgresStore:
    """Three tables of a database, and a folder with ``locks/`` and ``keys/``.

    Every transaction is a session of its own. That costs about 10 milliseconds.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.locks = folder / "locks"
        self.keys = folder / "keys"
        self._server = Sessions(postgres_url(url, of=LEDGER_VARIABLE))
        self._writer = threading.local()
        self._found = False

    def __str__(self) -> str:
        return str(self._server)

    def exists(self) -> bool:
        """Whether there is a ledger; Damaged if there was one, here or in a file.

        Keys are only ever made after the tables: keys without them mean that another
        database is asked than the one that has the rows.
        """
        self._require_no_file()
        # Every transaction looks for its tables: what was there once is not asked for twice.
        if not self._found:
            self._found = self._find()
        return self._found

    def create(self, before: Callable[[], None]) -> None:
        """Make the ledger if it is absent; any number of processes may do so at once."""
        if self.exists():
            return
        with file_errors(self.folder):
            for folder in (self.folder, self.locks, self.keys):
                private_folder(folder)
            self.folder.chmod(0o700)
        with self.alone(), self._server.errors(), self._writer.connection.begin():
            connection = self._writer.connection
            if not connection.execute(_FOUND).scalar_one():
                metadata.create_all(connection, checkfirst=False)
                write_seal(connection)
                _finish(connection)
                before()

    def receive(self, copy: Callable[[Connection], None], tip: Tip) -> None:
        """Make the ledger with rows of elsewhere, in one transaction; nothing where they are.

        copy   writes them, from the first to ``tip``; whoever calls holds the home's locks

        Raises PipelineError where a ledger is that ends in another row.
        """
        with self._server.errors(), self._server.session() as connection:
            self._server.lock(connection, _WRITERS)
            with connection.begin():
                if not connection.execute(_FOUND).scalar_one():
                    metadata.create_all(connection, checkfirst=False)
                    copy(connection)
                    _finish(connection)
                require_format(self._format(connection), expected=FORMAT, of=str(self))
                found = newest(connection)
                if found != tip:
                    raise PipelineError(
                        f"ledger {self}: expected an empty database, got a ledger of "
                        f"{found.sequence} rows"
                    )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """The lock of all writers, on the session that they write in: whoever loses one loses
        the other. The file's lock is for the head, which lies here.
        """
        server = self._server
        with locked(self.locks / "ledger.lock"), server.errors(), server.session() as connection:
            server.lock(connection, _WRITERS)
            self._writer.connection = connection
            try:
                yield
            finally:
                del self._writer.connection

    @contextmanager
    def transaction(self, *, writing: bool, format: int = FORMAT) -> Iterator[Connection]:
        """One transaction. Also a writer sees one state of the rows, that of after the lock: if
        the server ever let two of them in, the second would write a number that is taken.
        """
        with self._server.errors():
            if writing:
                with self._writer.connection.begin():
                    found = self._format(self._writer.connection)
                    require_format(found, expected=format, of=str(self))
                    yield self._writer.connection
                return
            with self._server.session() as connection, connection.begin():
                connection.exec_driver_sql("SET TRANSACTION READ ONLY")
                require_format(self._format(connection), expected=format, of=str(self))
                yield connection

    @contextmanager
    def holding(self, key: str) -> Iterator[StillHeld]:
        """The lock of one release: a file's, because answers lie here, and one of the server,
        which keeps other computers away and can be lost with its session.
        """

        def require_held() -> None:
            if not self._server.holds(connection, key):
                raise ReservationOver(f"ledger {self}: the lock of {key[:12]} was lost on the way")

        with (
            locked(self.locks / f"{key}.lock", remove=True),
            self._server.session() as connection,
        ):
            with self._server.errors():
                self._server.lock(connection, key)
            yield require_held

    def sweep_locks(self) -> int:
        """Remove the lock files that killed runs left here; the server's own went with them."""
        return sweep_locks(self.locks)

    def format(self) -> int:
        """What the comment on the table says."""
        with self._server.errors(), self._server.session() as connection, connection.begin():
            return self._format(connection)

    def upgrade_tables(self, connection: Connection) -> None:
        """The third format has a column and a table more, and other indexes and triggers."""
        drop_guards(connection)
        for name in _INDEXES_OF_THE_SECOND:
            connection.exec_driver_sql(f"DROP INDEX {name}")
        add_state(connection)
        write_seal(connection)
        _finish(connection)

    def missing_guards(self, connection: Connection) -> list[str]:
        """The triggers and limits that should be there, word for word, and are not."""
        return missing_guards(connection)

    def require_sound(self, connection: Connection) -> None:
        """Damaged where an index does not tell what its table holds."""
        require_sound(connection, of=str(self))

    def _find(self) -> bool:
        with file_errors(self.folder):
            keys = self.keys.is_dir() and next(self.keys.iterdir(), None) is not None
        # Looked at after the keys: another process may be making all of it.
        with self._server.errors(), self._server.session() as connection, connection.begin():
            found = bool(connection.execute(_FOUND).scalar_one())
        if keys and not found:
            raise Damaged(f"ledger {self}: the tables are lost, the keys in {self.keys} are not")
        return found

    def _require_no_file(self) -> None:
        file = self.folder / "ledger.sqlite"
        with file_errors(file):
            if file.exists():
                raise Damaged(
                    f"ledger {self}: {LEDGER_VARIABLE} names it, but the rows of this home are in "
                    f"{file}: `dp-pipeline budget move` takes them there"
                )

    def _format(self, connection: Connection) -> int:
        mark = _MARK.fullmatch(connection.execute(_MARKED).scalar_one() or "")
        if mark is None:
            raise Damaged(f"ledger {self}: the database holds no ledger")
        return int(mark[1])


def _finish(connection: Connection) -> None:
    """What closes the tables: the triggers, and the format."""
    for guard in GUARDS:
        guard.create(connection)
    connection.exec_driver_sql(f"COMMENT ON TABLE entries IS '{_KIND}, format {FORMAT}'")
