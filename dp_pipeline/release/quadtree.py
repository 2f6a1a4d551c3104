"""Nodes of a 2^d-way tree over the declared box.

A node of height h is one cell of the grid with 2^h equal intervals an axis; the
root is (0, 0).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_pipeline.schema.encoding import IntArray


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
