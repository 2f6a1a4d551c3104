"""Which subset a row belongs to: a hash of the row itself, never of its position.

A row's subset depends on nothing but the row and a public salt, so adding a row
moves no other row. Splitting by position would: deleting the first of 1000 rows
then changes every subset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.schema.encoding import IntArray

_GOLDEN = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def subset_of(columns: Sequence[NDArray[Any]], salt: int, subsets: int) -> IntArray:
    """Subset 0..subsets − 1 of every row, from its coordinates and the salt alone.

    columns   fixed-point coordinates (rows,), in the order of the rule's
    salt      public, 0 … 2^63 − 1

    >>> subset_of([np.array([5, 5, 6]), np.array([1, 1, 1])], 7, 1000).tolist()
    [113, 113, 133]
    """
    return (hash_of(columns, salt) % np.uint64(subsets)).astype(np.int64)


def hash_of(columns: Sequence[NDArray[Any]], salt: int) -> NDArray[np.uint64]:
    """64 bits of every row, (rows,), from its coordinates and the salt alone.

    The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), once a column.
    """
    state = np.full(len(columns[0]), salt, dtype=np.uint64)
    for column in columns:
        state += column.astype(np.int64).view(np.uint64)
        state += np.uint64(_GOLDEN)
        for shift, factor in _MIX:
            state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
        state ^= state >> np.uint64(31)
    return state
