"""Moving a ledger from its file to a server: the same rows, the same hashes, the same head."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, insert

from dp_pipeline.ledger import journal
from dp_pipeline.ledger.book import Book
from dp_pipeline.ledger.chain import Chain
from dp_pipeline.ledger.files import file_errors
from dp_pipeline.ledger.head import Head, Tip, newest
from dp_pipeline.ledger.ledger import Ledger
from dp_pipeline.ledger.postgres_store import PostgresStore
from dp_pipeline.ledger.sqlite_store import SqliteStore
from dp_pipeline.ledger.tables import entries, spends
from dp_pipeline.release.durable import sync
from dp_pipeline.schema.errors import PipelineError

MOVED = "ledger.sqlite.moved"
"""What the file is called afterwards: nothing opens it again."""


def move_to_server(folder: Path, *, head: Path | None, url: str) -> Tip:
    """Move the rows of the file in ``folder`` to an empty database; gives the newest of them.

    Nobody writes meanwhile. Interrupted, it has done all or nothing of the copy, and
    is asked once more. Raises PipelineError where there is nothing to move or another
    ledger is there already, and whatever ``Ledger.verify`` finds before and after.
    """
    file, server = SqliteStore(folder), PostgresStore(url, folder)
    Ledger(folder, head=head).verify()
    if not file.exists():
        raise PipelineError(f"ledger {file}: expected one to move to {server}, got none")
    # A ledger of the first format gets its head: on a server there is none without.
    with Book(file, Head.of(folder, named=head)).writing():
        pass
    with file.alone():
        with file.transaction(writing=False) as old:
            tip = newest(old)
            server.receive(lambda new: _copy(old, new), tip)
        with file_errors(file.path):
            file.path.rename(folder / MOVED)
            sync(folder)
    return Ledger(folder, head=head, store=server).verify()


def _copy(old: Connection, new: Connection) -> None:
    """Every row word for word, in order; Damaged if what is read back has another hash."""
    for row, children in journal.rows(old):
        new.execute(insert(entries), dict(row))
        if children:
            new.execute(insert(spends), [dict(child) for child in children])
    chain = Chain()
    for row, children in journal.rows(new):
        chain.follow(row, children)
