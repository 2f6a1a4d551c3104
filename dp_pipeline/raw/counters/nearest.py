"""Which centre every row is nearest to, exact to the last digit, for every question that asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.schema.encoding import FloatArray, IntArray

Columns = Sequence[NDArray[Any]]
"""Fixed-point coordinates (rows,) of some rows, in the order of the rule's columns."""

_MOST_ROWS = 1 << 13
_MOST_PRODUCTS = 1 << 18


class Assignment:
    """A rule that is exact (``NearestCentre.require_exact``), ready for block after block of rows.

    >>> rule = NearestCentre(("x",), ((-8,), (8,)), (1,))
    >>> Assignment(rule).labels([np.array([-9, 0, 1])]).tolist()
    [0, 0, 1]
    """

    def __init__(self, rule: NearestCentre) -> None:
        self._weights = np.array(rule.weights, dtype=np.int64)
        self._centres = np.array(rule.centres, dtype=np.int64)
        self._reduced = np.array(rule.reduced_weights, dtype=np.int64)
        self._matrix = self._products() if rule.fits_floats else None

    def blocks(self, rows: int) -> Iterator[slice]:
        """All rows in order, as many at a time as stay in the cache of one core."""
        k, d = self._centres.shape
        # BLAS shares larger products among threads, which costs more than it gains.
        step = max(16, min(_MOST_ROWS, _MOST_PRODUCTS // (k * (d + 1))))
        for start in range(0, rows, step):
            yield slice(start, start + step)

    def labels(self, columns: Columns) -> IntArray:
        """The lowest index of the nearest centre of every row of a block."""
        if self._matrix is None:
            return self._by_differences(columns)
        x = np.ones((len(columns[0]), len(self._matrix)))
        for axis, column in enumerate(columns):
            x[:, axis] = column
        labels: IntArray = (x @ self._matrix).argmin(axis=1)
        return labels

    def differences(self, columns: Columns, labels: IntArray) -> IntArray:
        """weight · (q − c) of every row to the centre of its label, (d, rows)."""
        axes = zip(columns, self._centres.T, self._weights, strict=True)
        return np.stack([(q.astype(np.int64) - c[labels]) * weight for q, c, weight in axes])

    def _products(self) -> FloatArray:
        """(x, 1) times this is |c|² − 2xc, a whole number that floats hold, in any order."""
        squares = (self._reduced * self._centres) ** 2
        return np.vstack([-2.0 * (self._reduced**2 * self._centres).T, squares.sum(axis=1)])

    def _by_differences(self, columns: Columns) -> IntArray:
        """In int64: no |x − c|² is above the largest distance, which was checked."""
        table = np.zeros((len(columns[0]), len(self._centres)), dtype=np.int64)
        for q, c, weight in zip(columns, self._centres.T, self._reduced, strict=True):
            difference = q.astype(np.int64)[:, None] - c
            difference *= weight
            difference *= difference
            table += difference
        labels: IntArray = table.argmin(axis=1)
        return labels
