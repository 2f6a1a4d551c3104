"""NoisyTree: counts of tree nodes with their variances, made to agree with one another.

Leaves that may hold rows, and those that are more likely to be noise alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from dp_pipeline.config.constraints import Mask
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.inference.consistency import project_rows
from dp_pipeline.results.trees import Prefixes

SHRINK = 0.25
"""Share of the noise's expected part that is taken out of differences between siblings."""


@dataclass(frozen=True)
class Sparsity:
    """When the small ones among siblings are taken for empty.

    one    deviations above which a child is certainly not empty
    rest   deviations that the sum of all other children must pass to be kept
    """

    one: float
    rest: float


@dataclass(frozen=True)
class _Families:
    """Parents with the same number of children.

    parents    int64 (g,): positions among all nodes
    children   int64 (g, m)
    """

    parents: IntArray
    children: IntArray


class NoisyTree:
    """Noisy counts of a tree that grows downwards. The root itself is not counted."""

    def __init__(self) -> None:
        self._nodes = [Prefixes.root()]
        self._values: FloatArray = np.zeros(1)
        # What was never counted has no weight beside what was.
        self._precisions: FloatArray = np.zeros(1)
        self._families: list[_Families] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(
        self,
        parents: IntArray,
        nodes: Prefixes,
        values: FloatArray | IntArray,
        variance: FloatArray,
    ) -> IntArray:
        """Put counted children below their parents; returns their positions, (g·m,).

        parents    int64 (g,), positions
        nodes      the children, parent by parent, g·m of them
        values     (g, m), noisy counts
        variance   float (g,), of each of a parent's counts
        """
        positions = len(self) + np.arange(values.size, dtype=np.int64)
        if not positions.size:
            return positions
        self._families.append(_Families(parents, positions.reshape(values.shape)))
        self._nodes.append(nodes)
        self._values = np.concatenate([self._values, values.ravel()])
        precision = np.repeat(1 / variance, values.shape[1])
        self._precisions = np.concatenate([self._precisions, precision])
        return positions

    def count_again(self, positions: IntArray, values: IntArray, variance: FloatArray) -> None:
        """Combine second counts (m,) of nodes with their first, by inverse variance."""
        estimates = _Estimates(self._values, self._precisions)
        estimates.combine(positions, values.astype(np.float64), 1 / variance)

    @property
    def leaves(self) -> tuple[IntArray, Prefixes]:
        """Positions of the nodes without children, and those nodes."""
        is_leaf = np.ones(len(self), dtype=np.bool_)
        for family in self._families:
            is_leaf[family.parents] = False
        return np.flatnonzero(is_leaf), Prefixes.concatenate(self._nodes).where(is_leaf)

    @property
    def leaf_deviations(self) -> FloatArray:
        """Standard deviations of the leaves' own counts, (m,), in the order of ``leaves``."""
        return np.asarray(self._precisions[self.leaves[0]] ** -0.5)

    def occupied(self, lower: FloatArray, upper: FloatArray) -> Mask:
        """Return whether a leaf may hold any row, (m,), in the order of ``leaves``.

        lower, upper   the boxes of the leaves, (m, d)
        """
        positions, nodes = self.leaves
        values, variance = self._values[positions], 1 / self._precisions[positions]
        away = widths_away(lower, upper, values, variance)
        return may_hold_rows(nodes.depths, values, variance, away)

    def counts(self, *, first: Sparsity | None, below: Sparsity | None) -> FloatArray:
        """Return a count ≥ 0 for every node, (m,); the counts add up along the tree.

        first   for the root's children; None takes no child for empty
        below   for all others

        Upwards, a node's count and its children's sum are averaged by inverse variance.
        Downwards, a parent's count is given to its children: each child takes its own count
        and an equal part of what is missing, differences from the mean are shrunk by the
        part that is expected to be noise (James–Stein), children that look empty get
        nothing, and the nearest counts ≥ 0 with the parent's sum are taken.
        """
        agreed = _Estimates(self._values.copy(), self._precisions.copy())
        for family in reversed(self._families):
            variance = (1 / agreed.precisions[family.children]).sum(axis=1)
            sums = agreed.values[family.children].sum(axis=1)
            agreed.combine(family.parents, sums, 1 / variance)
        counts = np.zeros(len(self))
        counts[0] = max(1.0, agreed.values[0])
        for family in self._families:
            sparsity = below if family.parents[0] else first
            counts[family.children] = agreed.shared(family, counts[family.parents], sparsity)
        return counts


@dataclass(frozen=True)
class _Estimates:
    """Counts of all nodes and their inverse variances; combined in place."""

    values: FloatArray
    precisions: FloatArray

    def combine(self, at: IntArray, values: FloatArray, precision: FloatArray) -> None:
        """Average with second estimates of the nodes ``at``, by inverse variance."""
        total = self.precisions[at] + precision
        weighted = self.values[at] * self.precisions[at] + values * precision
        self.values[at] = weighted / total
        self.precisions[at] = total

    def shared(
        self, family: _Families, parents: FloatArray, sparsity: Sparsity | None
    ) -> FloatArray:
        """Counts of parents (g,) given to their children, (g, m)."""
        fan = family.children.shape[1]
        values, variance = self.values[family.children], 1 / self.precisions[family.children]
        away = values - values.mean(axis=1, keepdims=True)
        noise = (fan - 1) * variance.mean(axis=1)
        seen = (away**2).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = np.where(seen > 0, np.maximum(0.0, 1 - SHRINK * noise / seen), 0.0)
        shares = (parents / fan)[:, None] + kept[:, None] * away
        if sparsity is not None:
            certain = values > sparsity.one * np.sqrt(variance)
            rest = np.where(certain, 0.0, values).sum(axis=1)
            of_rest = np.sqrt(np.where(certain, 0.0, variance).sum(axis=1))
            # Children beside a certain one whose sum is no more than noise look empty.
            empty = certain.any(axis=1) & (rest <= sparsity.rest * of_rest)
            shares[empty[:, None] & ~certain] = -np.inf
        return project_rows(shares, parents)


CERTAIN = 8.0
"""Scales of the noise from which on a leaf certainly holds rows."""

TAIL = 0.002
"""Part of the rows of certain leaves that may lie beyond either end of an axis."""


def widths_away(
    lower: FloatArray, upper: FloatArray, values: FloatArray, variance: FloatArray
) -> FloatArray:
    """Return how far the middles of boxes are from where nearly all rows are, (m,): in widths of
    that interval of an axis, on the axis where it is most; 0 inside.

    lower, upper   of boxes, (m, d)
    values         their noisy counts
    variance       of the Laplace noise in each

    >>> ends = np.array([[0.0], [1], [2], [8]])
    >>> widths_away(ends, ends + 1, np.array([90.0, 90, 1, 3]), np.full(4, 2.0)).tolist()
    [0.0, 0.0, 0.25, 3.25]
    """
    certain = values > CERTAIN * np.sqrt(variance / 2)
    if not certain.any():
        return np.zeros(len(values))
    weights, middles = values[certain], (lower + upper) / 2
    ends = zip(lower[certain].T, upper[certain].T, strict=True)
    found = [(_end(low, weights), -_end(-high, weights)) for low, high in ends]
    low, high = (np.array(one) for one in zip(*found, strict=True))
    outside = np.maximum(low - middles, middles - high).clip(min=0)
    return np.asarray((outside / (high - low)).max(axis=1))


def _end(lower: FloatArray, weights: FloatArray) -> float:
    """Where boxes begin, but for those that begin before it with TAIL of the weight."""
    order = np.argsort(lower, kind="stable")
    passed = np.cumsum(weights[order])
    return float(lower[order][np.searchsorted(passed, TAIL * passed[-1])])


MOSTLY_EMPTY = 0.6
"""Share of empty leaves in a group, from which on any of them may be one."""

LEAST, MOST = 1.0, 6.0
SLOPE, ABOVE = 0.25, 8
"""Leaves that are less likely than not to hold rows do so only if all of one depth have together
so many deviations: the least, and more by the slope for each level above those that are so many
levels above the rows, as noise there is far from all rows and moves a centre far."""

FAR, TOGETHER = 1.0, 4.0
"""Widths from which on leaves are one group, whatever their depths, and its deviations."""


def may_hold_rows(
    depths: IntArray, values: FloatArray, variance: FloatArray, away: FloatArray
) -> Mask:
    """Return whether leaves may hold any row, (m,).

    depths     of the leaves
    values     their noisy counts, by themselves
    variance   of the Laplace noise in each
    away       how far they are from nearly all rows (``widths_away``)

    Leaves of one depth are a group, and so are those that are far from the rows, where most of
    these are empty. Of a group about twice as many are empty as have a negative count. An empty
    leaf has the density of the noise at its count z, any other 1/(z ln n): every size is as likely
    as any other. A far one is less likely by the square of its distance, which is what its rows
    would add to the cost of centres: else the far ones alone would decide. Those that are more
    likely to be empty are taken for it where they are no more than noise together too: many
    leaves may hold few rows each.

    >>> values = np.array([500.0, 3, 1, 1, 1, 0.5, -1, -1, -1, -1, -2, -0.5])
    >>> near = np.zeros(12)
    >>> may_hold_rows(np.full(12, 4), values, np.full(12, 2.0), near).tolist()[:3]
    [True, False, False]
    """
    found, kept = np.ones(len(values), dtype=np.bool_), values.clip(min=0)
    rows = max(2.0, float(values.sum()))
    typical = float((depths * kept).sum() / max(1.0, float(kept.sum())))
    far = away > FAR
    if _share_empty(values[far]) < MOSTLY_EMPTY:
        far[:] = False
    groups = [(np.flatnonzero(far), TOGETHER)]
    for depth in np.unique(depths[~far]):
        wanted = min(MOST, max(LEAST, LEAST + SLOPE * (typical - ABOVE - float(depth))))
        groups.append((np.flatnonzero(~far & (depths == depth)), wanted))
    odds = np.where(far, np.maximum(away, FAR) ** -2, 1.0)
    for here, wanted in groups:
        empty = _share_empty(values[here])
        if empty >= MOSTLY_EMPTY:
            own, scale = values[here], np.sqrt(variance[here] / 2)
            full = (1 - empty) * (odds[here] / log(rows)) / np.maximum(1.0, own)
            noise = empty / (2 * scale) * np.exp(-np.abs(own) / scale)
            weak = here[(own <= 0) | (full < noise)]
            found[weak] = values[weak].sum() >= wanted * np.sqrt(variance[weak].sum())
    return found


def _share_empty(values: FloatArray) -> float:
    """Return the share of empty leaves in a group; 0 for a group without leaves."""
    many = len(values)
    if not many:
        return 0.0
    return float(min((2 * (values < 0).sum() + 1) / (many + 1), 1 - 0.5 / many))
