"""An entry: one row of the ledger, read back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_pipeline.ledger.charge import SpendRow
from dp_pipeline.schema.errors import Damaged

_EXACT = re.compile(r"[0-9]+(/[0-9]+)?")


@dataclass(frozen=True)
class Entry:
    """One row, in the order of writing.

    sequence      1, 2, 3, …
    event         "account", "raise", "source", "retired", "reserve", "interrupted", "settled" or
                  "dead"; of the ledger itself "upgraded", "restated", "quarantined"
    time          UTC, ISO 8601
    lineage       whose account; empty on rows about the ledger itself
    key           release key; None on rows about the account alone
    source        the source claimed; None on all other rows
    kind          "dp" or "not-dp" of the release; None on rows about the account alone
    nano_epsilon  what this row charges, nano-ρ where the account counts in ρ; 0 on every row
                  but a reserve row, and one that names a row that is not the ledger's and looks
                  like a charge
    what          the words of the release
    facts         everything else, all text
    previous      hash of the row before
    hash          hash over all of these and the spends
    state         digest of what all rows add up to with this one; None on a row of the second
                  format
    spends        the draws of a settled release
    """

    sequence: int
    event: str
    time: str
    lineage: str
    key: str | None
    source: str | None
    kind: str | None
    nano_epsilon: int
    what: str
    facts: Mapping[str, str]
    previous: str
    hash: str
    state: str | None
    spends: tuple[SpendRow, ...]

    @property
    def is_charge(self) -> bool:
        """Whether the account paid for it, be it 0: a release, or a row that only looks like one
        and that the ledger goes on beside.
        """
        return self.kind is not None and self.event in ("reserve", "quarantined")


def entry_from(row: Mapping[str, Any], spends: Sequence[Mapping[str, Any]]) -> Entry:
    """A stored row as a value; Damaged names the row if it does not parse."""
    try:
        facts = json.loads(row["facts"])
        return Entry(**{**row, "facts": facts, "spends": tuple(map(_spend, spends))})
    except (ValueError, TypeError, ZeroDivisionError, RecursionError):
        raise Damaged(f"ledger row {row['sequence']}: its text cannot be parsed") from None


def _spend(row: Mapping[str, Any]) -> SpendRow:
    epsilon, scale = _fraction(row["epsilon"]), _fraction(row["scale"])
    return SpendRow(row["what"], row["mechanism"], epsilon, scale)


def _fraction(text: object) -> Fraction:
    if not isinstance(text, str):
        raise TypeError("an exact number is stored as text")
    # "1e999999999" would be computed for hours.
    if _EXACT.fullmatch(text) is None:
        raise ValueError("an exact number is stored as one or two whole numbers")
    return Fraction(text)
