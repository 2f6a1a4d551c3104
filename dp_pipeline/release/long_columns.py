"""LongColumns: the columns of a table of many rows, made or read some rows at a time.

Texts and objects of all rows are many times what they are made of: codes, or a file. A table of at
most a batch of rows is a plain dict of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

Columns = Mapping[str, np.ndarray]
"""Column name → values (rows,)."""

ROWS_A_BATCH = 1 << 20
"""Rows of a table that are in memory at a time, where it has more."""

Batches = Callable[[], Iterator[np.ndarray]]
"""A column from its beginning, in arrays of ``ROWS_A_BATCH`` rows and a last one of the rest."""


class LongColumns(Mapping[str, np.ndarray]):
    """A mapping like any other, where each look at a whole column makes it anew.

    columns   name → its batches

    >>> long = LongColumns({"a": lambda: iter([np.array([1, 2]), np.array([3])])})
    >>> long["a"].tolist(), [part.tolist() for part in batches_of(long, "a")]
    ([1, 2, 3], [[1, 2], [3]])
    """

    def __init__(self, columns: Mapping[str, Batches]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> np.ndarray:
        return np.concatenate(list(self._columns[name]()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def batches(self, name: str) -> Iterator[np.ndarray]:
        """The column, some rows at a time."""
        return self._columns[name]()


def batches_of(table: Columns, name: str) -> Iterator[np.ndarray]:
    """A column of any table, ``ROWS_A_BATCH`` rows at a time; one of none where there is no row."""
    if isinstance(table, LongColumns):
        yield from table.batches(name)
        return
    values = table[name]
    for start in range(0, max(1, len(values)), ROWS_A_BATCH):
        yield values[start : start + ROWS_A_BATCH]


def rows_in_batches(table: Columns) -> Iterator[dict[str, np.ndarray]]:
    """The rows of any table, so many at a time; columns without rows where there are none."""
    if not len(table):
        yield {}
    columns = [batches_of(table, name) for name in table]
    for values in zip(*columns, strict=True):
        yield dict(zip(table, values, strict=True))
