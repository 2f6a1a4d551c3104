"""The hash chain: every row carries the hash of the row before it.

A chain finds a row edited, removed from the middle or slipped in. It cannot
find a whole ledger rewritten from some row on, nor rows cut off at the end:
that is what the external checkpoint is for.

What a row is before it has its place in the chain, and the chain's end. No database is known here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dp_pipeline.ledger.entries import BLOCKS, DELTA, Charge, Entry, SpendRow
from dp_pipeline.spec.errors import Damaged

GENESIS: Final = "0" * 64
"""The hash before the first row."""
FORMAT: Final = 3
"""Of what this program writes; the second had no ``state``."""


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


@dataclass(frozen=True)
class Tip:
    """The newest row of a ledger: its number and its hash; 0 before there is one."""

    sequence: int = 0
    hash: str = GENESIS

    def to_text(self) -> str:
        """As the head file holds it."""
        return json.dumps({"sequence": self.sequence, "hash": self.hash}) + "\n"


_COLUMNS = (
    *("sequence", "event", "time", "lineage", "key", "source", "kind", "nano_epsilon"),
    *("what", "facts", "previous", "state"),
)
_SPEND_COLUMNS = ("ordinal", "what", "mechanism", "epsilon", "scale")

Row = Mapping[str, Any]


def digest(row: Row, children: Sequence[Row]) -> str:
    """SHA-256 over the canonical JSON of every column but the hash, and of all child rows."""
    content = {name: row[name] for name in _COLUMNS}
    if row["state"] is None:
        # The second format had no such column, and its hashes no such word.
        del content["state"]
    content["spends"] = [[child[name] for name in _SPEND_COLUMNS] for child in children]
    return hashlib.sha256(canonical(content).encode("ascii")).hexdigest()


def canonical(value: object) -> str:
    """JSON with one spelling: sorted names, no spaces, ASCII."""
    # A planted blob or float must give another hash, not an exception: hence the default.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=repr)


class Chain:
    """Checks rows one after the other, from the first.

    tip       the hash that the next row has to name as the one before
    followed  the hash of the newest row of the ledger itself: what a row that names one of
              nobody's binds, because the hash of that one binds nothing before it

    >>> Chain().expected_sequence
    1
    """

    def __init__(self) -> None:
        self.expected_sequence = 1
        self.tip = self.followed = GENESIS

    def follow(self, row: Row, children: Sequence[Row]) -> None:
        """Take the next row; Damaged if it is not what was once written there."""
        at = f"ledger row {self.expected_sequence}"
        if row["sequence"] != self.expected_sequence:
            raise Damaged(f"{at} is missing: the next row found is {row['sequence']}")
        if row["previous"] != self.tip:
            raise Damaged(f"{at} does not follow the row before it")
        if row["hash"] != digest(row, children):
            raise Damaged(f"{at} ({row['event']}) does not match its hash: it was changed")
        self.expected_sequence += 1
        self.tip = self.followed = row["hash"]

    def pass_over(self, row: Row) -> None:
        """Go on behind a row that another one names: whoever wrote it followed no rule, so it may
        stand anywhere.
        """
        if row["sequence"] >= self.expected_sequence:
            self.expected_sequence = row["sequence"] + 1
            self.tip = row["hash"]
