"""RareRows: the rows on one side of each of many bits, which is all that classes are made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.schema.encoding import IntArray


@dataclass(frozen=True, eq=False)
class RareRows:
    """Numbers of the rows on the rarer side of every bit; in a tie where it is true.

    A bit and its contrary make the same classes, so which side is meant does not matter.

    rows   one array of row numbers a bit, ascending

    >>> both = RareRows.of(np.array([[1, 0], [1, 1], [0, 0]], dtype=bool))
    >>> [rows.tolist() for rows in both.rows]
    [[2], [1]]
    """

    rows: tuple[IntArray, ...]

    @classmethod
    def of(cls, answers: NDArray[np.bool_]) -> RareRows:
        """From the answers of all rows to all bits (n, bits)."""
        return cls(tuple(_rarer(answers[:, bit]) for bit in range(answers.shape[1])))

    def __len__(self) -> int:
        return len(self.rows)


def _rarer(answers: NDArray[np.bool_]) -> IntArray:
    many = int(np.count_nonzero(answers))
    return np.flatnonzero(answers if 2 * many <= len(answers) else ~answers)
