"""A book: the stored rows of a ledger and its head file, read and written together.

A store holds the rows, in a file or in the tables of a server. SQLAlchemy is imported only when a
ledger is there: a command without one does not wait for the import.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.files import sweep_locks
from dp_pipeline.ledger.head import FORMAT, Head, Tip, file_errors, locked

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dp_pipeline.ledger.view import Page, View

LEDGER_VARIABLE = "DP_PIPELINE_LEDGER"
"""The variable with the address of the server that has the ledger; unset: it is a file."""

_VIEW: ContextVar[tuple[str, View] | None] = ContextVar("consistent view", default=None)
"""The view that every read in this context uses, after the name of its ledger and head."""

RequireLock = Callable[[], None]
"""A function that raises ReservationOver where a lock that was taken is no longer held."""


class Store(ABC):
    """A database with the tables of a ledger, and the locks of its writers, which are files.

    keys   folder of the populations' secret keys, which are never stored in the database

    Every method raises Damaged where the ledger is incomplete or something else is stored, and
    PipelineError where the database does not answer; no message contains a password.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.locks, self.keys = folder, folder / "locks", folder / "keys"

    @abstractmethod
    def exists(self) -> bool:
        """Return whether the ledger exists; Damaged if it existed and is lost."""

    @abstractmethod
    def create(self, before_visible: Callable[[], None]) -> None:
        """Create an empty ledger unless there is one, even while another process does so too.

        before_visible   called when the new ledger is complete, before another process can see it
        """

    @abstractmethod
    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the lock that only one writer of the ledger can have, until the block ends."""

    @abstractmethod
    def unchecked_transaction(self, *, writing: bool) -> AbstractContextManager[Connection]:
        """Open one transaction as ``transaction`` does, but on rows of any stored format."""

    @abstractmethod
    def format(self, connection: Connection) -> int:
        """Return the number of the stored format, even of one that this program cannot read."""

    @abstractmethod
    def require_sound(self, connection: Connection) -> None:
        """Raise Damaged if an index of the database contradicts its table."""

    @contextmanager
    def transaction(self, *, writing: bool) -> Iterator[Connection]:
        """Open one transaction, committed and on the disk when the block ends.

        A reader has one consistent view and waits for nobody; a writer must be in a block of
        ``exclusive``. PipelineError for another stored format.
        """
        with self.unchecked_transaction(writing=writing) as connection:
            self.require_format(connection)
            yield connection

    def require_format(self, connection: Connection) -> None:
        """Raise PipelineError unless the ledger is stored in this program's format."""
        stored = self.format(connection)
        if stored != FORMAT:
            raise PipelineError(
                f"The ledger {self} has format {stored}, but this program reads format {FORMAT}: "
                "use the dp-pipeline that wrote it; `dp-pipeline check` shows what is here"
            )

    @contextmanager
    def holding(self, key: str) -> Iterator[RequireLock]:
        """Hold the lock of one release, after waiting for its other holders; yield a function that
        raises ReservationOver if the lock was lost."""
        with locked(self.locks / f"{key}.lock", remove=True):
            yield lambda: None  # The lock of a file cannot be lost.

    def sweep_locks(self) -> int:
        with file_errors(self.locks):
            # 16 hex digits or more: the lock of all writers has another name.
            return sweep_locks(self.locks, f"{'[0-9a-f]' * 16}*.lock")


class Book:
    """The rows of a ledger, checked at each access against its head and the digest of its sums.

    The head is read before a transaction begins, so that rows committed later are newer than it. It
    is moved after the commit, under the lock of all writers: after a crash in between it names a
    row that the ledger has.
    """

    def __init__(self, store: Store, head: Head) -> None:
        self.store, self._head = store, head

    def __str__(self) -> str:
        return str(self.store)

    def exists(self) -> bool:
        if self.store.exists():
            return True
        tip = self._head.read()
        # Asked again: another process may have made all of it in between.
        if tip is not None and tip.sequence and not self.store.exists():
            raise Damaged(
                f"The ledger {self.store} is lost, but head {self._head.path} knows "
                f"{tip.sequence} rows of it: put back a copy, or name its server in "
                f"{LEDGER_VARIABLE}"
            )
        return self.store.exists()

    def create(self) -> None:
        if not self.exists():
            self.store.create(self._head.begin)

    @contextmanager
    def reading(self) -> Iterator[View]:
        """Yield a consistent view of the ledger, checked against its head, or the view of an
        enclosing ``consistent_view``; wait for no writer."""
        view = self._current_view()
        if view is not None:
            yield view
            return
        from dp_pipeline.ledger.view import View

        with self.auditing() as (connection, tip):
            self.require_head(tip, connection)
            yield View(connection, head=tip, of=str(self))

    @contextmanager
    def consistent_view(self) -> Iterator[None]:
        if not self.exists():
            yield
            return
        with self.reading() as view:
            token = _VIEW.set((self._name, view))
            try:
                yield
            finally:
                _VIEW.reset(token)

    @contextmanager
    def auditing(self) -> Iterator[tuple[Connection, Tip]]:
        """Yield the connection of a read transaction on unchecked rows, and the row that the head
        names.

        The caller checks the rows, then calls ``require_head``: a fault of a row is reported first.
        """
        tip = self._tip()
        with self.store.transaction(writing=False) as connection:
            yield connection, tip

    @contextmanager
    def writing(self) -> Iterator[Page]:
        """Yield a page, checked against the head, to append rows to in an exclusive transaction;
        after its commit move the head to the newest row.

        Damaged, and nothing is committed, if the database has not stored what was appended.
        RuntimeError inside a block of ``consistent_view``.
        """
        from dp_pipeline.ledger.journal import newest
        from dp_pipeline.ledger.view import Page

        with self.exclusive_transaction() as (connection, tip):
            page = Page(connection, head=tip, of=str(self))
            yield page
            # A trigger of somebody else may have swallowed a row: then nothing would be paid.
            if newest(connection) != page.tip:
                raise Damaged(
                    f"The ledger {self} did not store row {page.tip.sequence}, as a foreign "
                    "trigger may keep it out: `dp-pipeline budget verify` names triggers"
                )

    @contextmanager
    def exclusive_transaction(self) -> Iterator[tuple[Connection, Tip]]:
        """Yield the connection of an exclusive transaction, whose rows are unchecked but for that
        of the head, and the row that the head names; after the commit move the head to the newest.

        RuntimeError inside a block of ``consistent_view``.
        """
        from dp_pipeline.ledger.journal import newest

        if self._current_view() is not None:
            raise RuntimeError(
                f"The ledger {self} must not be written while this process reads it: report "
                "this fault"
            )
        with self.store.exclusive():
            tip = self._tip()
            with self.store.transaction(writing=True) as connection:
                self.require_head(tip, connection)
                yield connection, tip
                end = newest(connection)
            if end != tip:
                self._head.advance(end)

    def _current_view(self) -> View | None:
        name, view = _VIEW.get() or ("", None)
        return view if name == self._name else None

    def _tip(self) -> Tip:
        tip = self._head.read()
        if tip is None:
            # What is stored is opened first: something else than a ledger has no head either.
            with self.store.transaction(writing=False):
                raise Damaged(
                    f"The head {self._head.path} of ledger {self.store} is lost: where no rows "
                    "are lost, put back a copy of the head alone, otherwise a copy of the ledger "
                    "with all rows and its head; or move the head there, if "
                    "DP_PIPELINE_LEDGER_HEAD names a new place"
                )
        return tip

    def require_head(self, tip: Tip, connection: Connection) -> None:
        from dp_pipeline.ledger.journal import require_row

        require_row(tip, connection, of=self._name)

    @property
    def _name(self) -> str:
        return f"ledger {self.store}, head {self._head.path}"
