"""Trees over the declared box in any number of dimensions, and their noisily counted boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from dp_pipeline.config.encoding import COORDINATE_BITS, Coordinate, FloatArray, IntArray
from dp_pipeline.config.errors import BoundaryViolation

MOST_BITS = 40
"""Depth of a tree, at most: 2^40 boxes are finer than any population needs."""

AXIS_BITS = COORDINATE_BITS + 1
"""Halvings of one axis after which a box is a single fixed-point number."""

MOST_FAN_BITS = 16
"""Levels below a node that one question counts, at most."""


@dataclass(frozen=True)
class BitTree:
    """A binary tree over the declared box, in which bit i of a node halves the axis ``axes[i]``.

    columns   numeric attributes, d of them
    axes      axis of each bit, the first bit first; none more than AXIS_BITS times
    """

    columns: tuple[str, ...]
    axes: tuple[int, ...]

    @classmethod
    def over(
        cls, columns: tuple[str, ...], box: Sequence[Coordinate], *, most: int = MOST_BITS
    ) -> BitTree:
        """Return the tree that always halves the longest side of a box, the first of equal ones.

        most   depth of the tree; it is less if every side is halved AXIS_BITS times before

        >>> BitTree.over(("x", "y"), [Coordinate(0, 4), Coordinate(0, 1)], most=4).axes
        (0, 0, 0, 1)
        """
        sides = [interval.half_width for interval in box]
        axes: list[int] = []
        for _ in range(min(most, AXIS_BITS * len(sides))):
            axis = max(range(len(sides)), key=lambda a: (sides[a], -a))
            axes.append(axis)
            sides[axis] = sides[axis] / 2 if axes.count(axis) < AXIS_BITS else 0.0
        return cls(columns, tuple(axes))

    @classmethod
    def quadtree(cls, columns: tuple[str, ...], height: int) -> BitTree:
        """Return the tree that halves all axes ``height`` times in turn, from the last to the
        first: ``children(d)`` of a node are its 2^d parts, where bit t is the half of axis t.
        """
        return cls(columns, tuple(reversed(range(len(columns)))) * height)

    @property
    def depth(self) -> int:
        return len(self.axes)

    def require_axes(self) -> None:
        """Raise BoundaryViolation unless every bit halves a column, none of them too often."""
        counts = [self.axes.count(axis) for axis in range(len(self.columns))]
        are_distinct = 1 <= len(counts) == len(set(self.columns))
        are_axes = sum(counts) == self.depth <= MOST_BITS
        if not (are_distinct and are_axes and max(counts) <= AXIS_BITS):
            raise BoundaryViolation(
                f"A bit tree must halve different columns, each at most {AXIS_BITS} times and "
                f"all at most {MOST_BITS} times together, not {self.columns} in the order "
                f"{self.axes}"
            )

    def require_nodes(self, nodes: Prefixes, bits: int) -> None:
        """Raise BoundaryViolation unless this tree has the nodes and ``bits`` levels below them."""
        deepest = self.depth - bits
        if not 0 <= bits <= MOST_FAN_BITS:
            raise BoundaryViolation(
                f"A tree node must have 0 to {MOST_FAN_BITS} bits below it, not {bits}"
            )
        if nodes.depths.shape != (len(nodes),) or nodes.bits.shape != (len(nodes),):
            raise BoundaryViolation(
                f"Each of {len(nodes)} tree nodes must have one depth and "
                f"one number, not depths of shape {nodes.depths.shape} "
                f"and numbers of shape {nodes.bits.shape}"
            )
        if (nodes.depths < 0).any() or (nodes.depths > deepest).any():
            raise BoundaryViolation(
                f"The depths of tree nodes must lie in 0..{deepest}, but one does not"
            )
        # A number below zero stays below zero however far it is shifted.
        if (nodes.bits >> nodes.depths).any():
            raise BoundaryViolation(
                "A tree node must have no more bits than its depth, but one has"
            )

    def boxes(self, nodes: Prefixes, box: Sequence[Coordinate]) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper corners of nodes in data units, each (m, d)."""
        low = np.array([interval.lower for interval in box])
        width = np.array([interval.upper - interval.lower for interval in box])
        position = np.zeros((len(nodes), len(box)))
        size = np.ones((len(nodes), len(box)))
        for bit, axis in enumerate(self.axes[: int(nodes.depths.max(initial=0))]):
            deeper = nodes.depths > bit
            value = nodes.bits[deeper] >> (nodes.depths[deeper] - 1 - bit) & 1
            size[deeper, axis] /= 2
            position[deeper, axis] += value * size[deeper, axis]
        lower = low + position * width
        # The last box may end a digit above the declared bound.
        return lower, np.minimum(lower + size * width, [interval.upper for interval in box])


@dataclass(frozen=True)
class Prefixes:
    """Nodes of a binary tree, given by the bits of their paths.

    depths   int64 (m,): number of bits, 0 is the whole box
    bits     int64 (m,): those bits as a number, the first bit highest
    """

    depths: IntArray
    bits: IntArray

    def __len__(self) -> int:
        return len(self.bits)

    @classmethod
    def root(cls) -> Prefixes:
        return cls(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))

    @classmethod
    def concatenate(cls, parts: Sequence[Prefixes]) -> Prefixes:
        none = np.zeros(0, dtype=np.int64)
        return cls(
            np.concatenate([none, *(part.depths for part in parts)]),
            np.concatenate([none, *(part.bits for part in parts)]),
        )

    def where(self, selected: np.ndarray) -> Prefixes:
        """Return the nodes at some positions, or where a boolean mask (m,) is true."""
        return Prefixes(self.depths[selected], self.bits[selected])

    def children(self, bits: int) -> Prefixes:
        """Return all 2^bits descendants of every node, ``bits`` levels down, in their order.

        >>> Prefixes.root().children(1).children(1).bits.tolist()
        [0, 1, 2, 3]
        """
        fan = 1 << bits
        below = (self.bits[:, None] << bits) | np.arange(fan)
        return Prefixes(np.repeat(self.depths + bits, fan), below.ravel())

    def are_disjoint(self) -> bool:
        """Return whether no node contains another and none occurs twice."""
        deepest = int(self.depths.max(initial=0))
        first = self.bits << (deepest - self.depths)
        order = np.argsort(first)
        end = first + (np.int64(1) << (deepest - self.depths))
        return bool((end[order][:-1] <= first[order][1:]).all())

    @property
    def keys(self) -> IntArray:
        """A number for each node, unique among nodes: a 1 followed by its bits."""
        return (np.int64(1) << self.depths) | self.bits

    def grid_cells(self, dimensions: int) -> tuple[IntArray, IntArray]:
        """Return the nodes of a quadtree as cells of grids with 2^h intervals an axis: every h, and
        every index in its grid, last axis fastest.

        BoundaryViolation for nodes that do not halve all axes equally often.

        >>> Prefixes(np.array([4]), np.array([0b01_10])).grid_cells(2)
        (array([2]), array([9]))
        """
        if (self.depths % dimensions).any():
            raise BoundaryViolation(
                f"The depths of quadtree nodes must be multiples of {dimensions}, but one is not"
            )
        heights, cells = self.depths // dimensions, np.zeros_like(self.bits)
        for bit in range(int(self.depths.max(initial=0))):
            level, axis = divmod(bit, dimensions)
            cells |= (self.bits >> bit & 1) << heights * (dimensions - 1 - axis) + level
        return heights, cells


@dataclass(frozen=True)
class CountedBoxes:
    """Boxes that cover the declared box, with their noisy counts before any post-processing.

    They have an order by the smallest boxes that they could be cut into. Where all time windows
    halve the same sides in the same order, two boxes are disjoint or one contains the other. So the
    positions at which boxes of *every* window begin are those of the finest common cut: each of its
    boxes is one box in some window, and one or more boxes in the others.

    *Variance.* The noise of boxes, and of windows, is independent: the variance of a sum is the sum
    of the variances of all boxes in it.

    cut            the axis of each halving of a tree, or the number of cells of a grid by axis
    first          position in the order of the first smallest box of each, ascending: int64 (m,)
    lower, upper   corners in data units: float (m, d)
    counts         noisy numbers of rows: float (m,)
    variances      of the noise in each count: float (m,)
    """

    columns: tuple[str, ...]
    cut: tuple[int, ...]
    first: IntArray
    lower: FloatArray
    upper: FloatArray
    counts: FloatArray
    variances: FloatArray

    @classmethod
    def of_tree(
        cls,
        tree: BitTree,
        nodes: Prefixes,
        box: Sequence[Coordinate],
        counts: FloatArray,
        variance: float,
    ) -> CountedBoxes:
        """Return the boxes of disjoint nodes that cover ``box``, with the noisy count of each.

        variance   of the noise in each count
        """
        first = nodes.bits << (tree.depth - nodes.depths)
        order = np.argsort(first)
        ends = tree.boxes(nodes.where(order), box)
        variances = np.full(len(order), variance)
        return cls(tree.columns, tree.axes, first[order], *ends, counts[order], variances)


def summed_boxes(windows: Sequence[CountedBoxes]) -> CountedBoxes | None:
    """Return the sum of windows in their finest common boxes; None if columns or cuts differ."""
    oldest = windows[0]
    if any((window.columns, window.cut) != (oldest.columns, oldest.cut) for window in windows):
        return None
    first = reduce(np.intersect1d, [window.first for window in windows])
    starts = [np.searchsorted(window.first, first) for window in windows]
    pairs = list(zip(windows, starts, strict=True))
    return CountedBoxes(
        oldest.columns,
        oldest.cut,
        first,
        np.minimum.reduceat(oldest.lower, starts[0], axis=0),
        np.maximum.reduceat(oldest.upper, starts[0], axis=0),
        np.sum([np.add.reduceat(window.counts, start) for window, start in pairs], axis=0),
        np.sum([np.add.reduceat(window.variances, start) for window, start in pairs], axis=0),
    )
