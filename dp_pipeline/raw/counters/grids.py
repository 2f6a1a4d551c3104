"""Counts of a regular grid over fixed-point coordinates, by whole-number arithmetic only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.raw.counters.mixed_radix import ROWS_A_CHUNK
from dp_pipeline.schema.encoding import COORDINATE_BITS, IntArray


def cells_of(coordinates: NDArray[Any], cells: int) -> IntArray:
    """Interval of every coordinate in [−2^16, 2^16]: min(cells − 1, ((q + 2^16)·cells) >> 17).

    >>> cells_of(np.array([-65536, -1, 0, 65536]), 4).tolist()
    [0, 1, 2, 3]
    """
    index = coordinates.astype(np.int64)
    index += 1 << COORDINATE_BITS
    index *= cells
    index >>= COORDINATE_BITS + 1
    # Only the upper edge of the box itself falls outside, by one.
    return np.minimum(index, cells - 1, out=index)


def grid_counts(columns: Sequence[NDArray[Any]], cells: int, *, rows: int) -> IntArray:
    """Rows in each of ``cells`` intervals an axis, empty ones included; shape (cells,) · d."""
    size = cells ** len(columns)
    table = np.zeros(size, dtype=np.int64)
    # About as many rows as cells: bincount writes a whole grid every time.
    step = max(ROWS_A_CHUNK, size)
    for start in range(0, rows, step):
        keys = cells_of(columns[0][start : start + step], cells)
        for column in columns[1:]:
            keys *= cells
            keys += cells_of(column[start : start + step], cells)
        table += np.bincount(keys, minlength=size)
    return table.reshape((cells,) * len(columns))
