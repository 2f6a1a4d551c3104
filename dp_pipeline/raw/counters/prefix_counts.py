"""Rows in nodes of a binary tree, by one sorted key a row: no grid, however deep the tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.raw.counters.mixed_radix import ROWS_A_CHUNK
from dp_pipeline.release.bit_tree import AXIS_BITS, BitTree, Prefixes
from dp_pipeline.schema.encoding import COORDINATE_BITS, IntArray

Keys = NDArray[np.signedinteger[Any]]
"""Whole numbers (rows,)."""

_BOXES_A_CHUNK = 1 << 17
_LOW_BITS = 8


def sorted_keys(tree: BitTree, columns: Sequence[NDArray[Any]], *, rows: int) -> Keys:
    """The first ``tree.depth`` bits of every row as one number, in rising order; (rows,).

    int32 where the depth allows it, else int64.
    """
    kind: type[np.signedinteger[Any]] = np.int32 if tree.depth < 31 else np.int64
    keys: Keys = np.zeros(rows, dtype=kind)
    # Bits are spread by two small tables an axis, which stay in the nearest cache.
    low = np.arange(1 << _LOW_BITS)
    high = np.arange(1 << (AXIS_BITS - _LOW_BITS)) << _LOW_BITS
    tables = [
        (_spread(tree.axes, axis, high).astype(kind), _spread(tree.axes, axis, low).astype(kind))
        for axis in range(len(columns))
    ]
    for start in range(0, rows, ROWS_A_CHUNK):
        chunk = slice(start, start + ROWS_A_CHUNK)
        for (of_high, of_low), column in zip(tables, columns, strict=True):
            places = _places(column[chunk])
            keys[chunk] |= of_high[places >> _LOW_BITS] | of_low[places & (len(low) - 1)]
    keys.sort()
    return keys


def prefix_counts(keys: Keys, depth: int, nodes: Prefixes, bits: int) -> IntArray:
    """Rows in every box ``bits`` below each node, (nodes, 2^bits), from keys in rising order."""
    counts = np.zeros((len(nodes), 1 << bits), dtype=np.int64)
    step = max(1, _BOXES_A_CHUNK >> bits)
    for start in range(0, len(nodes), step):
        chunk = slice(start, start + step)
        below = depth - nodes.depths[chunk, None] - bits
        edges = (nodes.bits[chunk, None] << bits) + np.arange((1 << bits) + 1) << below
        places = np.searchsorted(keys, edges.astype(keys.dtype))
        counts[chunk] = np.diff(places, axis=1)
    return counts


def _places(coordinates: NDArray[Any]) -> IntArray:
    """Cells 0..2^17 − 1 of coordinates; the upper edge of the box is in the last one."""
    places = coordinates.astype(np.int64)
    places += 1 << COORDINATE_BITS
    return np.minimum(places, (1 << AXIS_BITS) - 1, out=places)


def _spread(axes: Sequence[int], axis: int, places: IntArray) -> IntArray:
    """What cells of one axis put into the keys of their rows."""
    spread = np.zeros(len(places), dtype=np.int64)
    halvings = [bit for bit, halved in enumerate(axes) if halved == axis]
    for done, bit in enumerate(halvings):
        half = places >> (AXIS_BITS - 1 - done) & 1
        spread |= half << (len(axes) - 1 - bit)
    return spread
