"""Mending: going on beside rows that the ledger did not write, sums computed anew, an older format
brought up to date. Each is a row of the ledger that says who and why; none makes a sum smaller.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, delete, insert

from dp_pipeline.ledger.book import Book
from dp_pipeline.ledger.chain import Row
from dp_pipeline.ledger.head import Tip
from dp_pipeline.ledger.journal import Draft, moment, rows, stored_bytes, write
from dp_pipeline.ledger.state import Place
from dp_pipeline.ledger.tables import FORMAT, state
from dp_pipeline.ledger.verifying import SHORTEST, Verification, naming, remedied, verified
from dp_pipeline.ledger.view import write_state
from dp_pipeline.ledger.words import require_line
from dp_pipeline.schema.errors import Damaged, DeclarationError


def quarantine(book: Book, named: Mapping[int, str], *, reason: str, by: str) -> Tip:
    """Go on beside rows that the ledger did not write; gives the newest row from now on.

    named   row number → digest of its bytes as ``verify`` says it, or its first 16 digits or more

    Raises DeclarationError for a row that is not there with these bytes. Raises Damaged for one
    that holds, for one that the head covers (what such a row charged before it was changed nobody
    knows, so a copy with the row as it was is needed), and while any other row does not hold.
    """
    _require_words(reason, by)
    with book.mending() as (connection, head):
        stored = list(rows(connection))
        found = {row["sequence"]: (row, children) for row, children in stored}
        for number, digest in named.items():
            _require_strange(number, digest, found.get(number), head=head)
        verification, drafts = Verification(stored), []
        for row, children in stored:
            if row["sequence"] not in named:
                with remedied(row, children, head=head):
                    verification.follow(row, children)
                continue
            draft = naming(row, children, state=verification.state, reason=reason, by=by)
            verification.pass_over(row, children)
            drafts.append(draft)
        return _written(connection, verification, drafts)


def restate(book: Book, *, reason: str, by: str) -> Tip:
    """Compute what the rows add up to from the rows alone, and write it anew; gives the newest
    row. Raises Damaged where a row does not hold.
    """
    _require_words(reason, by)
    with book.mending() as (connection, head):
        found = verified(connection, head=head)
        draft = Draft("restated", "", facts={"reason": reason, "by": by})
        return _written(connection, found, [draft])


def upgrade(book: Book, *, by: str) -> Tip:
    """Bring a ledger of the second format to the third; gives the newest row.

    Its rows stay as they are, and are verified by their own rule; the first new row says what
    they add up to. All of it is one transaction. Raises Damaged where a row does not hold, and
    PipelineError for any other format.
    """
    require_line(by, of="who upgrades the ledger")
    with book.mending(format=FORMAT - 1) as (connection, head):
        book.upgrade_tables(connection)
        found = verified(connection, head=head)
        return _written(connection, found, [Draft("upgraded", "", facts={"by": by})])


def _written(connection: Connection, verification: Verification, drafts: list[Draft]) -> Tip:
    """Write rows, and the table of what all rows add up to as a whole."""
    now, tip = verification.state, verification.tip
    time = max(moment(), verification.time)
    for draft in drafts:
        now.take(draft, sequence=tip.sequence + 1, time=time)
        tip = write(connection, draft, after=tip, time=time, state=now.digest)
    seal = Place("ledger")
    connection.execute(delete(state).where(state.c.kind != seal.kind))
    values = [
        {**place._asdict(), "entry": held.entry, "value": held.value}
        for place, held in now.held.items()
        if place != seal
    ]
    if values:
        connection.execute(insert(state), values)
    write_state(connection, now, [seal])
    return tip


def _require_words(reason: str, by: str) -> None:
    require_line(reason, of="reason")
    require_line(by, of="who mends the ledger")


def _require_strange(
    number: int, digest: str, found: tuple[Row, list[Row]] | None, *, head: Tip
) -> None:
    stored = "" if found is None else stored_bytes(*found)
    if len(digest) < SHORTEST or not stored.startswith(digest):
        raise DeclarationError(
            f"ledger row {number}: expected the first {SHORTEST} digits or more of its digest, as "
            f"`dp-pipeline budget verify` says them, got {digest[:80]!r}"
        )
    if 0 < number <= head.sequence:
        raise Damaged(
            f"ledger row {number}: expected a row that the ledger did not write, got one that the "
            f"head covers (it names row {head.sequence}): put back a copy with the row as it was"
        )
