"""Where a test's ledger is kept: in a file, or on a real server."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dp_pipeline.ledger import Account, Ledger
from dp_pipeline.ledger.postgres import PostgresStore

EVERYWHERE = ("sqlite", "postgresql")
"""For a module of tests: ``STORES = EVERYWHERE`` runs them on both."""

Behind = Callable[[str], None]
"""Executes SQL behind the ledger's back."""
Opens = Callable[[Account], Ledger]
"""Opens a ledger with one account."""


@dataclass(frozen=True)
class Place:
    """One ledger; every process that calls the place opens it anew.

    folder   of its keys and locks, and of its rows where there is no server
    url      of the server that has its rows
    """

    folder: Path
    url: str | None = None

    def __call__(self) -> Ledger:
        store = None if self.url is None else PostgresStore(self.url, self.folder)
        return Ledger(self.folder, store=store)

    @property
    def slowness(self) -> int:
        """How many times fewer of the same make a test as long as on a file."""
        return 1 if self.url is None else 10
