"""Store: where the rows of a ledger are kept, on one computer or on a server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection

from dp_pipeline.ledger.tables import FORMAT
from dp_pipeline.spec.errors import PipelineError

StillHeld = Callable[[], None]
"""Raises ReservationOver where a lock that was taken is no longer held."""


class Store(Protocol):
    """A database with the tables of ``ledger/tables.py``, and the locks that go with it.

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

    def transaction(
        self, *, writing: bool, format: int = FORMAT
    ) -> AbstractContextManager[Connection]:
        """One transaction, committed and on the disk when the block ends. A reader has one
        consistent view and waits for nobody; a writer holds the lock of all writers.

        format   of what is stored; any other is refused, with PipelineError
        """

    def upgrade_tables(self, connection: Connection) -> None:
        """Give the tables of the second format those of the third."""

    def holding(self, key: str) -> AbstractContextManager[StillHeld]:
        """Hold the lock of one release; waits for whoever holds it, in any process or thread."""

    def sweep_locks(self) -> int:
        """Remove the files of release locks that nobody holds; gives their number."""

    def missing_guards(self, connection: Connection) -> list[str]:
        """The triggers and limits that should be there, word for word, and are not."""

    def require_sound(self, connection: Connection) -> None:
        """Damaged where tables and indexes do not tell the same."""


def require_format(found: int, *, expected: int, of: str) -> None:
    """PipelineError where something is stored in another format, with what to do.

    of   the ledger's name
    """
    if found == expected:
        return
    remedy = f"it was written by another dp-pipeline, so use that one; {_DOCTOR}"
    if found > FORMAT:
        remedy = f"it was written by a newer dp-pipeline, so use that one; {_DOCTOR}"
    elif found == FORMAT - 1:
        remedy = f"`dp-pipeline budget upgrade` takes it there; {_DOCTOR}"
    elif found == FORMAT:
        remedy = "nothing is to be upgraded"
    raise PipelineError(f"ledger {of}: expected format {expected}, got format {found}: {remedy}")


_DOCTOR = "`dp-pipeline doctor` shows what is here"
