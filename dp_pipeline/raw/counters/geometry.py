"""Exact counts and sums of fixed-point coordinates, by clusters, distances, grids and binary trees.

Rows in nodes of a tree are counted by one sorted key a row, without a grid, for any depth.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import COORDINATE_BITS, IntArray
from dp_pipeline.gate.rules import NearestCentre, largest_distance, subset_of
from dp_pipeline.raw.counters.tables import ROWS_A_CHUNK
from dp_pipeline.results.trees import AXIS_BITS, BitTree, Prefixes

Columns = Sequence[NDArray[Any]]  # Fixed-point coordinates (rows,), in the order of attributes
_MAX_ROWS = 1 << 13
_MAX_PRODUCTS = 1 << 18


class Assignment:
    """The assignment of rows to the nearest of k centres, by exact weighted distances.

    >>> rule = NearestCentre(("x",), ((-8,), (8,)), (1,))
    >>> Assignment(rule).labels([np.array([-9, 0, 1])]).tolist()
    [0, 0, 1]
    """

    def __init__(self, rule: NearestCentre) -> None:
        self._weights = np.array(rule.weights, dtype=np.int64)
        self._centres = np.array(rule.centres, dtype=np.int64)
        # It maps (x, 1) to |c|² − 2xc of each centre c, exactly, as distances are < MAX_DISTANCE.
        squares = (self._weights * self._centres) ** 2
        linear = -2.0 * (self._weights**2 * self._centres).T
        self._matrix = np.vstack([linear, squares.sum(axis=1)])

    def blocks(self, columns: Columns, rows: int) -> Iterator[tuple[slice, Columns, IntArray]]:
        """Yield all rows in order, in blocks that fit in the cache of one core.

        A block is a slice of the rows, their coordinates, and their ``labels``."""
        k, d = self._centres.shape
        # BLAS divides larger products among threads, which takes longer.
        step = max(16, min(_MAX_ROWS, _MAX_PRODUCTS // (k * (d + 1))))
        for start in range(0, rows, step):
            block = slice(start, start + step)
            coordinates = [column[block] for column in columns]
            yield block, coordinates, self.labels(coordinates)

    def labels(self, columns: Columns) -> IntArray:
        """Return the index (rows,) of each row's nearest centre, the first of equally near ones."""
        x = np.ones((len(columns[0]), len(self._matrix)))
        for axis, column in enumerate(columns):
            x[:, axis] = column
        return np.asarray((x @ self._matrix).argmin(axis=1))

    def differences(self, columns: Columns, labels: IntArray) -> IntArray:
        """Return weight · (q − c) of each coordinate q and its label's centre c, (d, rows)."""
        axes = zip(columns, self._centres.T, self._weights, strict=True)
        return np.stack([(q.astype(np.int64) - c[labels]) * weight for q, c, weight in axes])


_ROWS_TO_SORT = 1 << 18


def sums_by_centre(
    rules: Sequence[NearestCentre], columns: Columns, *, rows: int, salt: int
) -> IntArray:
    """Return row count and coordinate totals by subset and nearest centre, (subsets, k, 1 + d).

    rules   one for each subset; rows are in subsets by a hash of their d coordinates and ``salt``
    """
    sums = np.zeros((len(rules), len(rules[0].centres), 1 + len(columns)), dtype=np.int64)
    if len(rules) == 1:
        _add_sums(sums[0], rules[0], columns, rows=rows)
        return sums
    for start in range(0, rows, _ROWS_TO_SORT):
        part = [column[start : start + _ROWS_TO_SORT] for column in columns]
        _add_subsets(sums, rules, part, salt=salt)
    return sums


def _add_subsets(
    sums: IntArray, rules: Sequence[NearestCentre], columns: Columns, *, salt: int
) -> None:
    subsets = subset_of(columns, salt, len(rules))
    # Sorted by subset, so that each rule reads only its own rows; small integers by radix.
    order = np.argsort(subsets.astype(np.min_scalar_type(len(rules))), kind="stable")
    columns = [column[order] for column in columns]
    ends = np.cumsum(np.bincount(subsets, minlength=len(rules))).tolist()
    for rule, into, begin, end in zip(rules, sums, [0, *ends[:-1]], ends, strict=True):
        _add_sums(into, rule, [column[begin:end] for column in columns], rows=end - begin)


def _add_sums(sums: IntArray, rule: NearestCentre, columns: Columns, *, rows: int) -> None:
    k = len(rule.centres)
    for _, part, labels in Assignment(rule).blocks(columns, rows):
        sums[:, 0] += np.bincount(labels, minlength=k)
        for axis, column in enumerate(part):
            sums[:, 1 + axis] += _totals(labels, column, k)


def residual_totals(
    rule: NearestCentre, radii: Sequence[int], columns: Columns, *, rows: int
) -> IntArray:
    """Return the total of clipped differences from the nearest centre, by centre and axis, (k, d).

    A row's weighted difference y counts as y·2^COORDINATE_BITS / max(Σ|y|, radius of its cluster),
    rounded towards 0.
    """
    assignment, k = Assignment(rule), len(rule.centres)
    least = np.array(radii, dtype=np.int64)
    sums = np.zeros((k, len(columns)), dtype=np.int64)
    for _, part, labels in assignment.blocks(columns, rows):
        y = assignment.differences(part, labels)
        lengths = np.maximum(np.abs(y).sum(axis=0), least[labels])
        clipped = np.sign(y) * ((np.abs(y) << COORDINATE_BITS) // lengths)
        for axis, values in enumerate(clipped):
            sums[:, axis] += _totals(labels, values, k)
    return sums


def levels_by_centre(
    rule: NearestCentre, codes: NDArray[Any], levels: int, columns: Columns, *, rows: int
) -> IntArray:
    """Return the number of rows of each code in each centre's cluster, (levels, k).

    codes   (rows,), below ``levels``
    """
    k = len(rule.centres)
    table = np.zeros(levels * k, dtype=np.int64)
    for block, _, labels in Assignment(rule).blocks(columns, rows):
        np.add.at(table, codes[block].astype(np.int64) * k + labels, 1)
    return table.reshape(levels, k)


def _totals(labels: IntArray, values: NDArray[Any], k: int) -> IntArray:
    """Return each label's sum (k,), exact for values up to 2^16 of fewer than 2^37 rows."""
    return np.bincount(labels, weights=values, minlength=k).astype(np.int64)


def exact_distance_total(
    rule: NearestCentre, columns: Columns, *, rows: int, clip: int, shift: int
) -> int:
    """Return the sum over rows of min(D, clip) >> shift.

    D is the squared distance to the nearest centre, the least Σ (weight · (q − c))²."""
    assignment = Assignment(rule)
    most = min(clip, largest_distance(rule.weights))
    total = 0
    for _, part, labels in assignment.blocks(columns, rows):
        exact = (assignment.differences(part, labels) ** 2).sum(axis=0)
        total += int((np.minimum(exact, most) >> shift).sum())
    return total


def cells_of(coordinates: NDArray[Any], cells: int) -> IntArray:
    """Return the cell of every coordinate q of an axis, min(cells − 1, ((q + 2^16)·cells) >> 17).

    >>> cells_of(np.array([-65536, -1, 0, 65536]), 4).tolist()
    [0, 1, 2, 3]
    """
    index = coordinates.astype(np.int64)
    index += 1 << COORDINATE_BITS
    index *= cells
    index >>= COORDINATE_BITS + 1
    # Only the upper edge of the box itself would be outside, by one.
    return np.minimum(index, cells - 1, out=index)


def grid_counts(columns: Sequence[NDArray[Any]], cells: int, *, rows: int) -> IntArray:
    """Return the number of rows in each cell of a grid over the box, one axis of ``cells`` cells
    for each column.
    """
    size = cells ** len(columns)
    table = np.zeros(size, dtype=np.int64)
    # At least as many rows as cells, since bincount writes a whole grid every time.
    step = max(ROWS_A_CHUNK, size)
    for start in range(0, rows, step):
        keys = cells_of(columns[0][start : start + step], cells)
        for column in columns[1:]:
            keys *= cells
            keys += cells_of(column[start : start + step], cells)
        table += np.bincount(keys, minlength=size)
    return table.reshape((cells,) * len(columns))


Keys = NDArray[np.signedinteger[Any]]  # Whole numbers (rows,)
_BOXES_A_CHUNK = 1 << 17
_LOW_BITS = 8


def sorted_keys(tree: BitTree, columns: Sequence[NDArray[Any]], *, rows: int) -> Keys:
    """Return the first ``tree.depth`` bits of every row's path as an integer, sorted, (rows,).

    Integers are int32 where they fit, else int64."""
    kind: type[np.signedinteger[Any]] = np.int32 if tree.depth < 31 else np.int64
    keys: Keys = np.zeros(rows, dtype=kind)
    # Two small tables an axis, which stay in the cache, spread the bits.
    low = np.arange(1 << _LOW_BITS)
    high = np.arange(1 << (AXIS_BITS - _LOW_BITS)) << _LOW_BITS
    tables = [
        (_spread(tree.axes, axis, high).astype(kind), _spread(tree.axes, axis, low).astype(kind))
        for axis in range(len(columns))
    ]
    for start in range(0, rows, ROWS_A_CHUNK):
        chunk = slice(start, start + ROWS_A_CHUNK)
        for (of_high, of_low), column in zip(tables, columns, strict=True):
            places = cells_of(column[chunk], 1 << AXIS_BITS)
            keys[chunk] |= of_high[places >> _LOW_BITS] | of_low[places & (len(low) - 1)]
    keys.sort()
    return keys


def prefix_counts(keys: Keys, depth: int, nodes: Prefixes, bits: int) -> IntArray:
    """Return the number of rows in every box ``bits`` levels below each node, (nodes, 2^bits).

    keys   ``sorted_keys`` of a tree of this depth
    """
    counts = np.zeros((len(nodes), 1 << bits), dtype=np.int64)
    step = max(1, _BOXES_A_CHUNK >> bits)
    for start in range(0, len(nodes), step):
        chunk = slice(start, start + step)
        below = depth - nodes.depths[chunk, None] - bits
        edges = (nodes.bits[chunk, None] << bits) + np.arange((1 << bits) + 1) << below
        places = np.searchsorted(keys, edges.astype(keys.dtype))
        counts[chunk] = np.diff(places, axis=1)
    return counts


def _spread(axes: Sequence[int], axis: int, places: IntArray) -> IntArray:
    """Return the bits (n,) that each of these cells of one axis contributes to a row's key."""
    spread = np.zeros(len(places), dtype=np.int64)
    halvings = [bit for bit, halved in enumerate(axes) if halved == axis]
    for done, bit in enumerate(halvings):
        half = places >> (AXIS_BITS - 1 - done) & 1
        spread |= half << (len(axes) - 1 - bit)
    return spread
