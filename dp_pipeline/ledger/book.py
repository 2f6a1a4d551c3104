"""Book: a store and its head, read and written together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sqlalchemy import Connection

from dp_pipeline.ledger.head import Head, Tip, newest, require_known
from dp_pipeline.ledger.store import StillHeld, Store
from dp_pipeline.ledger.tables import FORMAT
from dp_pipeline.ledger.view import Page, View
from dp_pipeline.spec.errors import Damaged


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
        tip = self._tip()
        with self._store.transaction(writing=False) as connection:
            self.require_whole(tip, connection)
            yield View(connection, head=tip, of=str(self))

    @contextmanager
    def auditing(self) -> Iterator[tuple[Connection, Tip]]:
        """The rows as they are, with what the head names. Whoever asks for this compares the two
        with ``require_whole`` after the rows, so that what is wrong with a row is said first.
        """
        tip = self._tip()
        with self._store.transaction(writing=False) as connection:
            yield connection, tip

    @contextmanager
    def writing(self) -> Iterator[Page]:
        """One transaction, alone; committed, on the disk and named by the head when it ends."""
        with self._store.alone():
            tip = self._tip()
            with self._store.transaction(writing=True) as connection:
                self.require_whole(tip, connection)
                page = Page(connection, head=tip, of=str(self))
                yield page
            if page.tip != tip:
                self._head.move(page.tip)

    @contextmanager
    def mending(self, *, format: int = FORMAT) -> Iterator[tuple[Connection, Tip]]:
        """One transaction, alone, on rows that need not hold together: with what the head names.
        The head moves as after any other.
        """
        with self._store.alone():
            tip = self._tip()
            with self._store.transaction(writing=True, format=format) as connection:
                self.require_whole(tip, connection)
                yield connection, tip
                moved = newest(connection)
            if moved != tip:
                self._head.move(moved)

    def upgrade_tables(self, connection: Connection) -> None:
        """Give the tables of the second format those of the third, inside a transaction."""
        self._store.upgrade_tables(connection)

    def holding(self, key: str) -> AbstractContextManager[StillHeld]:
        """Hold the lock of one release; waits for whoever holds it, in any process or thread."""
        return self._store.holding(key)

    def sweep_locks(self) -> int:
        """Remove the lock files that nobody holds; gives their number."""
        return self._store.sweep_locks()

    def missing_guards(self, connection: Connection) -> list[str]:
        """The triggers and limits that should be there and are not."""
        return self._store.missing_guards(connection)

    def require_sound(self, connection: Connection) -> None:
        """Damaged where tables and indexes do not tell the same."""
        self._store.require_sound(connection)

    def _tip(self) -> Tip:
        """What the head names; Damaged where there is none."""
        tip = self._head.read()
        if tip is None:
            # What is stored is looked at first: something else than a ledger has no head either.
            with self._store.transaction(writing=False):
                raise Damaged(f"{self._both}: expected the head of this ledger, got none")
        return tip

    def require_whole(self, tip: Tip, connection: Connection) -> None:
        """Damaged where the ledger does not have the row that its head names."""
        require_known(tip, connection, of=self._both)

    @property
    def _both(self) -> str:
        return f"ledger {self._store}, head {self._head.path}"
