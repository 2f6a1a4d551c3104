"""Verifying: every row, recomputed from the first, and what all of them add up to.

Restoring: the ledger goes on at the last row that holds. Rows of somebody else behind it are taken
out and charged, and the sums are computed anew; a row of the ledger says who did it and why,
and none makes a sum smaller.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlalchemy import Connection, delete, insert

from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.ledger.audit import Audit
from dp_pipeline.ledger.book import Book
from dp_pipeline.ledger.entries import (
    BLOCKS,
    DELTA,
    Entry,
    blocks_of,
    delta_of,
    entry_from,
    require_line,
)
from dp_pipeline.ledger.guards import create_guards, drop_guards
from dp_pipeline.ledger.head import Chain, Draft, Row, Tip, canonical
from dp_pipeline.ledger.journal import (
    current_time,
    entries,
    rows,
    spends,
    state,
    stored_bytes,
    write,
)
from dp_pipeline.ledger.state import Population, State

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")
LEAST_DIGITS = 16
"""Hex digits of the digest of a row's bytes that name it, at least."""
_MAX_ROWS = 20
"""Rows in one message."""
_MAX_CONTENT = 4000
"""Characters of a row that was taken out, which the row in its place stores."""

Value = TypeVar("Value")
StoredRow = tuple[Row, list[Row]]
"""A row as it is stored, and its spends."""


class Verification:
    """Follows rows: hashes, the order of times, a possible story, and the digest of their sums.

    chain, audit, state   as the rows so far left them
    time                  the latest so far
    """

    def __init__(self, stored: Iterable[StoredRow] = ()) -> None:
        self.chain, self.audit, self.state = Chain(), Audit(), State()
        self.time = ""
        for row, children in stored:
            self.take(row, children)

    @property
    def tip(self) -> Tip:
        """The newest row."""
        return Tip(self.chain.expected_sequence - 1, self.chain.tip)

    def take(self, row: Row, children: list[Row]) -> None:
        """Follow the next row; raise Damaged if it cannot be there."""
        self.chain.follow(row, children)
        try:
            self._take(entry_from(row, children))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            # A forger who can hash may have written numbers as text, or facts that are none.
            raise Damaged(f"ledger row {row['sequence']}: it is no row of a ledger") from None

    def _take(self, entry: Entry) -> None:
        row = f"ledger row {entry.sequence} ({entry.event})"
        self.audit.take(entry)
        self.state.take(entry, sequence=entry.sequence, time=entry.time)
        if not _TIME.fullmatch(entry.time) or entry.time < self.time:
            raise Damaged(f"{row} cannot be: it is older than the row before it")
        self.time = entry.time
        if entry.state != self.state.digest:
            raise Damaged(f"{row} cannot be: its sums are not those of the rows so far")


@dataclass(frozen=True)
class _Followed:
    """All rows of a ledger, followed in order to the last one that holds.

    intact   the rows to there
    strays   those behind it, which the head does not cover, and those with numbers below 1
    fault    why the first of them does not hold; None where all rows hold
    """

    intact: Verification
    strays: Sequence[StoredRow]
    fault: Damaged | None

    @property
    def digests(self) -> dict[int, str]:
        """The number of every stray → the digest of its bytes."""
        return {row["sequence"]: stored_bytes(row, children) for row, children in self.strays}

    @property
    def remedied(self) -> Damaged:
        """The fault of the first stray, the numbers of all, and the command that goes on."""
        first, *others = list(self.digests)[:_MAX_ROWS]
        also = f"; so it is with row {', '.join(map(str, others))}" if others else ""
        them = "them" if others else "it"
        options = " ".join(
            f"--row {number}:{self.digests[number][:LEAST_DIGITS]}" for number in (first, *others)
        )
        return Damaged(
            f"{self.fault}{also}; the head does not cover {them}: `dp-pipeline budget restore "
            f"{options} --reason …` takes {them} out, charged"
        )


def verify_rows(connection: Connection, *, head: Tip) -> Verification:
    """Return all rows of a ledger, followed in order; Damaged names the first bad one, and all bad
    ones that the head does not cover: those may be taken out.
    """
    followed = _follow(connection, head=head)
    if followed.fault is not None:
        raise followed.remedied
    return followed.intact


def _follow(connection: Connection, *, head: Tip) -> _Followed:
    stored = list(rows(connection))
    below = [row_and_spends for row_and_spends in stored if row_and_spends[0]["sequence"] < 1]
    numbered, verification = stored[len(below) :], Verification()
    for index, (row, children) in enumerate(numbered):
        try:
            verification.take(row, children)
        except Damaged as fault:
            if row["sequence"] <= head.sequence:
                # What it charged before it was changed nobody knows.
                raise Damaged(
                    f"{fault}; the head covers it: put back a copy with the row as it was"
                ) from None
            # No row follows one that does not hold.
            intact = Verification(numbered[:index])
            return _Followed(intact, [*below, *numbered[index:]], fault)
    if not below:
        return _Followed(verification, (), None)
    unknown = Damaged(f"ledger row {below[0][0]['sequence']}: no row has such a number")
    return _Followed(verification, below, unknown)


def restore(book: Book, strays: Mapping[int, str], *, reason: str, by: str) -> Tip:
    """Go on at the last row that holds; return the newest row from now on.

    strays   every row that does not hold and that the head does not cover: number → digest of its
             bytes as ``verify`` says it, or its first 16 digits or more; empty where all rows hold,
             and only the table of their sums is to be computed anew

    The charge that a row looks like is charged to the same population, whatever remains there, so
    that no sum gets smaller. An unfinished release that it names is dead. The triggers are made
    anew, so on a server only the owner of the tables may call it.

    Raises DeclarationError for any other row, and Damaged while a row that is not named, or that
    the head covers, does not hold.
    """
    require_line(reason, of="reason")
    require_line(by, of="who restores the ledger")
    with book.mending() as (connection, head):
        followed = _follow(connection, head=head)
        _require_strays(followed, strays)
        drafts = list(_charges(followed)) or [Draft("restored", "")]
        drop_guards(connection)
        numbers = list(followed.digests)
        connection.execute(delete(spends).where(spends.c.entry.in_(numbers)))
        connection.execute(delete(entries).where(entries.c.sequence.in_(numbers)))
        why = {"reason": reason, "by": by}
        drafts = [replace(draft, facts={**why, **draft.facts}) for draft in drafts]
        tip = _write(connection, followed.intact, drafts)
        create_guards(connection)
        return tip


def _require_strays(followed: _Followed, strays: Mapping[int, str]) -> None:
    """Refuse names of other rows than the strays, and strays without a name."""
    for number, digits in strays.items():
        if len(digits) < LEAST_DIGITS or not followed.digests.get(number, "").startswith(digits):
            raise DeclarationError(
                f"ledger row {number}: expected a row that does not hold, and the first "
                f"{LEAST_DIGITS} digits or more of its digest, as `dp-pipeline budget verify` says "
                f"them, got {digits[:80]!r}"
            )
    if followed.digests.keys() - strays.keys():
        raise followed.remedied


def _charges(followed: _Followed) -> Iterator[Draft]:
    """Yield the rows in the place of every stray."""
    unfinished = set(followed.intact.state.unfinished_keys())
    for row, children in followed.strays:
        yield _in_place_of(row, children, state=followed.intact.state)
        if row["key"] in unfinished:
            unfinished.remove(row["key"])
            reserved = followed.intact.audit.reserved(row["key"])
            yield Draft(
                event="dead",
                population=reserved.population,
                key=reserved.key,
                kind=reserved.kind,
                what=reserved.what,
                facts={"reason": "a row that the ledger did not write spoke of it"},
            )


def _in_place_of(row: Row, children: list[Row], *, state: State) -> Draft:
    """Return the row that charges what a stray looks like, to the same population.

    state   the sums of the rows before it
    """
    nano, population = row["nano_epsilon"], str(row["population"])
    sums: Population | None = state.population(population)
    is_charge = type(nano) is int and (
        nano > 0 or row["event"] == "reserve" or row["kind"] == "not-dp"
    )
    is_charged = sums is not None and is_charge
    facts = {
        "row": str(row["sequence"]),
        "bytes": stored_bytes(row, children),
        "content": canonical([row, children])[:_MAX_CONTENT],
    }
    if is_charged and sums:
        delta, blocks = _readable(row, delta_of), _readable(row, blocks_of)
        facts |= {DELTA: str(delta)} if delta else {}
        # Without names that can be read it counts in every window.
        facts |= {BLOCKS: " ".join(blocks)} if blocks and sums.has_windows else {}
    return Draft(
        event="restored",
        population="" if sums is None else population,
        kind=("not-dp" if row["kind"] == "not-dp" else "dp") if is_charged else None,
        # Less than nothing is charged as nothing.
        nano_epsilon=max(nano, 0) if is_charged else 0,
        what=f"row {row['sequence']}, which the ledger did not write",
        facts=facts,
    )


def _readable(row: Row, read: Callable[[Mapping[str, str]], Value]) -> Value | None:
    """Return a value of a stray's facts; None where it cannot be read."""
    try:
        return read(dict(json.loads(row["facts"])))
    except (ValueError, TypeError, RecursionError, Damaged):
        return None


def _write(connection: Connection, verification: Verification, drafts: list[Draft]) -> Tip:
    """Write rows, and the table of the sums of all rows as a whole."""
    now, tip = verification.state, verification.tip
    time = max(current_time(), verification.time)
    for draft in drafts:
        now.take(draft, sequence=tip.sequence + 1, time=time)
        tip = write(connection, draft, after=tip, time=time, state=now.digest)
    connection.execute(delete(state))
    rows = [{**key.columns(), **vars(value)} for key, value in now.rows.items()]
    connection.execute(insert(state), rows)
    return tip
