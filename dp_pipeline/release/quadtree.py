"""Nodes of a 2^d-way tree over the declared box, and the synopsis that noisy leaves make.

A node of height h is one cell of the grid with 2^h equal intervals an axis; the
root is (0, 0). A synopsis is a set of disjoint boxes with noisy weights: any k,
any picture and any count come from it without a further look at the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_pipeline.schema.encoding import Coordinate, FloatArray, IntArray


@dataclass(frozen=True)
class Nodes:
    """Tree nodes.

    heights   int64 (m,): 0 is the whole box
    cells     int64 (m,): index, last axis fastest, in the grid of 2^height intervals an axis
    """

    heights: IntArray
    cells: IntArray

    def __len__(self) -> int:
        return len(self.cells)

    @classmethod
    def root(cls) -> Nodes:
        """The whole box."""
        return cls(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))

    @classmethod
    def joined(cls, parts: list[Nodes]) -> Nodes:
        """All nodes of ``parts``, in their order."""
        return cls(
            np.concatenate([part.heights for part in parts]),
            np.concatenate([part.cells for part in parts]),
        )

    def where(self, mask: np.ndarray) -> Nodes:
        """The nodes that a boolean mask (m,) selects."""
        return Nodes(self.heights[mask], self.cells[mask])

    def positions(self, dimensions: int) -> IntArray:
        """Grid position of every node, (m, d)."""
        result = np.empty((len(self), dimensions), dtype=np.int64)
        rest = self.cells.copy()
        for axis in reversed(range(dimensions)):
            result[:, axis] = rest & ((1 << self.heights) - 1)
            rest >>= self.heights
        return result

    def children(self, dimensions: int) -> Nodes:
        """All 2^d children of every node; child j takes the lower half of axis t where bit t
        of j is 0.
        """
        corners = np.arange(1 << dimensions)[:, None] >> np.arange(dimensions) & 1
        doubled = 2 * self.positions(dimensions)[:, None, :] + corners[None, :, :]
        heights = np.repeat(self.heights + 1, 1 << dimensions)
        cells = np.zeros(len(heights), dtype=np.int64)
        for axis, position in enumerate(doubled.reshape(-1, dimensions).T):
            cells = (cells << heights) | position if axis else position.astype(np.int64)
        return Nodes(heights, cells)

    def are_disjoint(self, dimensions: int, depth: int) -> bool:
        """Whether no node lies in another, none stands twice, and all are
        cells of the tree down to ``depth``.
        """
        if len(self) and not 0 <= self.heights.min() <= self.heights.max() <= depth:
            return False
        if (self.cells >> (self.heights * dimensions)).any():
            return False
        cover = np.zeros((1,) * dimensions, dtype=np.int64)
        for height in range(depth + 1):
            if height:
                for axis in range(dimensions):
                    cover = np.repeat(cover, 2, axis=axis)
            here = np.bincount(self.cells[self.heights == height], minlength=cover.size)
            cover = cover + here.reshape(cover.shape)
        return bool(cover.max() <= 1)


@dataclass(frozen=True)
class Synopsis:
    """Disjoint boxes in data units with noisy weights.

    lower, upper   float (m, d)
    weights        float (m,); may be negative
    """

    columns: tuple[str, ...]
    lower: FloatArray
    upper: FloatArray
    weights: FloatArray

    @property
    def middles(self) -> FloatArray:
        """Centres of the boxes, (m, d)."""
        return (self.lower + self.upper) / 2

    def refined(self, *, enough: int = 3000, most: int = 4) -> Synopsis:
        """The positive boxes; few of them are cut into equal parts, so that a large box does not
        stand for its middle alone.

        enough   boxes from which on nothing is cut; each is cut into ⌊(enough/m)^{1/d}⌋ parts
                 an axis, at most ``most``
        """
        positive = self.weights > 0
        lower, upper, weights = self.lower[positive], self.upper[positive], self.weights[positive]
        d = lower.shape[1]
        cuts = min(most, int((enough / max(1, len(weights))) ** (1 / d) + 1e-9))
        if cuts < 2:
            return Synopsis(self.columns, lower, upper, weights)
        corners = np.stack(np.unravel_index(np.arange(cuts**d), (cuts,) * d), axis=1)
        size = (upper - lower)[:, None, :] / cuts
        low = lower[:, None, :] + corners * size
        return Synopsis(
            self.columns,
            low.reshape(-1, d),
            (low + size).reshape(-1, d),
            np.repeat(weights / cuts**d, cuts**d),
        )

    def table(self) -> dict[str, np.ndarray]:
        """One row a box: bounds on every axis, and the weight."""
        columns: dict[str, np.ndarray] = {}
        for axis, name in enumerate(self.columns):
            columns[f"{name}_lower"] = self.lower[:, axis]
            columns[f"{name}_upper"] = self.upper[:, axis]
        return {**columns, "weight": self.weights}

    @classmethod
    def of_nodes(
        cls,
        nodes: Nodes,
        weights: FloatArray,
        columns: tuple[str, ...],
        box: tuple[Coordinate, ...],
    ) -> Synopsis:
        """Boxes of tree nodes."""
        low = np.array([interval.lower for interval in box])
        width = np.array([interval.upper - interval.lower for interval in box])
        size = width / (1 << nodes.heights)[:, None]
        lower = low + nodes.positions(len(box)) * size
        return cls(columns, lower, lower + size, weights)

    @classmethod
    def of_grid(
        cls, table: FloatArray, columns: tuple[str, ...], box: tuple[Coordinate, ...]
    ) -> Synopsis:
        """Boxes of a grid of equal cells, table (g,)·d."""
        low = np.array([interval.lower for interval in box])
        width = np.array([interval.upper - interval.lower for interval in box])
        positions = np.stack(np.unravel_index(np.arange(table.size), table.shape), axis=1)
        size = width / table.shape[0]
        lower = low + positions * size
        return cls(columns, lower, lower + size, table.ravel().astype(float))
