"""Groups of rows that are counted together, without a loop over the groups."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import FloatArray, IntArray

MAX_CELLS_AT_ONCE = 1 << 22  # groups × levels × labels that are counted in one array


@dataclass(frozen=True, eq=False)
class Groups:
    """A division of some rows into groups numbered 0..size − 1.

    members   (m,) positions of the rows in a table, ordered by their group
    keys      (m,) number of the group of each member, ascending
    size      number of groups, empty ones included
    """

    members: IntArray
    keys: IntArray
    size: int

    @classmethod
    def of(cls, group_of_row: IntArray, size: int) -> "Groups":
        """Return the groups of n rows, from the number of each row's group, 0..size − 1 (n,)."""
        return cls.single(len(group_of_row)).regroup(group_of_row, size)

    @classmethod
    def single(cls, rows: int) -> Self:
        """Return one group of all rows, of which there are ``rows``."""
        return cls(np.arange(rows), np.zeros(rows, dtype=np.int64), 1)

    def regroup(self, keys: IntArray, size: int) -> "Groups":
        """Return the same members divided into ``size`` new groups.

        keys   (members,) number of the new group of each member
        """
        # Short integers are sorted in time that grows with their number alone.
        order = np.argsort(keys.astype(np.min_scalar_type(max(0, size - 1))), kind="stable")
        return Groups(self.members[order], keys[order], size)

    def select(self, mask: NDArray[np.bool_]) -> "Groups":
        """Return the groups for which a mask (size,) is true, renumbered from 0."""
        is_selected, numbers = mask[self.keys], np.cumsum(mask) - 1
        keys = numbers[self.keys[is_selected]]
        return Groups(self.members[is_selected], keys, int(np.count_nonzero(mask)))

    def parts(self, cells: int) -> "Iterator[Groups]":
        """Yield runs of consecutive groups, renumbered from 0 in each run, with at most
        ``MAX_CELLS_AT_ONCE`` cells or one group.

        cells   number of cells that are counted for each group
        """
        at_once = max(1, MAX_CELLS_AT_ONCE // max(1, cells))
        for start in range(0, self.size, at_once):
            low, high = np.searchsorted(self.keys, [start, start + at_once])
            size = min(at_once, self.size - start)
            yield Groups(self.members[low:high], self.keys[low:high] - start, size)

    def sum_by_group(self, numbers: IntArray | FloatArray) -> FloatArray:
        """Return the sum of numbers (members,) over the members of each group (size,)."""
        return np.asarray(np.bincount(self.keys, numbers, minlength=self.size))

    def sum_by_level(
        self, positions: IntArray, numbers: IntArray | FloatArray, levels: int
    ) -> FloatArray:
        """Return the sum of numbers over those members of each group that have each level (size,
        levels).

        positions   (n, d) level of each row of the table in each of d columns, where the levels of
                    all columns are numbered 0..levels − 1 together
        numbers     (n,) one number for each row of the table
        """
        cells = (self.keys[:, None] * levels + positions[self.members]).ravel()
        weights = np.repeat(numbers[self.members], positions.shape[1])
        sums = np.bincount(cells, weights, minlength=self.size * levels)
        return np.asarray(sums.reshape(self.size, levels))
