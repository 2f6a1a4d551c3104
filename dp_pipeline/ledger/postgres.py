"""A ledger on a PostgreSQL server, whose locks hold on every computer; keys stay on this one."""

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
from dp_pipeline.ledger.book import LEDGER_VARIABLE, RequireLock, Store
from dp_pipeline.ledger.entries import ReservationOver
from dp_pipeline.ledger.guards import create_guards
from dp_pipeline.ledger.head import FORMAT, Tip, file_errors, locked, make_folders
from dp_pipeline.ledger.journal import create_tables, newest, write_seal

DRIVER = "postgresql+psycopg2"
"""Named: SQLAlchemy 2.1 takes a bare ``postgresql`` for another driver than 2.0."""


def parse_postgres_url(text: str, *, of: str) -> URL:
    """Return the address of a PostgreSQL database that a text spells, with the driver to use;
    DeclarationError for an invalid text.

    of   name of the text's variable, for messages, which never contain the address

    >>> parse_postgres_url("postgresql://ana:secret@db:5432/budgets", of="X").host
    'db'
    """
    expected = f"{of}: expected postgresql://user@host/database, got"
    try:
        url = make_url(text)
    except ArgumentError:
        raise DeclarationError(f"{expected} text that is no address") from None
    except ValueError:
        raise DeclarationError(
            f"{expected} an address with an invalid host or port: a port is a number"
        ) from None
    if url.drivername not in ("postgresql", DRIVER):
        raise DeclarationError(f"{expected} an address of {url.drivername}")
    if not url.database:
        raise DeclarationError(f"{expected} an address without a database")
    if "@" in f"{url.host}{url.database}":
        # The end of a password: host and database stand in messages.
        raise DeclarationError(
            f"{expected} an @ in the host or the name of the database: an @ of a password is "
            "written %40, and no database of that name can be used"
        )
    return url.set(drivername=DRIVER)


def address_label(url: URL) -> str:
    """Return an address without user, password and options, for messages.

    >>> url = "postgresql://ana:secret@db:5432/budgets?sslmode=require"
    >>> address_label(parse_postgres_url(url, of="X"))
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


@lru_cache(maxsize=16)
def _engine_of(address: URL) -> Engine:
    """Return the SQLAlchemy engine of a server, cached because it keeps compiled statements."""
    declared = address.query.get("options", ())
    limits = [f"-c {name}_timeout=0" for name in _WAITING]
    options = [declared] if isinstance(declared, str) else list(declared)
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
    digest = hashlib.sha256(f"dp_pipeline ledger {name}".encode()).digest()
    return int.from_bytes(digest[:8], signed=True)


_KIND = "dp_pipeline ledger"
_MARK = re.compile(rf"{_KIND}, format (\d+)")
"""The comment on the table: what SQLite keeps in its header."""
_WRITERS = "writers"
_HAS_TABLES = text("SELECT to_regclass('entries') IS NOT NULL")
_MARKED = text("SELECT obj_description(to_regclass('entries'), 'pg_class')")


class PostgresStore(Store):
    """A ledger in a PostgreSQL database, with a local folder for its locks and keys.

    Every transaction is a session of its own, which costs about 10 milliseconds: nothing is shared
    across a fork, no lock outlives its holder. Connect to the server itself: a pooler that hands
    one connection to several would hand on its locks too.
    """

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(folder)
        address = parse_postgres_url(url, of=LEDGER_VARIABLE)
        self._name = address_label(address)
        if not has_driver():
            raise PipelineError(
                f"The ledger {self} needs {EXPECTED_DRIVER}, but it cannot be imported"
            )
        self._engine = _engine_of(address)
        self._writer = threading.local()
        self._has_tables = False

    def __str__(self) -> str:
        return self._name

    def exists(self) -> bool:
        file = self.folder / "ledger.sqlite"
        with file_errors(file):
            if file.exists():
                raise Damaged(
                    f"The variable {LEDGER_VARIABLE} names the ledger {self}, but the rows of "
                    f"this home are in {file}: `dp-pipeline budget move` takes them there, or "
                    "unset the variable"
                )
        # Every transaction asks for its tables: what was there once is not asked for twice.
        if self._has_tables:
            return True
        with file_errors(self.folder):
            # Keys are made after the tables: without these the address names another database.
            has_keys = self.keys.is_dir() and next(self.keys.iterdir(), None) is not None
        # Asked after the keys: another process may be making all of it.
        with self._session() as connection, connection.begin():
            self._has_tables = bool(connection.execute(_HAS_TABLES).scalar_one())
        if has_keys and not self._has_tables:
            raise Damaged(
                f"The database of ledger {self} has no tables, but keys that belong to some are in "
                f"{self.keys}: correct {LEDGER_VARIABLE} if it named another database before, or "
                "put back a copy with all rows"
            )
        return self._has_tables

    def create(self, before_visible: Callable[[], None]) -> None:
        if self.exists():
            return
        make_folders(self.folder, self.locks, self.keys)
        with self.exclusive(), self._errors(), self._writer.connection.begin():
            connection = self._writer.connection
            if not connection.execute(_HAS_TABLES).scalar_one():
                create_tables(connection)
                write_seal(connection)
                _close(connection)
                before_visible()

    def receive(self, copy: Callable[[Connection], None], tip: Tip) -> None:
        """Create the ledger from the rows of another one, in one transaction, unless it exists.

        copy   writes all rows to the new tables; the caller holds the lock of the other's writers
        tip    the newest of these rows

        Raises PipelineError if the newest row is then another one, as in a ledger that existed.
        """
        with self._session() as connection:
            self._lock(connection, _WRITERS)
            with connection.begin():
                if not connection.execute(_HAS_TABLES).scalar_one():
                    create_tables(connection)
                    copy(connection)
                    _close(connection)
                self.require_format(connection)
                end = newest(connection)
                if end != tip:
                    raise PipelineError(
                        f"The ledger {self} must be an empty database to receive rows, but it has "
                        f"a ledger of {end.sequence} rows: name another one in {LEDGER_VARIABLE}"
                    )

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        # The lock is on the session that writes, so that losing one loses the other; a file's lock
        # protects the head, which is local.
        with locked(self.locks / "ledger.lock"), self._session() as connection:
            self._lock(connection, _WRITERS)
            self._writer.connection = connection
            try:
                yield
            finally:
                del self._writer.connection

    @contextmanager
    def unchecked_transaction(self, *, writing: bool) -> Iterator[Connection]:
        # If the server ever let a second writer in, its row's number would be taken.
        if writing:
            with self._errors(), self._writer.connection.begin():
                yield self._writer.connection
            return
        with self._session() as connection, connection.begin():
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
            yield connection

    @contextmanager
    def holding(self, key: str) -> Iterator[RequireLock]:
        # A lock of a file, as answers are stored here, and one of the server, which other computers
        # respect and which is lost with its session.
        def require_lock() -> None:
            try:
                with connection.begin():
                    is_held = connection.execute(_HELD, {"number": _number(key)}).scalar_one()
            except DBAPIError:
                is_held = 0
            if not is_held:
                raise ReservationOver(
                    f"The ledger {self} lost the lock of release {key[:12]}, as the connection "
                    "broke: run again"
                )

        with locked(self.locks / f"{key}.lock", remove=True):
            with self._errors():
                connection = self._engine.connect()
            # Errors of the block are not the session's.
            with connection:
                with self._errors():
                    self._lock(connection, key)
                yield require_lock

    def require_sound(self, connection: Connection) -> None:
        """Raise Damaged, naming the index, if an index and its table differ.

        The columns of each index are read by an index-only scan and compared with a sequential scan
        of the table: this shows entries that are damaged, missing or too many, but no damaged page
        above them. Where the extension ``amcheck`` may be called, it checks the whole tree of each
        index.
        """
        for index, (table, columns, condition) in _INDEXES.items():
            query = f"SELECT {columns} FROM {table} WHERE {condition} ORDER BY {columns}"
            if _rows(connection, query, _FROM_THE_INDEX) != _rows(
                connection, query, _FROM_THE_TABLE
            ):
                raise Damaged(
                    f"The index {index} of ledger {self} does not match its table: `REINDEX INDEX "
                    f"{index}` in the database makes it anew"
                )
        if connection.execute(_CALLABLE).scalar_one():
            for index in _INDEXES:
                connection.execute(text("SELECT bt_index_check(:name, true)"), {"name": index})

    @contextmanager
    def _session(self) -> Iterator[Connection]:
        with self._errors(), self._engine.connect() as connection:
            yield connection

    def _lock(self, connection: Connection, name: str) -> None:
        """Wait for the server's lock of a name and hold it until the session ends; PipelineError if
        the server could lose commits."""
        with connection.begin():
            fsync = connection.execute(_LOCK, {"number": _number(name)}).scalar_one()
        if fsync != "on":
            raise PipelineError(
                f"The server of ledger {self} must write to the disk, but it has fsync {fsync!r}: "
                "set fsync to on"
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the server or its driver inside the block into PipelineError, or Damaged,
        without the SQL statement."""
        try:
            yield
        except DBAPIError as error:
            state = getattr(error.orig, "pgcode", None) or ""
            message = getattr(getattr(error.orig, "diag", None), "message_primary", None)
            reason = " ".join(str(message or error.orig).split())
            if state.startswith(_DAMAGED):
                remedy = "put back a copy with all rows"
                if state.startswith("XX"):
                    remedy = f"where only an index is, `REINDEX` makes it anew; otherwise {remedy}"
                raise Damaged(
                    f"The database of ledger {self} is damaged: {reason}: {remedy}"
                ) from None
            if not state:
                # The driver gives no code if the server was not reached, or refused the session.
                raise PipelineError(
                    f"The ledger {self} gives no session: {reason}: if this is the server's "
                    "answer, mend what it says; otherwise check that the server runs and that "
                    f"{LEDGER_VARIABLE} is right; then run again"
                ) from None
            raise PipelineError(
                f"The server of ledger {self} refuses: {reason}: have that changed on the server, "
                "and run again"
            ) from None

    def format(self, connection: Connection) -> int:
        mark = _MARK.fullmatch(connection.execute(_MARKED).scalar_one() or "")
        if mark is None:
            raise Damaged(
                f"The database of ledger {self} has a table `entries` without the comment that "
                f"marks a ledger: correct {LEDGER_VARIABLE} if it is of another program, or put "
                "back a copy with its comments"
            )
        return int(mark[1])


def _close(connection: Connection) -> None:
    """Create the triggers and write the number of the format, as the last step of a new ledger."""
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
    """Return the rows of a query over indexed columns, with the planner settings ``plan``."""
    for name, value in plan.items():
        connection.exec_driver_sql(f"SET LOCAL enable_{name} = {value}")
    rows = [tuple(row) for row in connection.execute(text(query))]
    for name in plan:
        connection.exec_driver_sql(f"SET LOCAL enable_{name} = on")
    return rows
