"""All levels of a regular tree out of its finest one, by summing 2×2×…×2 cells upwards."""

from __future__ import annotations

import numpy as np

from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import BoundaryViolation


def pyramid(finest: IntArray) -> list[IntArray]:
    """Levels 0..h of a grid of shape (2^h,) · d: level i has 2^i cells an axis.

    The last one is ``finest`` itself. One pass over the rows is enough for a
    whole quadtree. BoundaryViolation for a shape that is not such a grid.

    >>> [level.tolist() for level in pyramid(np.array([[1, 0], [2, 4]]))]
    [[[7]], [[1, 0], [2, 4]]]
    """
    cells = finest.shape[0] if finest.ndim else 0
    if cells < 1 or cells & (cells - 1) or set(finest.shape) != {cells}:
        raise BoundaryViolation(f"pyramid: expected 2^h cells on every axis, got {finest.shape}")
    levels = [np.ascontiguousarray(finest)]
    while levels[-1].shape[0] > 1:
        levels.append(_halved(levels[-1]))
    return levels[::-1]


def _halved(grid: IntArray) -> IntArray:
    """Neighbouring pairs of cells summed along every axis."""
    for axis in range(grid.ndim):
        before = (slice(None),) * axis
        grid = grid[(*before, slice(0, None, 2))] + grid[(*before, slice(1, None, 2))]
    return np.ascontiguousarray(grid)
