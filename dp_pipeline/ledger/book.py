"""Book: a store and its head, read and written together.

A store has the rows of a ledger: a file, or the tables of a server. SQLAlchemy is imported when
there is something to read or to make: a question about a ledger that is not there waits for
nothing.
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

_VIEW: ContextVar[tuple[str, View] | None] = ContextVar("consistent view", default=None)
"""The view that everything in this context reads, and of which ledger and head it is."""

RequireLock = Callable[[], None]
"""Raises ReservationOver where a lock that was taken is no longer held."""


class Store(Protocol):
    """A database with the tables of ``ledger/journal.py``, and the locks that go with it.

    keys   folder of the populations' secret keys: they never lie in the database

    Every method raises Damaged where there is no ledger but something else, or the remains of
    one, and PipelineError where the database does not answer; never with a password.
    """

    keys: Path

    def __str__(self) -> str:
        """Return its name in messages."""

    def exists(self) -> bool:
        """Return whether there is a ledger; Damaged if there was one."""

    def format(self) -> int:
        """Return the number of the stored format, known or not."""

    def create(self, before: Callable[[], None]) -> None:
        """Make an empty ledger if there is none; any number of processes may do so at once.

        before   called when a new one is complete, before anybody can see it
        """

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the lock of all writers; it outlasts a commit, for whatever must follow it."""

    def transaction(self, *, writing: bool) -> AbstractContextManager[Connection]:
        """Open one transaction, committed and on the disk when the block ends. A reader has one
        consistent view and waits for nobody; a writer holds the lock of all writers. PipelineError
        where another format is stored.
        """

    def holding(self, key: str) -> AbstractContextManager[RequireLock]:
        """Hold the lock of one release; waits for its holder, in any process or thread."""

    def sweep_locks(self) -> int:
        """Remove the files of release locks that nobody holds; return their number."""

    def require_sound(self, connection: Connection) -> None:
        """Raise Damaged where tables and indexes disagree."""


def require_format(stored: int, *, of: str) -> None:
    """Raise PipelineError for another format than ours; ``of`` names the ledger."""
    if stored != FORMAT:
        raise PipelineError(
            f"ledger {of}: expected format {FORMAT}, got format {stored}: use the dp-pipeline that "
            "wrote it; `dp-pipeline check` shows what is here"
        )


class Book:
    """The rows of a ledger, never without asking its head whether they are all there, and never
    without comparing their sums with those that the newest one names.

    The head is read before a transaction begins: rows committed later are then
    newer than it, never older. It is moved after the commit, while the lock of all
    writers is still held: a crash between leaves it at a row that the ledger has.
    """

    def __init__(self, store: Store, head: Head) -> None:
        self.store, self._head = store, head

    def __str__(self) -> str:
        return str(self.store)

    def exists(self) -> bool:
        """Return whether there is a ledger; Damaged if there was one."""
        if self.store.exists():
            return True
        tip = self._head.read()
        # Asked again: another process may have made all of it in between.
        if tip is not None and tip.sequence and not self.store.exists():
            raise Damaged(
                f"ledger {self.store}: expected {tip.sequence} rows as head {self._head.path} "
                "says, got no ledger"
            )
        return self.store.exists()

    def create(self) -> None:
        """Make the ledger if it is absent; any number of processes may do so at once."""
        if not self.exists():
            self.store.create(self._head.begin)

    @contextmanager
    def reading(self) -> Iterator[View]:
        """Open one consistent view of the rows; it does not wait for writers."""
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
        """Let everything that this context reads be of one moment, read in one transaction, until
        the block ends; nothing is written in it.
        """
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
        """Open the rows as they are, with the row that the head names. The caller compares the two
        with ``require_head``, where it wants after the rows: a fault of a row is then said first.
        """
        tip = self._tip()
        with self.store.transaction(writing=False) as connection:
            yield connection, tip

    @contextmanager
    def writing(self) -> Iterator[Page]:
        """Open one transaction, alone; committed, on the disk and named by the head at its end."""
        from dp_pipeline.ledger.journal import newest
        from dp_pipeline.ledger.view import Page

        with self.mending() as (connection, tip):
            page = Page(connection, head=tip, of=str(self))
            yield page
            # A trigger of somebody else may have swallowed a row: then nothing would be paid.
            if newest(connection) != page.tip:
                raise Damaged(f"ledger {self}: row {page.tip.sequence} was not written")

    @contextmanager
    def mending(self) -> Iterator[tuple[Connection, Tip]]:
        """Open the same on rows that need not hold together, with the row that the head names."""
        from dp_pipeline.ledger.journal import newest

        if self._current_view() is not None:
            raise RuntimeError(f"ledger {self}: expected no writing inside one view of it")
        with self.store.exclusive():
            tip = self._tip()
            with self.store.transaction(writing=True) as connection:
                self.require_head(tip, connection)
                yield connection, tip
                end = newest(connection)
            if end != tip:
                self._head.move(end)

    def _current_view(self) -> View | None:
        """Return the view of this ledger that this context keeps, if it keeps one."""
        name, view = _VIEW.get() or ("", None)
        return view if name == self._name else None

    def _tip(self) -> Tip:
        """Return the row that the head names; Damaged where there is no head."""
        tip = self._head.read()
        if tip is None:
            # What is stored is opened first: something else than a ledger has no head either.
            with self.store.transaction(writing=False):
                raise Damaged(f"{self._name}: expected the head of this ledger, got none")
        return tip

    def require_head(self, tip: Tip, connection: Connection) -> None:
        """Raise Damaged where the ledger does not have the row that its head names."""
        from dp_pipeline.ledger.journal import require_row

        require_row(tip, connection, of=self._name)

    @property
    def _name(self) -> str:
        return f"ledger {self.store}, head {self._head.path}"
