"""Verification of a ledger by recomputing every row, and restoration of a damaged one.

Restoring keeps all rows up to the last valid one. Rows behind it that the ledger did not write are
replaced by charges of the same amount, and the sums are recomputed; a row records who did it and
why. No sum gets smaller.
"""

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
    stored_digest,
    write,
)
from dp_pipeline.ledger.reservation import FOREIGN
from dp_pipeline.ledger.state import Population, State

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")
LEAST_DIGITS = 16
"""Hex digits of the digest of a row's bytes that name it, at least."""
_MAX_ROWS = 20
"""Most further rows that one message lists; its command names all, or it would be refused."""
_MAX_CONTENT = 4000
"""Most characters of a row that was taken out that the row in its place stores."""

Value = TypeVar("Value")
StoredRow = tuple[Row, list[Row]]
"""A row as it is stored, and its spends."""


class Verification:
    """A check of all ledger rows in order: their hashes, times, admissibility and sums.

    chain, audit, state   the hash chain, recomputed accounts and sums after the rows so far
    time                  that of the newest row so far
    """

    def __init__(self, stored: Iterable[StoredRow] = ()) -> None:
        self.chain, self.audit, self.state = Chain(), Audit(), State()
        self.time = ""
        for row, children in stored:
            self.take(row, children)

    @property
    def tip(self) -> Tip:
        return Tip(self.chain.expected_sequence - 1, self.chain.tip)

    def take(self, row: Row, children: list[Row]) -> None:
        """Check the next row and add it to the sums; raise Damaged if the ledger could not have
        written it here."""
        self.chain.follow(row, children)
        try:
            entry = entry_from(row, children)
            name = f"ledger row {entry.sequence} ({entry.event})"
            self.audit.take(entry)
            self.state.take(entry, sequence=entry.sequence, time=entry.time)
            if not _TIME.fullmatch(entry.time):
                raise Damaged(f"{name} is invalid: its time is none that the ledger writes")
            if entry.time < self.time:
                raise Damaged(f"{name} is invalid: it is older than the row before it")
            self.time = entry.time
            if entry.state != self.state.digest:
                raise Damaged(f"{name} is invalid: its sums are not those of the rows so far")
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            # A forger who can hash may have written numbers as text, or facts that are none.
            raise Damaged(
                f"ledger row {row['sequence']} has a value of another type than the ledger writes"
            ) from None


@dataclass(frozen=True)
class _LedgerCheck:
    """The result of checking all rows of a ledger up to the first invalid row.

    verification   that of the valid rows
    strays   the invalid rows: the first and all after it, and those with numbers below 1
    fault    the reason why the first stray is invalid; None if all rows are valid
    """

    verification: Verification
    strays: Sequence[StoredRow]
    fault: Damaged | None

    @property
    def digests(self) -> dict[int, str]:
        return {row["sequence"]: stored_digest(row, children) for row, children in self.strays}

    @property
    def as_error(self) -> Damaged:
        """The error for the first invalid row, whose message names all invalid rows and the command
        that takes them out."""
        digests = self.digests
        later_rows = list(digests)[1:]
        ending = f" and {len(later_rows) - _MAX_ROWS} more" if len(later_rows) > _MAX_ROWS else ""
        listed = ", ".join(map(str, later_rows[:_MAX_ROWS]))
        also = f"; no row after it holds: {listed}{ending}" if later_rows else ""
        them, they = ("them", "they") if later_rows else ("it", "it")
        options = " ".join(
            f"--row {number}:{digest[:LEAST_DIGITS]}" for number, digest in digests.items()
        )
        return Damaged(
            f"{self.fault}{also}; the head does not cover {them}: `dp-pipeline budget restore "
            f"{options} --reason …` takes {them} out and keeps what {they} charged"
        )


def verify_rows(connection: Connection, *, head: Tip) -> Verification:
    """Return the verification of all ledger rows; raise Damaged, naming invalid rows, if any.

    head   the newest row that the head file names
    """
    result = _check_rows(connection, head=head)
    if result.fault is not None:
        raise result.as_error
    return result.verification


def _check_rows(connection: Connection, *, head: Tip) -> _LedgerCheck:
    stored = list(rows(connection))
    below = [row_and_spends for row_and_spends in stored if row_and_spends[0]["sequence"] < 1]
    numbered, verification = stored[len(below) :], Verification()
    for index, (row, children) in enumerate(numbered):
        try:
            verification.take(row, children)
        except Damaged as fault:
            # A missing row comes before the row at which it is missed.
            if min(row["sequence"], verification.chain.expected_sequence) <= head.sequence:
                # What it charged before it was changed nobody knows.
                raise Damaged(
                    f"{fault}; the head covers it: put back a copy with the row as it was"
                ) from None
            # No row follows one that does not hold.
            verification = Verification(numbered[:index])
            return _LedgerCheck(verification, [*below, *numbered[index:]], fault)
    if not below:
        return _LedgerCheck(verification, (), None)
    unknown = Damaged(f"ledger row {below[0][0]['sequence']}: no row has such a number")
    return _LedgerCheck(verification, below, unknown)


def restore(book: Book, strays: Mapping[int, str], *, reason: str, by: str) -> Tip:
    """Replace invalid rows at the end of a ledger by charges; return the newest row.

    strays   number of every invalid row that the head does not cover → the digest of its bytes as
             ``verify`` prints it, or its first 16 digits or more; empty where all rows are valid
             and only the table of their sums is recomputed

    The amount in an invalid row is charged to its population without regard to the ceiling, so that
    no sum gets smaller; an unfinished release that it names is dead. The triggers are created anew,
    so on a server only the owner of the tables may call it.

    Raises DeclarationError for any other row, and Damaged while an invalid row is not named, or is
    covered by the head.
    """
    require_line(reason, of="reason")
    require_line(by, of="name of who restores the ledger")
    with book.exclusive_transaction() as (connection, head):
        result = _check_rows(connection, head=head)
        _require_strays(result, strays)
        drafts = list(_charges(result)) or [Draft("restored", "")]
        drop_guards(connection)
        numbers = list(result.digests)
        connection.execute(delete(spends).where(spends.c.entry.in_(numbers)))
        connection.execute(delete(entries).where(entries.c.sequence.in_(numbers)))
        why = {"reason": reason, "by": by}
        drafts = [replace(draft, facts={**why, **draft.facts}) for draft in drafts]
        now, tip = result.verification.state, result.verification.tip
        time = max(current_time(), result.verification.time)
        for draft in drafts:
            now.take(draft, sequence=tip.sequence + 1, time=time)
            tip = write(connection, draft, after=tip, time=time, state=now.digest)
        connection.execute(delete(state))
        rows = [{**key._asdict(), **vars(value)} for key, value in now.rows.items()]
        connection.execute(insert(state), rows)
        create_guards(connection)
        return tip


def _require_strays(result: _LedgerCheck, strays: Mapping[int, str]) -> None:
    """Raise DeclarationError if ``strays`` names a valid row or another digest, Damaged if it lacks
    an invalid row."""
    for number, digits in strays.items():
        if number not in result.digests:
            raise DeclarationError(
                f"Only an invalid row can be taken out, but row {number} is none: leave it out"
            )
        is_short = len(digits) < LEAST_DIGITS
        if is_short or not result.digests[number].startswith(digits):
            fault = f"is named by {len(digits)}" if is_short else "has a digest other than these"
            raise DeclarationError(
                f"An invalid row must be named by its number and the first {LEAST_DIGITS} or "
                "more digits of its digest, as `dp-pipeline budget verify` prints them, but "
                f"row {number} {fault}: {digits[:80]!r}"
            )
    if result.digests.keys() - strays.keys():
        raise result.as_error


def _charges(result: _LedgerCheck) -> Iterator[Draft]:
    unfinished = set(result.verification.state.unfinished_keys())
    for row, children in result.strays:
        yield _in_place_of(row, children, state=result.verification.state)
        if row["key"] in unfinished:
            unfinished.remove(row["key"])
            reserved = result.verification.audit.reservation(row["key"])
            yield Draft.of(reserved, "dead", facts={"reason": FOREIGN})


def _in_place_of(row: Row, children: list[Row], *, state: State) -> Draft:
    """Return a row in place of an invalid one, which charges its population what it seems to
    charge: at least 0, and to every window if the names of its windows cannot be read.

    A row that seems to be no charge, or is of an unknown population, charges nobody.

    state   the sums of the valid rows
    """
    nano, population = row["nano_epsilon"], str(row["population"])
    sums: Population | None = state.population(population)
    is_charge = type(nano) is int and (
        nano > 0 or row["event"] == "reserve" or row["kind"] == "not-dp"
    )
    is_charged = sums is not None and is_charge
    facts = {
        "row": str(row["sequence"]),
        "bytes": stored_digest(row, children),
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
    try:
        return read(dict(json.loads(row["facts"])))
    except (ValueError, TypeError, RecursionError, Damaged):
        return None
