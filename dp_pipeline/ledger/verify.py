"""Verifying: every row, recomputed from the first, and what all of them add up to.

Mending: going on beside rows that the ledger did not write, sums computed anew, an older format
brought up to date. Each is a row of the ledger that says who and why; none makes a sum smaller.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlalchemy import Connection, and_, delete, insert, not_

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
from dp_pipeline.ledger.head import FORMAT, Chain, Draft, Row, Tip
from dp_pipeline.ledger.journal import moment, rows, state, stored_bytes, write
from dp_pipeline.ledger.state import Place, Population, State
from dp_pipeline.ledger.view import write_state
from dp_pipeline.spec.errors import Damaged, DeclarationError, PipelineError

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")
SHORTEST = 16
"""Hex digits of the digest of a row's bytes that name it."""
LARGEST = 2**30
"""Number of a row that is gone on beside. The rows behind it are numbered on from there, and a
server counts to 2**31 - 1."""
_MOST_NAMED = 20
"""Rows in one message."""
_PUT_BACK = "put back a copy with the row as it was"
_Follower = TypeVar("_Follower", Chain, Audit, State)


@dataclass(frozen=True)
class _Strange:
    """A row that does not hold, and why."""

    row: Row
    children: list[Row]
    fault: Damaged

    @property
    def name(self) -> str:
        """How a command takes it."""
        return f"{self.row['sequence']}:{stored_bytes(self.row, self.children)[:SHORTEST]}"


def verified(
    connection: Connection,
    *,
    head: Tip,
    beside: Collection[int] = (),
    command: str = "quarantine",
) -> Verification:
    """All rows of a ledger, followed in order; Damaged names the first bad one, and all bad ones
    that the head does not cover.

    head     what is known outside: a bad row that is newer may be quarantined
    beside   numbers of newer rows that a row to be written will name; Damaged where one holds
    command  of `dp-pipeline budget`, that takes the others
    """
    stored = list(rows(connection))
    verification, strange = Verification(stored), list[_Strange]()
    for row, children in stored:
        number = row["sequence"]
        if 0 < number <= head.sequence:
            _follow_covered(verification, row, children)
        elif number in beside:
            verification.pass_over(row, children)
        else:
            strange.extend(verification.follow_if_it_holds(row, children))
        if number == head.sequence:
            verification.require_all_named()
    expected = {*map(str, beside), *(str(one.row["sequence"]) for one in strange)}
    strange += [one for one in verification.unnamed() if str(one.row["sequence"]) not in expected]
    if strange:
        raise _remedied(strange, command)
    return verification


def _follow_covered(verification: Verification, row: Row, children: list[Row]) -> None:
    try:
        verification.follow(row, children)
    except Damaged as damage:
        raise Damaged(f"{damage}; the head covers it: {_PUT_BACK}") from None


def _remedied(strange: list[_Strange], command: str) -> Damaged:
    """What is wrong with rows that the head does not cover, with how to go on beside them."""
    strange.sort(key=lambda one: int(one.row["sequence"]))
    first, *others = strange[:_MOST_NAMED]
    also, them = "", "it"
    if others:
        numbers = ", ".join(str(one.row["sequence"]) for one in others)
        also, them = f"; so it is with row {numbers}", "them"
    named = " ".join(f"--row {one.name}" for one in (first, *others))
    return Damaged(
        f"{first.fault}{also}; the head does not cover {them}: `dp-pipeline budget {command} "
        f"{named} --reason …` goes on beside {them}"
    )


class Verification:
    """Follows rows: hashes, the order of times, a possible story, and the digest of their sums.

    A row that a later one names with the digest of its bytes is passed over: the ledger never
    wrote it. That later row has to hold like any other, and charges what the odd one looked like;
    a row that holds by itself is never passed over. Nor is one that the head has covered before it
    was named: the head moves when the naming row is there, and until then the row was good.

    chain, audit, state   as the rows so far left them
    time                  the latest so far
    """

    def __init__(self, stored: Iterable[tuple[Row, list[Row]]]) -> None:
        self.chain, self.audit, self.state = Chain(), Audit(), State()
        self.time = ""
        self._stated = self._unstated = False
        self._named = _named(stored)
        self._passed: dict[str, tuple[_Strange, Draft]] = {}

    @property
    def tip(self) -> Tip:
        """The newest row."""
        return Tip(self.chain.expected_sequence - 1, self.chain.tip)

    def follow(self, row: Row, children: list[Row]) -> None:
        """The next row; Damaged if it cannot be there."""
        fault = self._fault(row, children) if self._is_named(row, children) else None
        if fault is None:
            self.take(row, children)
        else:
            self._pass_over(row, children, fault)

    def follow_if_it_holds(self, row: Row, children: list[Row]) -> list[_Strange]:
        """The next row, or past it where it does not hold and no later row names it: then gives
        it, so that those behind it can be looked at too.
        """
        fault = None if self._is_named(row, children) else self._fault(row, children)
        if fault is None:
            self.follow(row, children)
            return []
        return [self._pass_over(row, children, fault)]

    def pass_over(self, row: Row, children: list[Row]) -> None:
        """Go on behind a row that does not hold; Damaged if it does."""
        fault = self._fault(row, children)
        if fault is None:
            raise Damaged(f"ledger row {row['sequence']}: nothing is wrong with it")
        self._pass_over(row, children, fault)

    def unnamed(self) -> list[_Strange]:
        """The rows that were passed over and that no row names which holds itself."""
        return [strange for strange, _ in self._passed.values()]

    def drafts(self) -> list[Draft]:
        """What would name them."""
        return [draft for _, draft in self._passed.values()]

    def require_all_named(self) -> None:
        """Damaged where a row before the one that the head names was passed over, and is named by
        none before it either. The ledger writes no rows with numbers below 1.
        """
        late = [number for number in self._passed if int(number) > 0]
        if late:
            raise Damaged(
                f"ledger row {late[0]}: it was changed after the head had covered it: {_PUT_BACK}"
            )

    def _is_named(self, row: Row, children: list[Row]) -> bool:
        named = self._named.get(str(row["sequence"]), ())
        return bool(named) and stored_bytes(row, children) in named

    def _fault(self, row: Row, children: list[Row]) -> Damaged | None:
        """Why a row cannot be the next one; None where it can."""
        twin = copy.copy(self)
        copied = {name: _twin(getattr(self, name)) for name in ("chain", "audit", "state")}
        vars(twin).update(copied, _passed=dict(self._passed))
        try:
            twin.take(row, children)
        except Damaged as fault:
            return fault
        return None

    def _pass_over(self, row: Row, children: list[Row], fault: Damaged) -> _Strange:
        if row["sequence"] > LARGEST:
            raise Damaged(
                f"ledger row {row['sequence']}: expected a row of the ledger, got one with a "
                "number behind which there is no room: whoever owns the table `entries` has to "
                "delete it"
            )
        strange = _Strange(row, children, fault)
        draft = naming(row, children, state=self.state, after=self.chain.followed)
        self._passed[str(row["sequence"])] = strange, draft
        self.chain.pass_over(row)
        return strange

    def take(self, row: Row, children: list[Row]) -> None:
        """The next row, which has to hold by itself."""
        self.chain.follow(row, children)
        try:
            self._take(entry_from(row, children))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
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
            self.time, self._unstated = max(self.time, entry.time), True
            return
        if not self._stated and self._unstated and entry.event != "upgraded":
            raise Damaged(f"{at} cannot be: the rows before it say no sums")
        if not _TIME.fullmatch(entry.time) or entry.time < self.time:
            raise Damaged(f"{at} cannot be: it is older than the row before it")
        self._stated, self.time = True, entry.time
        if entry.state != self.state.digest:
            raise Damaged(f"{at} cannot be: its sums are not those of the rows so far")

    def _require_naming(self, named: str, draft: Draft, *, at: str) -> None:
        _, expected = self._passed.pop(named, (None, None))
        if expected is None or expected != draft:
            raise Damaged(f"{at} cannot be: it does not say what row {named[:20]} looks like")


def _twin(one: _Follower) -> _Follower:
    """A copy that follows other rows: what ``take`` changes is copied, what it replaces is not."""
    twin = copy.copy(one)
    vars(twin).update({name: copy.copy(value) for name, value in vars(one).items()})
    return twin


def _named(stored: Iterable[tuple[Row, list[Row]]]) -> dict[str, set[str]]:
    """Row number → the digests by which later rows name it; whether one of those rows holds is
    seen when it is its turn. No more of them is parsed here than these two words: whoever wrote
    them followed no rule.
    """
    named: dict[str, set[str]] = {}
    for row, _ in stored:
        if row["event"] != "quarantined":
            continue
        try:
            facts = json.loads(row["facts"])
            number, digest = facts["row"], facts["bytes"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(number, str) and isinstance(digest, str):
            named.setdefault(number, set()).add(digest)
    return named


def naming(row: Row, children: list[Row], *, state: State, after: str) -> Draft:
    """The row that names one that is not the ledger's: it charges whatever that one looks like,
    to the same population, so that no sum gets smaller.

    state, after   what the rows before add up to, and the hash of the newest of them that is the
                   ledger's: the chain goes on from there
    """
    nano, population = row["nano_epsilon"], str(row["lineage"])
    known: Population | None = state.population(population)
    looks = type(nano) is int and (nano > 0 or row["event"] == "reserve" or row["kind"] == "not-dp")
    charges = known is not None and looks
    return Draft(
        event="quarantined",
        population="" if known is None else population,
        kind=("not-dp" if row["kind"] == "not-dp" else "dp") if charges else None,
        # Less than nothing is charged as nothing.
        nano_epsilon=max(nano, 0) if charges else 0,
        what=f"row {row['sequence']}, which the ledger did not write",
        facts={
            "row": str(row["sequence"]),
            "bytes": stored_bytes(row, children),
            "after": after,
            **(_own_delta(row) if charges else {}),
            **(_own_blocks(row) if charges and known and known.is_cut else {}),
        },
    )


def _own_delta(row: Row) -> dict[str, str]:
    """The δ that a strange row says, as its fact; empty if it says none that can be read."""
    try:
        delta = delta_of(dict(json.loads(row["facts"])))
    except (ValueError, TypeError, RecursionError, Damaged):
        return {}
    return {DELTA: str(delta)} if delta else {}


def _own_blocks(row: Row) -> dict[str, str]:
    """The windows that a strange row names, as their fact; empty if it names none that can be read:
    then it counts in every one.
    """
    try:
        blocks = blocks_of(dict(json.loads(row["facts"])))
    except (ValueError, TypeError, RecursionError, Damaged):
        return {}
    return {BLOCKS: " ".join(blocks)} if blocks else {}


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
    is_seal = [getattr(state.c, name) == text for name, text in seal.columns().items()]
    connection.execute(delete(state).where(not_(and_(*is_seal))))
    values = [
        {**place.columns(), "entry": held.entry, "value": held.value}
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
