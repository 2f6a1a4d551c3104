"""Moving a ledger from its file to a server: the same rows, the same hashes, the same head."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, insert, select

from dp_pipeline.ledger import journal
from dp_pipeline.ledger.files import file_errors
from dp_pipeline.ledger.head import Tip, newest
from dp_pipeline.ledger.ledger import Ledger
from dp_pipeline.ledger.postgres_store import PostgresStore
from dp_pipeline.ledger.sqlite_store import SqliteStore
from dp_pipeline.ledger.tables import entries, spends, state
from dp_pipeline.ledger.view import read_state
from dp_pipeline.release.durable import sync
from dp_pipeline.schema.errors import Damaged, PipelineError

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
    with file.alone():
        with file.transaction(writing=False) as old:
            tip = newest(old)
            server.receive(lambda new: _copy(old, new), tip)
        with file_errors(file.path):
            file.path.rename(folder / MOVED)
            sync(folder)
    return Ledger(folder, head=head, store=server).verify()


def _copy(old: Connection, new: Connection) -> None:
    """Every row word for word, in order; Damaged if what is read back is another."""
    left = []
    for row, children in journal.rows(old):
        new.execute(insert(entries), dict(row))
        if children:
            new.execute(insert(spends), [dict(child) for child in children])
        left.append((row["sequence"], journal.stored_bytes(row, children)))
    new.execute(insert(state), [dict(row) for row in old.execute(select(state)).mappings()])
    arrived = [(row["sequence"], journal.stored_bytes(row, ch)) for row, ch in journal.rows(new)]
    for (sequence, sent), found in zip(left, [*arrived, None], strict=False):
        if (sequence, sent) != found:
            raise Damaged(f"ledger row {sequence} did not arrive as it was sent")
    if read_state(old) != read_state(new):
        raise Damaged("ledger: what its rows add up to did not arrive as it was sent")
