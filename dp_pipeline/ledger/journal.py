"""Rows: how one is drafted and written, and how stored ones are read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, insert, select

from dp_pipeline.ledger.entries import BLOCKS, DELTA, Charge, Entry, SpendRow
from dp_pipeline.ledger.head import Tip
from dp_pipeline.ledger.tables import Row, canonical, digest, entries, spends
from dp_pipeline.spec.errors import Damaged


@dataclass(frozen=True)
class Draft:
    """A row before it has its place in the chain; the columns are those of ``Entry``."""

    event: str
    population: str
    key: str | None = None
    source: str | None = None
    kind: str | None = None
    nano_epsilon: int = 0
    what: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    spends: Sequence[SpendRow] = ()

    @classmethod
    def of(
        cls,
        charge: Charge,
        event: str,
        *,
        nano_epsilon: int = 0,
        facts: Mapping[str, str] | None = None,
        spends: Sequence[SpendRow] = (),
    ) -> Draft:
        """A row about a release."""
        return cls(
            event=event,
            population=charge.population,
            key=charge.key,
            kind=charge.kind,
            nano_epsilon=nano_epsilon,
            what=charge.what,
            facts=facts or {},
            spends=spends,
        )

    @classmethod
    def again(cls, entry: Entry) -> Draft:
        """What a stored row says that names another, but for why and by whom."""
        return cls(
            event=entry.event,
            population=entry.population,
            kind=entry.kind,
            nano_epsilon=entry.nano_epsilon,
            what=entry.what,
            facts={
                **{name: entry.facts.get(name, "") for name in ("row", "bytes", "after")},
                **{name: text for name, text in entry.facts.items() if name in (DELTA, BLOCKS)},
            },
        )


def moment() -> str:
    """What the clock says now, UTC in ISO 8601; a calendar month first."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def write(connection: Connection, draft: Draft, *, after: Tip, time: str, state: str) -> Tip:
    """Write a row at the end of the chain, and its spends; gives the new end.

    after   the newest row so far
    time    of the row; never before that of the row before
    state   the digest of what all rows add up to with this one
    """
    row: dict[str, Any] = {
        "sequence": after.sequence + 1,
        "event": draft.event,
        "time": time,
        "lineage": draft.population,
        "key": draft.key,
        "source": draft.source,
        "kind": draft.kind,
        "nano_epsilon": draft.nano_epsilon,
        "what": draft.what,
        "facts": canonical(dict(draft.facts)),
        "previous": after.hash,
        "state": state,
    }
    children = [_child(row["sequence"], n, spend) for n, spend in enumerate(draft.spends)]
    row["hash"] = digest(row, children)
    connection.execute(insert(entries), row)
    if children:
        connection.execute(insert(spends), children)
    return Tip(row["sequence"], row["hash"])


def _child(entry: int, ordinal: int, spend: SpendRow) -> dict[str, Any]:
    return {
        "entry": entry,
        "ordinal": ordinal,
        "what": spend.what,
        "mechanism": spend.mechanism,
        "epsilon": str(spend.epsilon),
        "scale": str(spend.scale),
    }


def rows(connection: Connection) -> Iterator[tuple[Row, list[Row]]]:
    """Every row with its spends, in order; a spend without a row raises Damaged."""
    order = select(spends).order_by(spends.c.entry, spends.c.ordinal)
    found = connection.execute(order).mappings().all()
    children: dict[int, list[Row]] = {}
    for child in found:
        children.setdefault(child["entry"], []).append(dict(child))
    for row in connection.execute(select(entries).order_by(entries.c.sequence)).mappings():
        yield dict(row), children.pop(row["sequence"], [])
    if children:
        raise Damaged(f"ledger row {min(children)} is missing: only its spends are there")


def newest_row(connection: Connection) -> tuple[Row, list[Row]] | None:
    """The row with the highest number, and its spends; None of an empty ledger."""
    query = select(entries).order_by(entries.c.sequence.desc()).limit(1)
    row = connection.execute(query).mappings().first()
    return None if row is None else (dict(row), children_of(connection, row["sequence"]))


def row_of(connection: Connection, sequence: int) -> tuple[Row, list[Row]] | None:
    """The row of a number, and its spends; None where there is none."""
    query = select(entries).where(entries.c.sequence == sequence)
    row = connection.execute(query).mappings().first()
    return None if row is None else (dict(row), children_of(connection, sequence))


def children_of(connection: Connection, sequence: int) -> list[Row]:
    """The spends of one row."""
    query = select(spends).where(spends.c.entry == sequence).order_by(spends.c.ordinal)
    return [dict(row) for row in connection.execute(query).mappings()]


def children_of_population(connection: Connection, population: str) -> dict[int, list[Row]]:
    """The spends of all rows of a population, by the number of the row."""
    query = select(spends).join(entries).where(entries.c.lineage == population)
    found: dict[int, list[Row]] = {}
    for row in connection.execute(query.order_by(spends.c.entry, spends.c.ordinal)).mappings():
        found.setdefault(row["entry"], []).append(dict(row))
    return found


def stored_bytes(row: Row, children: Sequence[Row]) -> str:
    """SHA-256 over a row exactly as it is stored, its hash and its spends included: names a row
    that is not the ledger's.
    """
    stored = [dict(row), [dict(child) for child in children]]
    return hashlib.sha256(canonical(stored).encode("ascii")).hexdigest()
