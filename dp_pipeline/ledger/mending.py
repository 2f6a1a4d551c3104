"""Mending: going on beside rows that the ledger did not write, sums computed anew, an older format
brought up to date. Each is a row of the ledger that says who and why; none makes a sum smaller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlalchemy import Connection, and_, delete, insert, not_

from dp_pipeline.ledger.book import Book
from dp_pipeline.ledger.chain import Row
from dp_pipeline.ledger.head import Tip
from dp_pipeline.ledger.journal import Draft, moment, rows, stored_bytes, write
from dp_pipeline.ledger.state import Place
from dp_pipeline.ledger.tables import FORMAT, state
from dp_pipeline.ledger.verifying import SHORTEST, Verification, verified
from dp_pipeline.ledger.view import write_state
from dp_pipeline.ledger.words import require_line
from dp_pipeline.schema.errors import Damaged, DeclarationError, PipelineError


def quarantine(book: Book, named: Mapping[int, str], *, reason: str, by: str) -> Tip:
    """Go on beside rows that the ledger did not write; gives the newest row from now on.

    named   row number → digest of its bytes as ``verify`` says it, or its first 16 digits or more

    Raises DeclarationError for a row that is not there with these bytes, and for one that is passed
    over already. Raises Damaged for one that holds, for one that the head covers (what such a row
    charged before it was changed nobody knows, so a copy with the row as it was is needed), and
    while any other row does not hold.
    """
    _require_words(reason, by)
    with book.mending() as (connection, head):
        found = _beside(connection, named, head=head, command="quarantine")
        drafts = _reasoned(found.drafts(), reason=reason, by=by)
        return _written(connection, found, drafts)


def restate(book: Book, *, reason: str, by: str) -> Tip:
    """Compute what the rows add up to from the rows alone, and write it anew; gives the newest
    row. Raises Damaged where a row does not hold.
    """
    _require_words(reason, by)
    with book.mending() as (connection, head):
        found = verified(connection, head=head)
        draft = Draft("restated", "", facts={"reason": reason, "by": by})
        return _written(connection, found, [draft])


def upgrade(
    book: Book,
    *,
    by: str,
    with_unfinished: bool = False,
    named: Mapping[int, str] | None = None,
    reason: str = "",
) -> Tip:
    """Bring a ledger of the second format to the third; gives the newest row.

    Its rows stay as they are, and are verified by their own rule; the first new row says what
    they add up to. All of it is one transaction.

    with_unfinished   also where releases are unfinished, which this program cannot finish: their
                      transcripts do not say their format, nor their rows over which tables
    named, reason     of rows that the ledger did not write, as of ``quarantine``

    Raises Damaged where any other row does not hold, and PipelineError for any other format, or
    for unfinished releases.
    """
    require_line(by, of="who upgrades the ledger")
    if named:
        require_line(reason, of="reason")
    with book.mending(format=FORMAT - 1) as (connection, head):
        book.upgrade_tables(connection)
        found = _beside(connection, named or {}, head=head, command="upgrade")
        if not with_unfinished:
            _require_finished(found)
        drafts = _reasoned(found.drafts(), reason=reason, by=by)
        return _written(connection, found, [Draft("upgraded", "", facts={"by": by}), *drafts])


def _require_finished(found: Verification) -> None:
    keys = [key[:12] for key in found.state.unfinished_keys()]
    if keys:
        shown = ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
        raise PipelineError(
            f"ledger: expected every charged release to be finished, got {shown}: finish them with "
            "the dp-pipeline that began them: this one cannot, and that one does not open the "
            "ledger any more once it is upgraded; `--with-unfinished` upgrades all the same"
        )


def _beside(
    connection: Connection, named: Mapping[int, str], *, head: Tip, command: str
) -> Verification:
    """All rows followed, past those that are named; the others have to hold."""
    found = {row["sequence"]: (row, children) for row, children in rows(connection)}
    for number, digest in named.items():
        _require_bytes(number, digest, found.get(number))
    newer = {number for number in named if not 0 < number <= head.sequence}
    passed = verified(connection, head=head, beside=newer, command=command)
    for number in named:
        _require_strange(number, passed, head=head)
    return passed


def _reasoned(drafts: Iterable[Draft], *, reason: str, by: str) -> list[Draft]:
    return [replace(one, facts={**one.facts, "reason": reason, "by": by}) for one in drafts]


def _written(connection: Connection, verification: Verification, drafts: list[Draft]) -> Tip:
    """Write rows, and the table of what all rows add up to as a whole."""
    now, tip = verification.state, verification.tip
    time = max(moment(), verification.time)
    for draft in drafts:
        now.take(draft, sequence=tip.sequence + 1, time=time)
        tip = write(connection, draft, after=tip, time=time, state=now.digest)
    seal = Place("ledger")
    is_seal = [getattr(state.c, name) == text for name, text in seal._asdict().items()]
    connection.execute(delete(state).where(not_(and_(*is_seal))))
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


def _require_bytes(number: int, digest: str, found: tuple[Row, list[Row]] | None) -> None:
    stored = "" if found is None else stored_bytes(*found)
    if len(digest) < SHORTEST or not stored.startswith(digest):
        raise DeclarationError(
            f"ledger row {number}: expected the first {SHORTEST} digits or more of its digest, as "
            f"`dp-pipeline budget verify` says them, got {digest[:80]!r}"
        )


def _require_strange(number: int, passed: Verification, *, head: Tip) -> None:
    if number in passed.state.quarantined():
        raise DeclarationError(f"ledger row {number}: it is passed over already")
    if 0 < number <= head.sequence:
        raise Damaged(
            f"ledger row {number}: expected a row that the ledger did not write, got one that the "
            f"head covers (it names row {head.sequence}) and that holds"
        )
