"""NodeLevels: exact counts of quadtree nodes, one scan a tree."""

from __future__ import annotations

import numpy as np

from dp_pipeline.gate.counts import Counter, Sealed
from dp_pipeline.gate.pyramid import pyramid
from dp_pipeline.release.quadtree import Nodes
from dp_pipeline.schema.encoding import IntArray


class NodeLevels:
    """One scan at the finest height and sums upwards, kept sealed for the other measures of a
    release.
    """

    def __init__(self) -> None:
        self._levels: dict[tuple[tuple[str, ...], int], list[Sealed]] = {}

    def counts(
        self, counter: Counter, columns: tuple[str, ...], nodes: Nodes, depth: int
    ) -> IntArray:
        """Exact counts of the nodes, in their order."""
        if (columns, depth) not in self._levels:
            finest = counter.grid(columns, 1 << depth).open_at_the_gate()
            self._levels[columns, depth] = [Sealed(level) for level in pyramid(finest)]
        levels = self._levels[columns, depth]
        counts = np.zeros(len(nodes), dtype=np.int64)
        for height in range(depth + 1):
            here = nodes.heights == height
            counts[here] = levels[height].open_at_the_gate().ravel()[nodes.cells[here]]
        return counts
