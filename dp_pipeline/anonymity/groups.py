"""Groups of rows that are counted together, since a loop over hundreds of groups would take longer
than the counting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import FloatArray, IntArray

MAX_CELLS_AT_ONCE = 1 << 22
"""Most groups × levels × labels that are counted together."""


@dataclass(frozen=True, eq=False)
class Groups:
    """A division of some rows into groups 0..size − 1.

    members   positions of rows, those of each group together
    keys      (members,) group of each member, ascending
    size      number of groups; any of them may be empty
    """

    members: IntArray
    keys: IntArray
    size: int

    @classmethod
    def of(cls, group_of_row: IntArray, size: int) -> Groups:
        """Return the groups of all rows, by the group of each (n,)."""
        return cls.single(len(group_of_row)).regroup(group_of_row, size)

    @classmethod
    def single(cls, rows: int) -> Groups:
        return cls(np.arange(rows), np.zeros(rows, dtype=np.int64), 1)

    def regroup(self, keys: IntArray, size: int) -> Groups:
        """Return the same rows divided into other groups.

        keys   (members,) the new group of each member, in 0..size − 1
        """
        # Short integers are sorted in time that grows with their number alone.
        order = np.argsort(keys.astype(np.min_scalar_type(max(0, size - 1))), kind="stable")
        return Groups(self.members[order], keys[order], size)

    def select(self, mask: NDArray[np.bool_]) -> Groups:
        """Return the groups for which the mask is true (size,), numbered anew."""
        is_selected, numbers = mask[self.keys], np.cumsum(mask) - 1
        keys = numbers[self.keys[is_selected]]
        return Groups(self.members[is_selected], keys, int(np.count_nonzero(mask)))

    def parts(self, cells: int) -> Iterator[Groups]:
        """Yield the groups in portions that can be counted together, each numbered anew.

        cells   cells that are counted for each group
        """
        at_once = max(1, MAX_CELLS_AT_ONCE // max(1, cells))
        for start in range(0, self.size, at_once):
            low, high = np.searchsorted(self.keys, [start, start + at_once])
            size = min(at_once, self.size - start)
            yield Groups(self.members[low:high], self.keys[low:high] - start, size)

    def total(self, numbers: IntArray | FloatArray) -> FloatArray:
        """Return the sum over each group of one number for each member (size,)."""
        return np.asarray(np.bincount(self.keys, numbers, minlength=self.size))
