"""One contingency table by one key a row: the codes read as digits of one number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.schema.encoding import IntArray

Codes = Mapping[str, NDArray[Any]]
"""Attribute → codes (n,) of an unsigned type."""

ROWS_A_CHUNK = 1 << 16
"""Keys of so many rows stay in the cache of one core."""


def keys_of(codes: Codes, sizes: Mapping[str, int], names: Sequence[str], rows: slice) -> IntArray:
    """Cell of every row of ``rows`` in the table over ``names``, last attribute fastest."""
    keys = codes[names[0]][rows].astype(np.int64)
    for name in names[1:]:
        keys *= sizes[name]
        keys += codes[name][rows]
    return keys


def add_counts(table: IntArray, keys: IntArray) -> None:
    """Add 1 to the cell of every key; ``table`` is flat."""
    # bincount writes a whole new table, which is too much when rows are few beside cells.
    if table.size <= 2 * ROWS_A_CHUNK:
        table += np.bincount(keys, minlength=table.size)
    else:
        np.add.at(table, keys, 1)


def occupied_cells(
    codes: Codes, sizes: Mapping[str, int], names: Sequence[str], *, rows: int
) -> IntArray:
    """Key and count of the cells with rows, int64 (m, 2), ascending by key; one pass and a sort.

    >>> codes = {"a": np.array([0, 1, 1]), "b": np.array([2, 0, 0])}
    >>> occupied_cells(codes, {"a": 2, "b": 3}, ("a", "b"), rows=3).tolist()
    [[2, 1], [3, 2]]
    """
    keys, counts = np.unique(keys_of(codes, sizes, names, slice(0, rows)), return_counts=True)
    return np.stack([keys, counts.astype(np.int64)], axis=1)


def contingency_table(
    codes: Codes, sizes: Mapping[str, int], names: Sequence[str], *, rows: int
) -> IntArray:
    """Exact counts over ``names`` (at least one, no two the same), one axis an attribute.

    >>> codes = {"a": np.array([0, 1, 1]), "b": np.array([2, 0, 0])}
    >>> contingency_table(codes, {"a": 2, "b": 3}, ("a", "b"), rows=3).tolist()
    [[0, 0, 1], [2, 0, 0]]
    """
    shape = tuple(sizes[name] for name in names)
    table = np.zeros(int(np.prod(shape)), dtype=np.int64)
    for start in range(0, rows, ROWS_A_CHUNK):
        add_counts(table, keys_of(codes, sizes, names, slice(start, start + ROWS_A_CHUNK)))
    return table.reshape(shape)
