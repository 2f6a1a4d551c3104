"""The synthetic rows of a release, counted over some of their attributes."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.results.clusters import Tables

MOST_CELLS = 10**6
"""Cells of a table that is computed with its empty cells: larger ones take too much time."""


@dataclass(frozen=True)
class ReleasedRows:
    """The synthetic rows of a release by the codes of their levels, and what each row weighs.

    codes     attribute → codes of the rows: int (rows,)
    sizes     attribute → number of its levels
    weights   what each row adds to a measured table: float (rows,); None: 1
    """

    codes: Mapping[str, IntArray]
    sizes: Mapping[str, int]
    weights: FloatArray | None = None

    def __len__(self) -> int:
        return len(next(iter(self.codes.values())))

    def weigh(self, values: FloatArray) -> FloatArray:
        return values if self.weights is None else values * self.weights

    @property
    def total(self) -> float:
        """The sum of the weights of all rows."""
        return float(len(self) if self.weights is None else self.weights.sum())

    def sums(self, cells: IntArray, many: int) -> np.ndarray:
        """Return the sum of the weights of the rows in each of ``many`` cells: (many,).

        cells   of every row, in one table or several: int (rows,) or (tables, rows)
        """
        if self.weights is None:
            return np.bincount(cells.ravel(), minlength=many)
        weights = np.broadcast_to(self.weights, cells.shape)
        return np.bincount(cells.ravel(), weights.ravel(), minlength=many)

    def means_in(self, cells: IntArray, many: int, values: FloatArray) -> FloatArray:
        """Return the weighted mean of a value over the rows of each cell; 0 without rows.

        cells    of the rows: int (rows,)
        values   of the rows: float (rows,)
        """
        sums = np.bincount(cells, self.weigh(values), minlength=many)
        weights = self.sums(cells, many)
        return np.asarray(np.divide(sums, weights, out=np.zeros(len(sums)), where=weights > 0))

    def cells(self, attributes: Names) -> tuple[IntArray, tuple[int, ...]]:
        """Return the index of every row's cell (rows,) in a table of attributes, and its shape."""
        shape = tuple(self.sizes[name] for name in attributes)
        cells = np.zeros(len(self), dtype=np.int64)
        for name, size in zip(attributes, shape, strict=True):
            cells = cells * size + self.codes[name]
        return cells, shape

    def shares(self, *attributes: str) -> FloatArray:
        """Return the weighted share of the rows in every cell, in the shape of the table."""
        cells, shape = self.cells(attributes)
        counts = self.sums(cells, prod(shape)).reshape(shape)
        return np.asarray(counts / max(1, self.total))

    def means(self, values: FloatArray, attributes: Names) -> FloatArray:
        """Return the weighted mean of a value (rows,) in every cell of a table of attributes, in
        the table's shape; 0 without rows."""
        cells, shape = self.cells(attributes)
        return self.means_in(cells, prod(shape), values).reshape(shape)

    def means_of_cells(self, values: FloatArray, attributes: Names) -> tuple[FloatArray, IntArray]:
        """Return the weighted mean of a value in every cell (cells,), and each row's cell (rows,).

        Empty cells, whose mean is 0, are left out where there are many."""
        cells, many = np.zeros(len(self), dtype=np.int64), 1
        for name in attributes:
            cells, many = cells * self.sizes[name] + self.codes[name], many * self.sizes[name]
            if many > MOST_CELLS:
                filled, cells = np.unique(cells, return_inverse=True)
                many = len(filled)
        return self.means_in(cells, many, values), cells


def codes_and_labels(tables: Tables) -> tuple[dict[str, IntArray], dict[str, list[str]]]:
    """Return attribute → codes of the rows, int (rows,), and attribute → texts of its levels."""
    codes = {name: np.asarray(column, np.int64) for name, column in tables["codes"].items()}
    labels: dict[str, list[str]] = {name: [] for name in codes}
    marginals = tables["marginals"]
    for name, level in zip(marginals["attribute"], marginals["level"].tolist(), strict=True):
        labels[name].append(level)
    return codes, labels
