"""Book: a store and its head, read and written together.

Store: where the rows of a ledger are kept, on one computer or on a server. A file and a server
implement it; nothing else of the ledger knows which of them it is. SQLAlchemy is imported when
there is something to read or to make: whoever asks of a ledger that is not there waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.ledger.head import FORMAT, Head, Tip

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dp_pipeline.ledger.view import Page, View

LEDGER_VARIABLE = "DP_PIPELINE_LEDGER"
"""Names the server that has the rows, where they are not in a file."""

_LOOK: ContextVar[tuple[str, View] | None] = ContextVar("one look at a ledger", default=None)
"""The view that everything in this context reads, and of which ledger and head it is."""

StillHeld = Callable[[], None]
"""Raises ReservationOver where a lock that was taken is no longer held."""


class Store(Protocol):
    """A database with the tables of ``ledger/journal.py``, and the locks that go with it.

    keys   folder of the populations' secret keys: they never lie in the database

    Every method raises Damaged where there is no ledger but something else, or the remains of
    one, and PipelineError where the database does not answer; never with a password.
    """

    keys: Path

    def __str__(self) -> str:
        """Its name in messages."""

    def exists(self) -> bool:
        """Whether there is a ledger; Damaged if there was one."""

    def format(self) -> int:
        """The number of the format of what is stored, known or not."""

    def create(self, before: Callable[[], None]) -> None:
        """Make an empty ledger if there is none; any number of processes may do so at once.

        before   called when a new one is complete, before anybody can see it
        """

    def alone(self) -> AbstractContextManager[None]:
        """Hold the lock of all writers; it outlasts a commit, for whatever must follow it."""

    def transaction(self, *, writing: bool) -> AbstractContextManager[Connection]:
        """One transaction, committed and on the disk when the block ends. A reader has one
        consistent view and waits for nobody; a writer holds the lock of all writers. PipelineError
        where another format is stored.
        """

    def holding(self, key: str) -> AbstractContextManager[StillHeld]:
        """Hold the lock of one release; waits for whoever holds it, in any process or thread."""

    def sweep_locks(self) -> int:
        """Remove the files of release locks that nobody holds; gives their number."""

    def require_sound(self, connection: Connection) -> None:
        """Damaged where tables and indexes do not tell the same."""


def require_format(stored: int, *, of: str) -> None:
    """PipelineError where something is stored in another format; ``of`` names the ledger."""
    if stored != FORMAT:
        raise PipelineError(
            f"ledger {of}: expected format {FORMAT}, got format {stored}: use the dp-pipeline that "
            "wrote it; `dp-pipeline check` shows what is here"
        )


class Book:
    """The rows of a ledger, never without asking its head whether they are all there, and never
    without comparing what they add up to with what the newest one says.

    The head is read before a transaction begins: rows committed later are then
    newer than it, never older. It is moved after the commit, while the lock of all
    writers is still held: a crash between leaves it at a row that the ledger has.
    """

    def __init__(self, store: Store, head: Head) -> None:
        self._store, self._head = store, head

    def __str__(self) -> str:
        return str(self._store)

    @property
    def keys(self) -> Path:
        """The folder of the populations' secret keys."""
        return self._store.keys

    def exists(self) -> bool:
        """Whether there is a ledger; Damaged if there was one."""
        if self._store.exists():
            return True
        tip = self._head.read()
        # Looked at again: another process may have made all of it in between.
        if tip is not None and tip.sequence and not self._store.exists():
            raise Damaged(
                f"ledger {self._store}: expected {tip.sequence} rows as head {self._head.path} "
                "says, got no ledger"
            )
        return self._store.exists()

    def format(self) -> int | None:
        """The format of what is stored, whether this program reads it or not; None of nothing."""
        return self._store.format() if self.exists() else None

    def create(self) -> None:
        """Make the ledger if it is absent; any number of processes may do so at once."""
        if not self.exists():
            self._store.create(self._head.begin)

    @contextmanager
    def reading(self) -> Iterator[View]:
        """One consistent view of the rows; does not wait for writers."""
        view = self._look()
        if view is not None:
            yield view
            return
        from dp_pipeline.ledger.view import View

        tip = self._tip()
        with self._store.transaction(writing=False) as connection:
            self.require_intact(tip, connection)
            yield View(connection, head=tip, of=str(self))

    @contextmanager
    def consistent_view(self) -> Iterator[None]:
        """What this context reads until the block ends is of one moment, and read in one
        transaction. For whoever asks many things and writes nothing.
        """
        if not self.exists():
            yield
            return
        with self.reading() as view:
            token = _LOOK.set((self._both, view))
            try:
                yield
            finally:
                _LOOK.reset(token)

    @contextmanager
    def auditing(self) -> Iterator[tuple[Connection, Tip]]:
        """The rows as they are, with what the head names. Whoever asks for this compares the two
        with ``require_intact`` after the rows, so that what is wrong with a row is said first.
        """
        tip = self._tip()
        with self._store.transaction(writing=False) as connection:
            yield connection, tip

    @contextmanager
    def writing(self) -> Iterator[Page]:
        """One transaction, alone; committed, on the disk and named by the head when it ends."""
        if self._look() is not None:
            raise RuntimeError(f"ledger {self}: expected no writing inside one look at it")
        from dp_pipeline.ledger.view import Page

        with self._store.alone():
            tip = self._tip()
            with self._store.transaction(writing=True) as connection:
                self.require_intact(tip, connection)
                page = Page(connection, head=tip, of=str(self))
                yield page
            if page.tip != tip:
                self._head.move(page.tip)

    @contextmanager
    def mending(self) -> Iterator[tuple[Connection, Tip]]:
        """One transaction, alone, on rows that need not hold together: with what the head names.
        The head moves as after any other.
        """
        from dp_pipeline.ledger.journal import newest

        with self._store.alone():
            tip = self._tip()
            with self._store.transaction(writing=True) as connection:
                self.require_intact(tip, connection)
                yield connection, tip
                moved = newest(connection)
            if moved != tip:
                self._head.move(moved)

    def holding(self, key: str) -> AbstractContextManager[StillHeld]:
        """Hold the lock of one release; waits for whoever holds it, in any process or thread."""
        return self._store.holding(key)

    def sweep_locks(self) -> int:
        """Remove the lock files that nobody holds; gives their number."""
        return self._store.sweep_locks()

    def require_sound(self, connection: Connection) -> None:
        """Damaged where tables and indexes do not tell the same."""
        self._store.require_sound(connection)

    def _look(self) -> View | None:
        """The view of this ledger that this context keeps, if it keeps one."""
        of, view = _LOOK.get() or ("", None)
        return view if of == self._both else None

    def _tip(self) -> Tip:
        """What the head names; Damaged where there is none."""
        tip = self._head.read()
        if tip is None:
            # What is stored is looked at first: something else than a ledger has no head either.
            with self._store.transaction(writing=False):
                raise Damaged(f"{self._both}: expected the head of this ledger, got none")
        return tip

    def require_intact(self, tip: Tip, connection: Connection) -> None:
        """Damaged where the ledger does not have the row that its head names."""
        from dp_pipeline.ledger.journal import require_known

        require_known(tip, connection, of=self._both)

    @property
    def _both(self) -> str:
        return f"ledger {self._store}, head {self._head.path}"
