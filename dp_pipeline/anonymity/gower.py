"""Gower: how far coded rows are from one another, as whole numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.box_growth import level_starts
from dp_pipeline.anonymity.coded_rows import Column
from dp_pipeline.schema.encoding import FloatArray, IntArray

_UNIT = 1024
"""What two rows are apart in one column at most. Sums stay far below 2^24: float32 is exact."""

OUT_OF_REACH = 1 << 20
"""Farther in one column than two rows can be."""

_ROWS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class Gower:
    """The sum over columns of a distance in 0..1024: for ordered columns the steps between two
    values in proportion to all of its steps, for others 1024 where they differ. A missing value
    is 1024 from every other.

    apart    one matrix a column, the distance of each two of its levels
    starts   where the levels of each column start when all lie in one line, and its end (d + 1,)

    Whole numbers: a row's nearest centre does not depend on the rows beside it.

    Source: Gower, "A general coefficient of similarity and some of its properties" (Biometrics
    1971).
    """

    apart: tuple[FloatArray, ...]
    starts: IntArray

    @classmethod
    def of(cls, columns: tuple[Column, ...]) -> Gower:
        """The distance over these columns."""
        return cls(tuple(_between_levels(column) for column in columns), level_starts(columns))

    def to_one(self, codes: NDArray[np.integer], centre: IntArray) -> IntArray:
        """Distances (n,) of codes (n, d) from one row of codes (d,)."""
        return np.asarray(self.from_centres(centre[None])[self._line(codes), 0].sum(axis=1))

    def from_centres(self, centres: IntArray) -> NDArray[np.float32]:
        """Distance of every level from centres (m, d): what ``nearest`` adds up, (levels, m)."""
        parts = [apart[:, centres[:, at]] for at, apart in enumerate(self.apart)]
        return np.concatenate([np.zeros((0, len(centres))), *parts], dtype=np.float32)

    def nearest(self, codes: NDArray[np.integer], by_level: NDArray[np.float32]) -> IntArray:
        """The number of the nearest centre, of equally near ones the first, for codes (n, d)."""
        found = np.zeros(len(codes), dtype=np.int64)
        for first in range(0, len(codes), _ROWS_AT_ONCE):
            some = slice(first, first + _ROWS_AT_ONCE)
            found[some] = np.argmin(self._one_hot(codes[some]) @ by_level, axis=1)
        return found

    def middle(self, codes: NDArray[np.integer], weights: IntArray) -> IntArray:
        """The codes (d,) of least total distance from codes (n, d), each counted ``weights``
        times: medians of ordered columns, the most frequent levels of others; the first of ties.
        """
        each = np.repeat(weights, codes.shape[1])
        counts = np.bincount(self._line(codes).ravel(), each, minlength=self.starts[-1])
        best = [
            np.argmin(apart @ counts[start : start + len(apart)])
            for apart, start in zip(self.apart, self.starts[:-1], strict=True)
        ]
        return np.array(best, dtype=np.int64)

    def _line(self, codes: NDArray[np.integer]) -> IntArray:
        """Places of codes (n, d) in the line of all levels."""
        return np.asarray(codes + self.starts[:-1], dtype=np.int64)

    def _one_hot(self, codes: NDArray[np.integer]) -> NDArray[np.float32]:
        bits = np.zeros((len(codes), self.starts[-1]), dtype=np.float32)
        np.put_along_axis(bits, self._line(codes), 1.0, axis=1)
        return bits


def _between_levels(column: Column) -> FloatArray:
    codes = np.arange(column.size)
    apart = np.where(codes[:, None] == codes, 0.0, _UNIT)
    if column.ordered and column.values > 1:
        steps = np.abs(codes[:, None] - codes)[: column.values, : column.values]
        scaled = np.ceil(steps * (_UNIT / (column.values - 1)))
        apart[: column.values, : column.values] = np.minimum(scaled, _UNIT)
    return apart
