"""What is shown of benchmark rows without noise: their bounds, and a few of them."""

from __future__ import annotations

import numpy as np

from dp_pipeline.gate.subsets import hash_of
from dp_pipeline.raw.counters.nearest import Columns
from dp_pipeline.schema.encoding import COORDINATE_BITS, IntArray


def exact_bounds(columns: Columns) -> IntArray:
    """Smallest and largest coordinate of every column, (2, d); the box where there is no row."""
    edge = 1 << COORDINATE_BITS
    if not len(columns[0]):
        return np.array([[-edge] * len(columns), [edge] * len(columns)], dtype=np.int64)
    return np.array([[q.min() for q in columns], [q.max() for q in columns]], dtype=np.int64)


def first_by_hash(columns: Columns, many: int, salt: int) -> IntArray:
    """The ``many`` rows with the smallest hash, (many, d), zeros where there are fewer.

    Rows of one hash are ordered by their coordinates: position decides nothing.
    """
    found = np.zeros((many, len(columns)), dtype=np.int64)
    hashes = hash_of(columns, salt)
    if len(hashes) > many:
        few = np.flatnonzero(hashes <= np.partition(hashes, many - 1)[many - 1])
        columns, hashes = [q[few] for q in columns], hashes[few]
    order = np.lexsort((*reversed(columns), hashes))[:many]
    for axis, q in enumerate(columns):
        found[: len(order), axis] = q[order]
    return found
