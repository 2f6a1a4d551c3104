"""Store: where the rows of a ledger are kept, on one computer or on a server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection

StillHeld = Callable[[], None]
"""Raises ReservationOver where a lock that was taken is no longer held."""


class Store(Protocol):
    """A database with the tables of ``ledger/tables.py``, and the locks that go with it.

    keys   folder of the lineages' secret keys: they never lie in the database

    Every method raises Damaged where there is no ledger but something else, or the remains of
    one, and PipelineError where the database does not answer; never with a password.
    """

    keys: Path

    def __str__(self) -> str:
        """Its name in messages."""

    def exists(self) -> bool:
        """Whether there is a ledger; Damaged if there was one."""

    def create(self, before: Callable[[], None]) -> None:
        """Make an empty ledger if there is none; any number of processes may do so at once.

        before   called when a new one is complete, before anybody can see it
        """

    def alone(self) -> AbstractContextManager[None]:
        """Hold the lock of all writers; it outlasts a commit, for whatever must follow it."""

    def transaction(self, *, writing: bool) -> AbstractContextManager[Connection]:
        """One transaction, committed and on the disk when the block ends. A reader has one
        consistent view and waits for nobody; a writer holds the lock of all writers.
        """

    def holding(self, key: str) -> AbstractContextManager[StillHeld]:
        """Hold the lock of one release; waits for whoever holds it, in any process or thread."""

    def knows_heads(self, connection: Connection) -> bool:
        """Whether a ledger without a head is damaged: those of the first format had none."""

    def start_heads(self, connection: Connection) -> None:
        """From now on a ledger without a head is damaged."""

    def missing_guards(self, connection: Connection) -> list[str]:
        """The triggers that should be there, word for word, and are not."""
