"""A ledger on a PostgreSQL server; its locks hold here and there, its keys lie here.

Sessions on a PostgreSQL server: how they are opened, locked, and what goes wrong in them.

The address of a PostgreSQL server, as a variable of the environment names it.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Connection, Engine, create_engine, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool

from dp_pipeline.config.database import EXPECTED_DRIVER, has_driver
from dp_pipeline.config.errors import Damaged, DeclarationError, PipelineError
from dp_pipeline.ledger.book import LEDGER_VARIABLE, StillHeld, require_format
from dp_pipeline.ledger.entries import ReservationOver
from dp_pipeline.ledger.guards import create_guards
from dp_pipeline.ledger.head import FORMAT, Tip, file_errors, locked, private_folder, sweep_locks
from dp_pipeline.ledger.journal import create_tables, newest, write_seal

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
    if not has_driver():
        raise PipelineError(
            f"ledger {place(address)}: expected {EXPECTED_DRIVER}, got none that can be imported"
        )
    return _engine_of(address)


@lru_cache(maxsize=16)
def _engine_of(address: URL) -> Engine:
    """One a server and process: it holds no connection, only statements that are compiled
    already.
    """
    given = address.query.get("options", ())
    limits = [f"-c {name}_timeout=0" for name in _WAITING]
    options = [given] if isinstance(given, str) else list(given)
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


_KIND = "dp_pipeline ledger"
_MARK = re.compile(rf"{_KIND}, format (\d+)")
"""The comment on the table: what SQLite keeps in its header."""
_WRITERS = "writers"
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
                create_tables(connection)
                write_seal(connection)
                _close(connection)
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
                    create_tables(connection)
                    copy(connection)
                    _close(connection)
                require_format(self._format(connection), of=str(self))
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
    def transaction(self, *, writing: bool) -> Iterator[Connection]:
        """One transaction. Also a writer sees one state of the rows, that of after the lock: if
        the server ever let two of them in, the second would write a number that is taken.
        """
        with self._server.errors():
            if writing:
                with self._writer.connection.begin():
                    found = self._format(self._writer.connection)
                    require_format(found, of=str(self))
                    yield self._writer.connection
                return
            with self._server.session() as connection, connection.begin():
                connection.exec_driver_sql("SET TRANSACTION READ ONLY")
                require_format(self._format(connection), of=str(self))
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

    def require_sound(self, connection: Connection) -> None:
        """Damaged, naming the index, where one does not tell what its table holds.

        Two comparisons. The first is always made: the columns of each index as an index-only scan
        reads them, out of the index, against the same columns as a sequential scan reads them, out
        of the table. It finds entries of the index that are damaged, missing or too many; it cannot
        see a damaged page above them. The second is made where the extension ``amcheck`` is
        installed and may be called: it checks the whole tree of each index, and that every row of
        the table is in it.
        """
        for index, (table, columns, which) in _INDEXES.items():
            query = f"SELECT {columns} FROM {table} WHERE {which} ORDER BY {columns}"
            if _rows(connection, query, _FROM_THE_INDEX) != _rows(
                connection, query, _FROM_THE_TABLE
            ):
                raise Damaged(
                    f"ledger {self}: index {index} does not tell what its table holds: `REINDEX "
                    f"INDEX {index}` in the database makes it anew"
                )
        if connection.execute(_CALLABLE).scalar_one():
            for index in _INDEXES:
                connection.execute(text("SELECT bt_index_check(:name, true)"), {"name": index})

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


def _close(connection: Connection) -> None:
    """Make the triggers, and say the format."""
    create_guards(connection)
    connection.exec_driver_sql(f"COMMENT ON TABLE entries IS '{_KIND}, format {FORMAT}'")


_INDEXES: Final = {
    "entries_pkey": ("entries", "sequence", "true"),
    "entries_by_population": ("entries", "population, event, kind", "true"),
    "one_reserve_per_key": ("entries", "key", "event = 'reserve'"),
    "one_end_per_key": ("entries", "key", "event IN ('settled', 'dead')"),
    "spends_pkey": ("spends", "entry, ordinal", "true"),
    "state_pkey": ("state", "kind, population, name", "true"),
}
"""Index → table, columns, which rows."""

_FROM_THE_INDEX = {"seqscan": "off", "bitmapscan": "off", "sort": "off"}
_FROM_THE_TABLE = {"indexscan": "off", "indexonlyscan": "off", "bitmapscan": "off"}
_CALLABLE = text(
    "SELECT coalesce(has_function_privilege("
    "to_regprocedure('bt_index_check(regclass, boolean)'), 'EXECUTE'), false)"
)


def _rows(connection: Connection, query: str, plan: dict[str, str]) -> list[tuple[object, ...]]:
    """The answer of a query under a plan; of the values alone, so that an index answers it."""
    for name, value in plan.items():
        connection.exec_driver_sql(f"SET LOCAL enable_{name} = {value}")
    found = [tuple(row) for row in connection.execute(text(query))]
    for name in plan:
        connection.exec_driver_sql(f"SET LOCAL enable_{name} = on")
    return found
