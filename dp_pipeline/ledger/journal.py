"""Rows: how one is appended, and what is read from them inside a transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select

from dp_pipeline.ledger.account import LIMITS, Account
from dp_pipeline.ledger.chain import Row, canonical, digest
from dp_pipeline.ledger.charge import Charge, SpendRow
from dp_pipeline.ledger.entry import Entry, entry_from
from dp_pipeline.ledger.head import newest
from dp_pipeline.ledger.tables import entries, spends
from dp_pipeline.schema.errors import Damaged, DeclarationError


@dataclass(frozen=True)
class Draft:
    """A row before it has its place in the chain; the columns are those of ``Entry``."""

    event: str
    lineage: str
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
            lineage=charge.lineage,
            key=charge.key,
            kind=charge.kind,
            nano_epsilon=nano_epsilon,
            what=charge.what,
            facts=facts or {},
            spends=spends,
        )


def moment() -> str:
    """The time of a row that is written now, UTC in ISO 8601; a calendar month first."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def append(connection: Connection, draft: Draft, *, time: str = "") -> None:
    """Write a row at the end of the chain, and its spends.

    time   its ``moment``, for whoever has decided by it
    """
    tip = newest(connection)
    row: dict[str, Any] = {
        "sequence": tip.sequence + 1,
        "event": draft.event,
        "time": time or moment(),
        "lineage": draft.lineage,
        "key": draft.key,
        "source": draft.source,
        "kind": draft.kind,
        "nano_epsilon": draft.nano_epsilon,
        "what": draft.what,
        "facts": canonical(dict(draft.facts)),
        "previous": tip.hash,
    }
    children = [_child(row["sequence"], n, spend) for n, spend in enumerate(draft.spends)]
    connection.execute(insert(entries), {**row, "hash": digest(row, children)})
    if children:
        connection.execute(insert(spends), children)


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


def read_entries(connection: Connection) -> Iterator[Entry]:
    """Every row as an entry, in order."""
    for row, children in rows(connection):
        yield entry_from(row, children)


def find_account(connection: Connection, lineage: str) -> tuple[Account, dict[str, str]] | None:
    """The account of a lineage as it is now, and the facts of its row and of its raises."""
    query = select(entries.c.facts).where(
        entries.c.lineage == lineage, entries.c.event.in_(("account", "raise"))
    )
    texts = connection.execute(query.order_by(entries.c.sequence)).scalars().all()
    if not texts:
        return None
    try:
        facts = merged(json.loads(text) for text in texts)
        return Account.from_facts(lineage, facts), facts
    except (KeyError, TypeError, ValueError, DeclarationError):
        raise Damaged(f"ledger: the account row of lineage {lineage} was changed") from None


def merged(rows: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The facts of an account from those of its opening and of every raise, oldest first."""
    facts: dict[str, str] = {}
    for row in rows:
        # A raise says all limits anew: one that it does not name is no more.
        kept = {name: text for name, text in facts.items() if name not in LIMITS}
        facts = {**kept, **row}
    return facts


def require_account(connection: Connection, lineage: str) -> Account:
    """The account of a lineage; DeclarationError if it was never opened."""
    found = find_account(connection, lineage)
    if found is None:
        raise no_account(lineage)
    return found[0]


def no_account(lineage: str) -> DeclarationError:
    """What every request for an unknown lineage is answered with."""
    return DeclarationError(
        f"lineage {lineage}: no account was opened in this ledger: "
        "`dp-pipeline run` of one of its data sets opens it"
    )


def spent_nano(connection: Connection, lineage: str, *, month: str = "") -> int:
    """The sum of all charges of a lineage, in nano-ε, or in nano-ρ where it counts in ρ.

    month   of this calendar month alone: "2026-11"
    """
    total = select(func.coalesce(func.sum(entries.c.nano_epsilon), 0)).where(
        entries.c.lineage == lineage, entries.c.event == "reserve"
    )
    if month:
        total = total.where(entries.c.time.startswith(month, autoescape=True))
    spent = connection.execute(total).scalar_one()
    # PostgreSQL sums whole numbers up to a Decimal; SQLite answers with a float if any is none.
    if isinstance(spent, float) or spent != int(spent):
        raise Damaged(f"ledger: a charge of lineage {lineage} is not a whole number")
    return int(spent)


def count_not_dp(connection: Connection, lineage: str) -> int:
    """How many releases of a lineage have no ε."""
    query = select(func.count()).where(
        entries.c.lineage == lineage, entries.c.event == "reserve", entries.c.kind == "not-dp"
    )
    return int(connection.execute(query).scalar_one())


def history(connection: Connection, key: str) -> list[Row]:
    """The rows of one release, oldest first: a reserve row, then what became of it."""
    query = select(entries).where(entries.c.key == key).order_by(entries.c.sequence)
    return [dict(row) for row in connection.execute(query).mappings()]
