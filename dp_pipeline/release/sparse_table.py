"""SparseTable: the cells of a huge contingency table that are large after noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp, log

import numpy as np

from dp_pipeline.schema.encoding import IntArray


@dataclass(frozen=True)
class SparseTable:
    """All cells with a noisy count of at least a threshold.

    attributes   of the table
    shape        its size; the product may be larger than any array
    table        int64 (kept, 2): key and noisy count, ascending by key; a key is the codes read
                 as digits, the last attribute fastest
    threshold    least count that was kept
    scale        Laplace scale in rows, of every cell
    """

    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    table: IntArray
    threshold: int
    scale: Fraction

    @property
    def codes(self) -> IntArray:
        """The cells that were kept, int64 (kept, attributes)."""
        return codes_of_keys(self.table[:, 0], self.shape)

    @property
    def counts(self) -> IntArray:
        """Their noisy counts, int64 (kept,)."""
        return self.table[:, 1]


def codes_of_keys(keys: IntArray, shape: tuple[int, ...]) -> IntArray:
    """Codes (m, axes) of cells with these keys, the last axis fastest.

    >>> codes_of_keys(np.array([0, 5]), (2, 3)).tolist()
    [[0, 0], [1, 2]]
    """
    codes = np.empty((len(keys), len(shape)), dtype=np.int64)
    for axis in range(len(shape) - 1, -1, -1):
        keys, codes[:, axis] = np.divmod(keys, shape[axis])
    return codes


def threshold_for(cells: int, scale: Fraction, *, empty_cells: int) -> int:
    """The least threshold that at most ``empty_cells`` of as many empty cells reach, on average.

    Whole, at least 1: a count of 0 is never kept. With q = e^(−1/scale) it is the least one
    with cells · q^threshold / (1 + q) ≤ empty_cells.

    >>> threshold_for(65536, Fraction(5), empty_cells=100)
    30
    """
    expected = cells / (empty_cells * (1 + exp(-1 / scale)))
    # Rounded up a hair, so that a float that is a little low does not pass one cell more.
    return max(1, int(np.ceil(float(scale) * log(max(1.0, expected)) * (1 + 1e-12))))
