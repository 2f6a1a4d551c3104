"""ReleasedRows: the synthetic rows of a release, counted over some of their attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray, Names


@dataclass(frozen=True)
class ReleasedRows:
    """The released rows, which stand for the fitted distribution.

    codes   attribute → codes of the rows: int (rows,)
    sizes   attribute → number of its levels
    """

    codes: Mapping[str, IntArray]
    sizes: Mapping[str, int]

    def __len__(self) -> int:
        return len(next(iter(self.codes.values())))

    def cells(self, attributes: Names) -> tuple[IntArray, tuple[int, ...]]:
        """Return the cell of every row over some attributes, and the shape of their table."""
        shape = tuple(self.sizes[name] for name in attributes)
        cells = np.zeros(len(self), dtype=np.int64)
        for name, size in zip(attributes, shape, strict=True):
            cells = cells * size + self.codes[name]
        return cells, shape

    def shares(self, *attributes: str) -> FloatArray:
        """Return the share of the rows in every cell, of the shape of the table."""
        cells, shape = self.cells(attributes)
        counts = np.bincount(cells, minlength=prod(shape)).reshape(shape)
        return np.asarray(counts / max(1, len(self)))

    def means(self, values: FloatArray, attributes: Names) -> FloatArray:
        """Return the mean of a value for each row in every cell, of the shape of the table; 0 where
        there is no row.
        """
        cells, shape = self.cells(attributes)
        return means_of_cells(values, cells, prod(shape)).reshape(shape)

    def means_of_filled_cells(
        self, values: FloatArray, attributes: Names
    ) -> tuple[FloatArray, IntArray]:
        """Return the mean of a value for each row, and the number of rows, in every cell that has
        rows: (cells,) each.
        """
        cells = np.zeros(len(self), dtype=np.int64)
        for name in attributes:
            cells = np.unique(cells * self.sizes[name] + self.codes[name], return_inverse=True)[1]
        counts = np.bincount(cells)
        return means_of_cells(values, cells, len(counts)), counts


def means_of_cells(values: FloatArray, cells: IntArray, many: int) -> FloatArray:
    """Return the mean of a value for each row in each of ``many`` cells; 0 where there is no row.

    cells   of the rows: int (rows,)
    """
    counts = np.bincount(cells, minlength=many)
    return np.asarray(np.bincount(cells, values, minlength=many) / np.maximum(counts, 1))
