"""Verifying: every row, recomputed from the first, and what all of them add up to."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from dp_pipeline.ledger.audit import Audit
from dp_pipeline.ledger.chain import Chain, Row
from dp_pipeline.ledger.entry import Entry, entry_from
from dp_pipeline.ledger.head import Tip
from dp_pipeline.ledger.journal import Draft, rows, stored_bytes
from dp_pipeline.ledger.state import Population, State
from dp_pipeline.schema.errors import Damaged

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")
SHORTEST = 16
"""Hex digits of the digest of a row's bytes that name it."""


def verified(connection: Connection, *, head: Tip) -> Verification:
    """All rows of a ledger, followed in order; Damaged names the first bad one.

    head   what is known outside: a bad row that is newer may be quarantined, and the message
           says how
    """
    stored = list(rows(connection))
    verification = Verification(stored)
    for row, children in stored:
        with remedied(row, children, head=head):
            verification.follow(row, children)
    return verification


@contextmanager
def remedied(row: Row, children: list[Row], *, head: Tip) -> Iterator[None]:
    """What is wrong with a row that the head does not cover, with how to go on beside it."""
    try:
        yield
    except Damaged as damage:
        number, digest = row["sequence"], stored_bytes(row, children)[:SHORTEST]
        if 0 < number <= head.sequence:
            raise
        raise Damaged(
            f"{damage}; the head does not cover it: `dp-pipeline budget quarantine --row "
            f"{number}:{digest} --reason …` goes on beside it"
        ) from None


class Verification:
    """Follows rows: hashes, the order of times, a possible story, and the digest of their sums.

    A row that a later one names with the digest of its bytes is passed over: the ledger never
    wrote it. That later row has to hold like any other, and charges what the odd one looked like;
    a row that holds by itself is never passed over.

    chain, audit, state   as the rows so far left them
    time                  the latest so far
    """

    def __init__(self, stored: Iterable[tuple[Row, list[Row]]]) -> None:
        self.chain, self.audit, self.state = Chain(), Audit(), State()
        self.time = ""
        self._stated = False
        self._named = _named(stored)
        self._passed: dict[str, Draft] = {}

    @property
    def tip(self) -> Tip:
        """The newest row."""
        return Tip(self.chain.expected_sequence - 1, self.chain.tip)

    def follow(self, row: Row, children: list[Row]) -> None:
        """The next row; Damaged if it cannot be there."""
        named = self._named.get(str(row["sequence"]))
        strange = named is not None and named == stored_bytes(row, children)
        if strange and not self._holds(row, children):
            self._pass_over(row, children)
        else:
            self.take(row, children)

    def pass_over(self, row: Row, children: list[Row]) -> None:
        """Go on behind a row that does not hold; Damaged if it does."""
        if self._holds(row, children):
            raise Damaged(f"ledger row {row['sequence']}: nothing is wrong with it")
        self._pass_over(row, children)

    def _holds(self, row: Row, children: list[Row]) -> bool:
        try:
            copy.deepcopy(self).take(row, children)
        except Damaged:
            return False
        return True

    def _pass_over(self, row: Row, children: list[Row]) -> None:
        draft = naming(row, children, state=self.state, reason="", by="")
        self._passed[str(row["sequence"])] = draft
        self.chain.pass_over(row)

    def take(self, row: Row, children: list[Row]) -> None:
        """The next row, which has to hold by itself."""
        self.chain.follow(row, children)
        try:
            self._take(entry_from(row, children))
        except (AttributeError, KeyError, TypeError, ValueError):
            # Whoever knows how to hash may have written numbers as text, or facts that are none.
            raise Damaged(f"ledger row {row['sequence']}: it is no row of a ledger") from None

    def _take(self, entry: Entry) -> None:
        at = f"ledger row {entry.sequence} ({entry.event})"
        if entry.event == "quarantined":
            self._require_naming(entry.facts.get("row", ""), Draft.again(entry), at=at)
        self.audit.take(entry)
        self.state.take(entry, sequence=entry.sequence, time=entry.time)
        if entry.state is None and not self._stated:
            # Of the second format, which had no order of times either.
            self.time = max(self.time, entry.time)
            return
        if not self._stated and entry.sequence > 1 and entry.event != "upgraded":
            raise Damaged(f"{at} cannot be: the rows before it say no sums")
        if not _TIME.fullmatch(entry.time) or entry.time < self.time:
            raise Damaged(f"{at} cannot be: it is older than the row before it")
        self._stated, self.time = True, entry.time
        if entry.state != self.state.digest:
            raise Damaged(f"{at} cannot be: its sums are not those of the rows so far")

    def _require_naming(self, named: str, draft: Draft, *, at: str) -> None:
        expected = self._passed.pop(named, None)
        if expected is None or expected != draft:
            raise Damaged(f"{at} cannot be: it does not say what row {named[:20]} looks like")


def _named(stored: Iterable[tuple[Row, list[Row]]]) -> dict[str, str]:
    """Row number → the digest by which a later row names it; whether that row holds is seen when
    it is its turn.
    """
    named: dict[str, str] = {}
    for row, children in stored:
        if row["event"] == "quarantined":
            try:
                facts = entry_from(row, children).facts
                named[facts["row"]] = facts["bytes"]
            except (Damaged, KeyError, TypeError, AttributeError):
                continue
    return named


def naming(row: Row, children: list[Row], *, state: State, reason: str, by: str) -> Draft:
    """The row that names one that is not the ledger's: it charges whatever that one looks like,
    to the same lineage, so that no sum gets smaller.
    """
    nano, lineage = row["nano_epsilon"], str(row["lineage"])
    known: Population | None = state.population(lineage)
    looks = type(nano) is int and (nano > 0 or row["event"] == "reserve" or row["kind"] == "not-dp")
    charges = known is not None and looks
    facts = {"row": str(row["sequence"]), "bytes": stored_bytes(row, children)}
    if reason:
        facts |= {"reason": reason, "by": by}
    return Draft(
        event="quarantined",
        lineage="" if known is None else lineage,
        kind=("not-dp" if row["kind"] == "not-dp" else "dp") if charges else None,
        nano_epsilon=nano if charges else 0,
        what=f"row {row['sequence']}, which the ledger did not write",
        facts=facts,
    )
