"""The hash chain: every row carries the hash of the row before it.

A chain finds a row edited, removed from the middle or slipped in. It cannot
find a whole ledger rewritten from some row on, nor rows cut off at the end:
that is what the head outside is for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from dp_pipeline.ledger.tables import GENESIS, entries, spends
from dp_pipeline.schema.errors import Damaged

_COLUMNS = tuple(c.name for c in entries.columns if c.name != "hash")
_SPEND_COLUMNS = tuple(c.name for c in spends.columns if c.name != "entry")

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
