"""Edges of bins with about equal numbers of rows, from noisy counts along the paths of a tree.

Source: Qardaji, Yang, Li, "Understanding Hierarchical Methods for Differentially Private
Histograms" (VLDB 2013): 16 children a node, and children that add up to their parent. Here only
nodes with more rows than noise are divided, which a TreeSession accounts path by path.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import floor

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.domain import Pieces
from dp_pipeline.config.encoding import Coordinate, FloatArray
from dp_pipeline.gate.trees import TreeSession
from dp_pipeline.inference.consistency import project_to_simplex
from dp_pipeline.results.measurement import SHARES
from dp_pipeline.results.trees import BitTree, Prefixes

FAN_BITS = 4
STEP_SHARES = (SHARES // 4,) * 4
"""Shares of ε for each step down; more of them for the first steps gave no better edges."""

BITS = FAN_BITS * len(STEP_SHARES)
"""Depth of the tree: a leaf is 2^−16 of the interval, two fixed-point numbers."""

MIN_NODE_SCALES = 4
"""Scales of its noise that a node's rows have to exceed for it to be divided."""

MAX_DIVIDED_NODES = 64
"""Nodes of one step that are divided, at most."""

MAX_PIECES = 128
"""Pieces of the interval whose rows are reported for drawing numbers inside bins, at most."""


def column_tree(name: str) -> BitTree:
    return BitTree((name,), (0,) * BITS)


@dataclass
class _Box:
    """A node of the tree, with its noisy number of rows and the shares of ε that measured it.

    start, length   position of its interval, and its length, both in finest boxes
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
        """Yield the undivided boxes from the left, each with its rows ≥ 0, which add up to
        ``total``, or to 0 if that is below 1."""
        if not self.children:
            yield self, total
            return
        noisy = np.array([child.rows for child in self.children])
        # Less than a row counts as none: there is no simplex to project on.
        parts = project_to_simplex(noisy, total) if total >= 1 else np.zeros(len(noisy))
        for child, rows in zip(self.children, parts, strict=True):
            yield from child.leaves(float(rows))


@dataclass(frozen=True)
class NoisyBins:
    """The bins of one column, made from the noisy counts of a tree.

    cuts     edges strictly inside the interval, ascending
    pieces   (start, noisy rows) of parts of the interval, ascending from the lower bound
    """

    cuts: tuple[float, ...]
    pieces: Pieces


@dataclass(frozen=True)
class QuantileCutter:
    """A method that cuts an interval into at most ``most`` bins, at multiples of ``unit``.

    A value with more rows than an even bin gets a bin of its own; the others are divided evenly
    (compressed histograms: Poosala, Ioannidis, Haas, Shekita, SIGMOD 1996).

    interval   values of the column, which the tree halves
    scale      noise scale of a count on which a session spends all of its ε
    """

    interval: Coordinate
    most: int
    unit: float
    scale: float

    def cut(self, session: TreeSession) -> NoisyBins | None:
        """Spend all of a session's ε; return bins of about equal numbers of rows.

        None if the noisy number of rows is at most MIN_NODE_SCALES noise scales.
        """
        root = _Box(0, 0, 0.0, 0)
        live = [root]
        for step, shares in enumerate(STEP_SHARES):
            self._divide(session, live, shares=shares)
            if step == 0:
                root.rows = sum(child.rows for child in root.children)
            below = [child for box in live for child in box.children]
            if step == len(STEP_SHARES) - 1:
                break
            chosen = self._boxes_to_divide(root, below)
            live = [box for box in below if id(box) in chosen]
            self._measure_again(session, [box for box in below if id(box) not in chosen])
        session.require_all_spent()
        if root.rows <= MIN_NODE_SCALES * self.scale:
            return None
        leaves, most = list(root.leaves(root.rows)), self.most
        # Cuts on both sides of frequent values may make more bins than are wanted.
        while len(cuts := self._cuts_of(leaves, most)) >= self.most:
            most -= 1
        return NoisyBins(cuts, self._pieces(leaves, cuts))

    def _divide(self, session: TreeSession, boxes: list[_Box], *, shares: int) -> None:
        noisy = session.expand(_nodes(boxes), bits=FAN_BITS, shares=_shares(boxes, shares))
        for box, counts in zip(boxes, noisy.tolist(), strict=True):
            box.children = tuple(
                _Box(box.depth + FAN_BITS, box.bits << FAN_BITS | child, float(rows), shares)
                for child, rows in enumerate(counts)
            )

    def _measure_again(self, session: TreeSession, boxes: list[_Box]) -> None:
        """Measure boxes again with all of their remaining ε, and set their rows to the mean of
        both answers, weighted by inverse variances: the squares of the shares."""
        if not boxes:
            return
        # All boxes are children of one step.
        shares = sum(STEP_SHARES[boxes[0].depth // FAN_BITS :])
        noisy = session.expand(_nodes(boxes), bits=0, shares=_shares(boxes, shares))
        for box, rows in zip(boxes, noisy[:, 0].tolist(), strict=True):
            first, second = box.shares**2, shares**2
            box.rows = (box.rows * first + rows * second) / (first + second)

    def _boxes_to_divide(self, root: _Box, among: list[_Box]) -> set[int]:
        """Return the ``id`` of the boxes to divide: at most MAX_DIVIDED_NODES, the fullest ones
        that are wider than a unit and have more rows than noise."""
        open_ = {id(box) for box in among}
        boxes = [
            (rows, box)
            for box, rows in root.leaves(max(0.0, root.rows))
            if id(box) in open_
            and self._units(box) > 1
            and rows > MIN_NODE_SCALES * self.scale * SHARES / max(box.shares, 1)
        ]
        boxes.sort(key=lambda rows_and_box: -rows_and_box[0])
        return {id(box) for _, box in boxes[:MAX_DIVIDED_NODES]}

    def _units(self, box: _Box) -> float:
        width = self.interval.upper - self.interval.lower
        return width * box.length / (self.unit * (1 << BITS))

    def _value(self, position: float) -> float:
        """Return the column's value at a position, given as a number of the tree's finest boxes."""
        width = self.interval.upper - self.interval.lower
        return self.interval.lower + position / (1 << BITS) * width

    def _cuts_of(self, leaves: list[tuple[_Box, float]], most: int) -> tuple[float, ...]:
        rows = np.array([row_count for _, row_count in leaves])
        heavy = self._heavy(leaves, rows, most)
        light = np.where(heavy, 0.0, rows)
        ends, bins = np.cumsum(light), max(1, most - int(heavy.sum()))
        if heavy.any():
            bins = max(1, min(bins, round(self.most * float(light.sum() / rows.sum()))))
        cuts: set[float] = set()
        for (box, _), is_heavy in zip(leaves, heavy, strict=True):
            if is_heavy:
                ends_of_box = (box.start, box.start + box.length)
                first, last = (self._nearest(self._value(position)) for position in ends_of_box)
                # The two cuts around a value are at least a unit apart.
                cuts |= {self._multiple(first), self._multiple(max(last, first + 1))}
        for rank in float(ends[-1]) * np.arange(1, bins) / bins:
            position = min(int(np.searchsorted(ends, rank)), len(leaves) - 1)
            part = 1 - (ends[position] - rank) / light[position] if light[position] > 0 else 0.0
            box = leaves[position][0]
            place = self._value(box.start + min(max(part, 0.0), 1.0) * box.length)
            cuts.add(self._multiple(self._nearest(place)))
        return tuple(sorted(cut for cut in cuts if self.interval.lower < cut < self.interval.upper))

    def _heavy(
        self, leaves: list[tuple[_Box, float]], rows: FloatArray, most: int
    ) -> NDArray[np.bool_]:
        """Return a mask of leaves at most two units wide with more rows than an average bin."""
        values = np.array([self._units(box) <= 2 for box, _ in leaves])
        heavy = np.zeros(len(leaves), dtype=np.bool_)
        while True:
            bins = max(1, most - int(heavy.sum()))
            heavier = values & ~heavy & (rows > rows[~heavy].sum() / bins)
            if not heavier.any() or bins == 1:
                return heavy
            heavy |= heavier

    def _nearest(self, number: float) -> int:
        return floor(number / self.unit + 0.5)

    def _multiple(self, steps: int) -> float:
        # As decimals, so that three steps of 0.1 are 0.3.
        return float(steps * Decimal(repr(self.unit)))

    def _pieces(self, leaves: list[tuple[_Box, float]], cuts: tuple[float, ...]) -> Pieces:
        """Return pieces (start, rows) of the bins: at most MAX_PIECES, made by dividing the piece
        whose rows lie least evenly."""
        starts = [self._value(box.start) for box, _ in leaves]
        cumulated = np.concatenate([[0.0], np.cumsum([row_count for _, row_count in leaves])])
        places = np.array([*starts, self.interval.upper])
        edges = [self.interval.lower, *cuts]
        ends = [*cuts, self.interval.upper]
        heap = [
            self._piece(low, high, places, cumulated) for low, high in zip(edges, ends, strict=True)
        ]
        heapq.heapify(heap)
        finished: list[tuple[float, float]] = []
        while heap:
            priority, low, high, middle = heapq.heappop(heap)
            if priority >= 0 or len(heap) + len(finished) + 1 >= MAX_PIECES:
                rows = np.diff(np.interp([low, high], places, cumulated))
                finished.append((low, round(float(rows[0]), 1)))
                continue
            for ends_ in ((low, middle), (middle, high)):
                heapq.heappush(heap, self._piece(*ends_, places, cumulated))
        return tuple(sorted(finished))

    def _piece(
        self, low: float, high: float, places: FloatArray, cumulated: FloatArray
    ) -> tuple[float, float, float, float]:
        """Return a heap entry (priority, low, high, middle) for a piece of the interval.

        The priority is minus the largest difference from evenly lying rows, times the width; the
        difference is largest at the middle.
        """
        inner = places[(places > low) & (places < high)]
        if not inner.size:
            return 0.0, low, high, low
        first, last = np.interp([low, high], places, cumulated)
        uniform = first + (last - first) * (inner - low) / (high - low)
        difference = np.abs(np.interp(inner, places, cumulated) - uniform)
        widest = int(difference.argmax())
        return -float(difference[widest]) * (high - low), low, high, float(inner[widest])


def _nodes(boxes: list[_Box]) -> Prefixes:
    return Prefixes(
        np.array([box.depth for box in boxes], dtype=np.int64),
        np.array([box.bits for box in boxes], dtype=np.int64),
    )


def _shares(boxes: list[_Box], shares: int) -> np.ndarray:
    return np.full(len(boxes), shares, dtype=np.int64)
