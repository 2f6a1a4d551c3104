"""Groups: rows that are in one group each, counted group by group in one go.

A table of some thousand rows falls into hundreds of boxes or clusters; a loop over them would take
longer than the counting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import FloatArray, IntArray

MOST_CELLS_AT_ONCE = 1 << 22
"""Groups × levels × labels that are counted together."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups 0..size − 1 of some of the rows.

    members   row numbers, those of each group together
    keys      (members,) the group of each, ascending
    size      groups; any of them may be empty
    """

    members: IntArray
    keys: IntArray
    size: int

    @classmethod
    def of(cls, places: IntArray, size: int) -> Groups:
        """All rows, by the group of each (n,)."""
        order = np.argsort(places, kind="stable")
        return cls(order, places[order], size)

    @classmethod
    def one(cls, rows: int) -> Groups:
        """All rows in one group."""
        return cls(np.arange(rows), np.zeros(rows, dtype=np.int64), 1)

    def parted(self, sides: IntArray, many: int) -> Groups:
        """The same rows in other groups.

        sides   (members,) the new group of each member, in 0..many − 1
        """
        order = np.argsort(sides, kind="stable")
        return Groups(self.members[order], sides[order], many)

    def only(self, kept: NDArray[np.bool_]) -> Groups:
        """Those groups that are kept (size,), numbered anew."""
        stays, numbers = kept[self.keys], np.cumsum(kept) - 1
        left = self.members[stays], numbers[self.keys[stays]]
        return Groups(*left, int(np.count_nonzero(kept)))

    def some(self, cells: int) -> Iterator[Groups]:
        """The same groups, numbered anew, as many at a time as can be counted together.

        cells   that are counted of each group
        """
        at_once = max(1, MOST_CELLS_AT_ONCE // max(1, cells))
        for start in range(0, self.size, at_once):
            low, high = np.searchsorted(self.keys, [start, start + at_once])
            size = min(at_once, self.size - start)
            yield Groups(self.members[low:high], self.keys[low:high] - start, size)

    def total(self, numbers: IntArray | FloatArray) -> FloatArray:
        """The sum of one number a member over each group (size,)."""
        return np.asarray(np.bincount(self.keys, numbers, minlength=self.size))
