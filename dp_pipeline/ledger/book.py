"""Book: a store and its head, read and written together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sqlalchemy import Connection

from dp_pipeline.ledger.head import Head, Tip, newest, require_known
from dp_pipeline.ledger.store import StillHeld, Store
from dp_pipeline.schema.errors import Damaged


class Book:
    """The rows of a ledger, never without asking its head whether they are all there.

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
        """The folder of the lineages' secret keys."""
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

    def create(self) -> None:
        """Make the ledger if it is absent; any number of processes may do so at once."""
        if not self.exists():
            self._store.create(self._head.begin)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view of the rows; does not wait for writers."""
        tip = self._tip()
        with self._store.transaction(writing=False) as connection:
            self._require_whole(tip, connection)
            yield connection

    @contextmanager
    def auditing(self) -> Iterator[Connection]:
        """A view of the rows whose head is asked when the block ends: what is wrong with a row is
        said first.
        """
        tip = self._tip()
        with self._store.transaction(writing=False) as connection:
            yield connection
            self._require_whole(tip, connection)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction, alone; committed, on the disk and named by the head when it ends."""
        with self._store.alone():
            tip = self._tip()
            with self._store.transaction(writing=True) as connection:
                self._require_whole(tip, connection)
                yield connection
                moved, has_head = newest(connection), self._store.knows_heads(connection)
            if moved != tip:
                self._head.move(moved)
            # Not asked of the tip: a crash may have come between a first head and this.
            if not has_head:
                self._start_heads()

    def _start_heads(self) -> None:
        with self._store.transaction(writing=True) as connection:
            self._store.start_heads(connection)

    def holding(self, key: str) -> AbstractContextManager[StillHeld]:
        """Hold the lock of one release; waits for whoever holds it, in any process or thread."""
        return self._store.holding(key)

    def missing_guards(self, connection: Connection) -> list[str]:
        """The triggers that should be there and are not."""
        return self._store.missing_guards(connection)

    def _tip(self) -> Tip | None:
        """What the head names; None for a ledger of the first format, which has none yet."""
        tip = self._head.read()
        if tip is None:
            with self._store.transaction(writing=False) as connection:
                has_head = self._store.knows_heads(connection)
            # Read again: the first head may have been made in between.
            tip = self._head.read()
            if tip is None and has_head:
                raise Damaged(f"{self._both}: expected the head of this ledger, got none")
        return tip

    def _require_whole(self, tip: Tip | None, connection: Connection) -> None:
        if tip is not None:
            require_known(tip, connection, of=self._both)

    @property
    def _both(self) -> str:
        return f"ledger {self._store}, head {self._head.path}"
