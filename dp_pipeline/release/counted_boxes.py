"""Boxes that were counted once, each with noise of its own, and what several windows say together.

Boxes that cover the declared box lie on a line, in the order of the smallest boxes that they could
be cut into. Where all windows halve the same sides in the same order, two of their boxes are apart
or one lies in the other. So the places at which boxes of *every* window begin are those at which
the boxes of the finest common cut begin: each of these is one box in some window, and one or more
in the others.

*Variance.* Noise of boxes is drawn apart, and so is that of windows: the variance of a sum is the
sum of the variances of all boxes in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from dp_pipeline.release.trees import BitTree, Prefixes
from dp_pipeline.spec.encoding import Coordinate, FloatArray, IntArray


@dataclass(frozen=True)
class CountedBoxes:
    """Boxes that cover the declared box, and their noisy counts before anything is made of them.

    cut            how they are made: the axis of each halving, or the cells of a grid by axis
    first          int64 (m,): where each begins on the line, ascending
    lower, upper   float (m, d), data units
    counts         float (m,)
    variances      float (m,): of the noise in each
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
        cls, tree: BitTree, nodes: Prefixes, box: Sequence[Coordinate], counts: FloatArray, v: float
    ) -> CountedBoxes:
        """Disjoint nodes that cover the box, counted with the variance ``v`` each."""
        first = nodes.bits << (tree.depth - nodes.depths)
        order = np.argsort(first)
        ends = tree.boxes(nodes.where(order), box)
        spread = np.full(len(order), v)
        return cls(tree.columns, tree.axes, first[order], *ends, counts[order], spread)


def summed_boxes(windows: Sequence[CountedBoxes]) -> CountedBoxes | None:
    """The sum over the finest boxes of which all windows tell; None where they are not cut alike,
    so that boxes overlap.
    """
    one = windows[0]
    if any((other.columns, other.cut) != (one.columns, one.cut) for other in windows):
        return None
    first = reduce(np.intersect1d, [window.first for window in windows])
    starts = [np.searchsorted(window.first, first) for window in windows]
    pairs = list(zip(windows, starts, strict=True))
    return CountedBoxes(
        one.columns,
        one.cut,
        first,
        np.minimum.reduceat(one.lower, starts[0], axis=0),
        np.maximum.reduceat(one.upper, starts[0], axis=0),
        np.sum([np.add.reduceat(window.counts, at) for window, at in pairs], axis=0),
        np.sum([np.add.reduceat(window.variances, at) for window, at in pairs], axis=0),
    )
