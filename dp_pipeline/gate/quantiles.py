"""Edges of bins that hold about as many rows each, from noisy counts along the paths of a tree.

Source: Qardaji, Yang, Li, "Understanding Hierarchical Methods for Differentially Private
Histograms" (VLDB 2013): 16 children a node, and children that add up to their parent. Here only
nodes that hold a quantile are asked again, which a TreeSession accounts path by path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import floor

import numpy as np

from dp_pipeline.gate.trees import TreeSession
from dp_pipeline.inference.consistency import project_to_simplex
from dp_pipeline.release.measurement import SHARES
from dp_pipeline.release.trees import BitTree, Prefixes
from dp_pipeline.spec.encoding import Coordinate, FloatArray

FAN_BITS = 4
PARTS = (SHARES // 4,) * 4
"""Shares of each step down. More of them for the first steps gave no better edges."""

BITS = FAN_BITS * len(PARTS)
"""A leaf is a part of 2^−16 of the interval, two fixed-point numbers."""

HEAVY = 4
"""A node of fewer rows than so many scales of its noise is not divided further."""


def tree_of(name: str) -> BitTree:
    """The tree over one column."""
    return BitTree((name,), (0,) * BITS)


@dataclass
class _Box:
    """A node of the tree: where it starts in units of the finest boxes, what it holds, and how
    many shares that was measured with.
    """

    depth: int
    bits: int
    rows: float
    shares: int
    children: tuple[_Box, ...] = ()

    @property
    def start(self) -> int:
        return self.bits << (BITS - self.depth)

    @property
    def length(self) -> int:
        return 1 << (BITS - self.depth)

    def leaves(self, total: float) -> Iterator[tuple[_Box, float]]:
        """Boxes that were not divided, from the left, with rows that are nowhere negative and add
        up to the total.
        """
        if not self.children:
            yield self, total
            return
        noisy = np.array([child.rows for child in self.children])
        # Less than a row is nothing, and no simplex to project on.
        parts = project_to_simplex(noisy, total) if total >= 1 else np.zeros(len(noisy))
        for child, rows in zip(self.children, parts, strict=True):
            yield from child.leaves(float(rows))


@dataclass(frozen=True)
class QuantileBins:
    """At most ``most`` bins inside an interval, with edges that are whole multiples of ``unit``.

    scale   of the noise of one count that is measured with all shares
    """

    interval: Coordinate
    most: int
    unit: float
    scale: float

    def edges(self, session: TreeSession) -> tuple[float, ...] | None:
        """Cuts strictly inside the interval, ascending; None where the noisy number of rows is not
        even HEAVY scales.

        All of the session is spent, whatever comes of it.
        """
        root = _Box(0, 0, 0.0, 0)
        live = [root]
        for step, shares in enumerate(PARTS):
            self._divide(session, live, shares=shares)
            if step == 0:
                root.rows = sum(child.rows for child in root.children)
            below = [child for box in live for child in box.children]
            if step == len(PARTS) - 1:
                break
            chosen = self._chosen(root)
            live = [box for box in below if id(box) in chosen]
            self._settle(session, [box for box in below if id(box) not in chosen])
        session.close()
        return self._cuts(root)

    def _divide(self, session: TreeSession, boxes: list[_Box], *, shares: int) -> None:
        noisy = session.expand(_nodes(boxes), bits=FAN_BITS, shares=_shares(boxes, shares))
        for box, counts in zip(boxes, noisy.tolist(), strict=True):
            box.children = tuple(
                _Box(box.depth + FAN_BITS, box.bits << FAN_BITS | at, float(rows), shares)
                for at, rows in enumerate(counts)
            )

    def _settle(self, session: TreeSession, boxes: list[_Box]) -> None:
        """Boxes that are not divided are measured once more, with all that is left to them; both
        measures count by their inverse variances, which are as the squares of their shares.
        """
        if not boxes:
            return
        # All of them are children of one step.
        shares = sum(PARTS[boxes[0].depth // FAN_BITS :])
        noisy = session.expand(_nodes(boxes), bits=0, shares=_shares(boxes, shares))
        for box, rows in zip(boxes, noisy[:, 0].tolist(), strict=True):
            first, second = box.shares**2, shares**2
            box.rows = (box.rows * first + rows * second) / (first + second)

    def _chosen(self, root: _Box) -> set[int]:
        """Boxes that hold a quantile, are wider than a unit and heavier than their noise."""
        leaves = list(root.leaves(max(0.0, root.rows)))
        rows = np.array([one for _, one in leaves])
        ends = np.cumsum(rows)
        found = np.unique(np.searchsorted(ends, self._ranks(float(ends[-1]))))
        width = self.interval.upper - self.interval.lower
        boxes = [leaves[at] for at in found if at < len(leaves)]
        return {
            id(box)
            for box, held in boxes
            if width * box.length > self.unit * (1 << BITS)
            and held > HEAVY * self.scale * SHARES / max(box.shares, 1)
        }

    def _ranks(self, total: float) -> FloatArray:
        return total * np.arange(1, self.most) / self.most

    def _cuts(self, root: _Box) -> tuple[float, ...] | None:
        if root.rows <= HEAVY * self.scale:
            return None
        leaves = list(root.leaves(root.rows))
        ends = np.cumsum([rows for _, rows in leaves])
        width = self.interval.upper - self.interval.lower
        cuts: set[float] = set()
        for rank in self._ranks(float(ends[-1])):
            at = min(int(np.searchsorted(ends, rank)), len(leaves) - 1)
            box, rows = leaves[at]
            part = 1 - (ends[at] - rank) / rows if rows > 0 else 0.0
            place = (box.start + min(max(part, 0.0), 1.0) * box.length) / (1 << BITS)
            steps = floor((self.interval.lower + place * width) / self.unit + 0.5)
            # As decimals, so that three steps of 0.1 are 0.3.
            cuts.add(float(steps * Decimal(repr(self.unit))))
        return tuple(sorted(cut for cut in cuts if self.interval.lower < cut < self.interval.upper))


def _nodes(boxes: list[_Box]) -> Prefixes:
    return Prefixes(
        np.array([box.depth for box in boxes], dtype=np.int64),
        np.array([box.bits for box in boxes], dtype=np.int64),
    )


def _shares(boxes: list[_Box], shares: int) -> np.ndarray:
    return np.full(len(boxes), shares, dtype=np.int64)
