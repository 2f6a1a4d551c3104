"""Noisy counts of the nodes of a tree, made to agree, and its leaves that are likely noise."""

from dataclasses import dataclass
from math import log

import numpy as np

from dp_pipeline.config.constraints import Mask
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.inference.consistency import project_rows
from dp_pipeline.results.trees import Prefixes

SHRINK = 0.25
"""Part of the expected noise that is taken out of differences between siblings."""


@dataclass(frozen=True)
class Sparsity:
    """The rule by which small counts among siblings are taken for empty.

    certain    standard deviations of its noise above which a child's count certainly has rows
    siblings   standard deviations that the sum of the other children must exceed where a child is
               certain, or else they count as empty
    """

    certain: float
    siblings: float


class NoisyTree:
    """The noisy counts of a tree that grows downwards, without a count of its root.

    Nodes have positions in the order in which they were added, from 0, the root.
    """

    def __init__(self) -> None:
        self._nodes = [Prefixes.root()]
        self._values: FloatArray = np.zeros(1)
        # The root is not counted: it has no weight.
        self._precisions: FloatArray = np.zeros(1)
        # Nodes with the same number of children: positions of parents (g,) and children (g, m).
        self._families: list[tuple[IntArray, IntArray]] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(
        self,
        parents: IntArray,
        nodes: Prefixes,
        values: FloatArray | IntArray,
        variance: FloatArray,
    ) -> IntArray:
        """Add m counted children below each of g nodes; return the children's positions (g·m,).

        parents    (g,) positions of the nodes
        nodes      the children, parent by parent
        values     (g, m) noisy counts of the children
        variance   (g,) noise variance of each count below a parent
        """
        positions = len(self) + np.arange(values.size, dtype=np.int64)
        if not positions.size:
            return positions
        self._families.append((parents, positions.reshape(values.shape)))
        self._nodes.append(nodes)
        self._values = np.concatenate([self._values, values.ravel()])
        precision = np.repeat(1 / variance, values.shape[1])
        self._precisions = np.concatenate([self._precisions, precision])
        return positions

    def count_again(self, positions: IntArray, values: IntArray, variance: FloatArray) -> None:
        """Replace the counts of m nodes by their inverse-variance means with second counts.

        values     (m,) second counts
        variance   (m,) of their noise
        """
        estimates = _Estimates(self._values, self._precisions)
        estimates.combine(positions, values.astype(np.float64), 1 / variance)

    @property
    def leaves(self) -> tuple[IntArray, Prefixes]:
        """The positions of the nodes without children, and those nodes."""
        is_leaf = np.ones(len(self), dtype=np.bool_)
        for parents, _ in self._families:
            is_leaf[parents] = False
        return np.flatnonzero(is_leaf), Prefixes.concatenate(self._nodes).where(is_leaf)

    def estimates(self, positions: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the noisy counts of m nodes and the variances of their noise, both (m,), from each
        node's own counts alone."""
        return self._values[positions], 1 / self._precisions[positions]

    def counts(self, *, first: Sparsity | None, below: Sparsity | None) -> FloatArray:
        """Return an estimated count ≥ 0 of every node (nodes,), where children add up to parents.

        first   rule for the root's children; None takes no child for empty
        below   rule for all other nodes

        Upwards, a node's count and its children's sum are averaged by inverse variance. Downwards,
        a parent's count is divided: each child takes its own count and an equal part of what is
        missing, differences from the mean are shrunk by the part that is expected to be noise
        (James–Stein), children that look empty get nothing, and the nearest counts ≥ 0 with the
        parent's sum are taken. The root has 1 at least.
        """
        agreed = _Estimates(self._values.copy(), self._precisions.copy())
        for parents, children in reversed(self._families):
            variance = (1 / agreed.precisions[children]).sum(axis=1)
            agreed.combine(parents, agreed.values[children].sum(axis=1), 1 / variance)
        counts = np.zeros(len(self))
        counts[0] = max(1.0, agreed.values[0])
        for parents, children in self._families:
            sparsity = below if parents[0] else first
            counts[children] = agreed.divide(counts[parents], children, sparsity)
        return counts


@dataclass(frozen=True)
class _Estimates:
    """The estimated counts of all nodes with their inverse variances, updated in place."""

    values: FloatArray
    precisions: FloatArray

    def combine(self, index: IntArray, values: FloatArray, precision: FloatArray) -> None:
        total = self.precisions[index] + precision
        weighted = self.values[index] * self.precisions[index] + values * precision
        self.values[index] = weighted / total
        self.precisions[index] = total

    def divide(
        self, counts: FloatArray, children: IntArray, sparsity: Sparsity | None
    ) -> FloatArray:
        """Return the counts of parents (g,) divided among their children, (g, m), all ≥ 0.

        children   (g, m) positions
        sparsity   rule by which children are taken for empty; None for none
        """
        fan = children.shape[1]
        values, variance = self.values[children], 1 / self.precisions[children]
        away = values - values.mean(axis=1, keepdims=True)
        noise = (fan - 1) * variance.mean(axis=1)
        total = (away**2).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(total > 0, np.maximum(0.0, 1 - SHRINK * noise / total), 0.0)
        shares = (counts / fan)[:, None] + part[:, None] * away
        if sparsity is not None:
            certain = values > sparsity.certain * np.sqrt(variance)
            rest = np.where(certain, 0.0, values).sum(axis=1)
            of_rest = np.sqrt(np.where(certain, 0.0, variance).sum(axis=1))
            # Children beside a certain one whose sum is no more than noise look empty.
            empty = certain.any(axis=1) & (rest <= sparsity.siblings * of_rest)
            shares[empty[:, None] & ~certain] = -np.inf
        return project_rows(shares, counts)


CERTAIN = 8.0
"""Count of a leaf, in scales of its noise, above which it certainly holds rows."""

SURE, PERHAPS = 4.0, 3.0
"""Sum over leaves, in deviations of its noise, above which they hold rows certainly, or perhaps."""

TOO_WIDE = 8.0
"""Width of a box on every axis, in widths of its rows, from which on leaves may be far away."""


def find_far_leaves(
    lower: FloatArray, upper: FloatArray, values: FloatArray, variance: FloatArray
) -> Mask:
    """Return a mask (m,) of the leaves far from all rows; all False unless the box is much too wide
    for its rows.

    lower, upper   (m, d) sides of the leaves' boxes
    values         (m,) noisy counts of the leaves, by themselves
    variance       (m,) of the Laplace noise in each

    On each axis rows lie between two leaves: those at which the leaves passed so far, from below
    and from above, first certainly hold rows. Where that range is an eighth of the box or less on
    every axis, leaves are far whose middle is more than its width away from it. None is far if the
    leaves wholly out there together perhaps hold rows.

    >>> ends = np.arange(32.0)[:, None]
    >>> counts = np.where(ends[:, 0] // 2 == 5, 90.0, 1.0)
    >>> np.flatnonzero(~find_far_leaves(ends, ends + 1, counts, np.full(32, 2e3))).tolist()[:3]
    [0, 1, 2]
    >>> np.flatnonzero(~find_far_leaves(ends, ends + 1, counts, np.full(32, 20.0))).tolist()
    [8, 9, 10, 11, 12, 13]
    """
    is_far = np.zeros(len(values), dtype=np.bool_)
    ends = []
    for low, high in zip(lower.T, upper.T, strict=True):
        first = _first_with_rows(high, values, variance)
        last = _first_with_rows(-low, values, variance)
        if first is None or last is None:
            return is_far
        ends.append((low[first], high[last]))
    start, end = np.array(ends).T
    width = end - start
    if (width * TOO_WIDE <= upper.max(axis=0) - lower.min(axis=0)).all():
        is_outside = ((upper <= start - width) | (lower >= end + width)).any(axis=1)
        if values[is_outside].sum() <= PERHAPS * np.sqrt(variance[is_outside].sum()):
            middles = (lower + upper) / 2
            is_far = ((middles < start - width) | (middles > end + width)).any(axis=1)
    return is_far


def _first_with_rows(order: FloatArray, values: FloatArray, variance: FloatArray) -> int | None:
    """Return the index, in the arrays (m,), of the first leaf by ascending ``order`` that certainly
    holds rows, by itself or together with all leaves before it; None without one."""
    passed = np.argsort(order, kind="stable")
    together = np.cumsum(values[passed]) > SURE * np.sqrt(np.cumsum(variance[passed]))
    is_sure = together | (values[passed] > CERTAIN * np.sqrt(variance[passed] / 2))
    return int(passed[is_sure.argmax()]) if is_sure.any() else None


MOSTLY_EMPTY = 0.6
"""Share of empty leaves in a group from which on some of them may be taken for empty."""

LEAST, MOST = 1.0, 6.0
SLOPE, ABOVE = 0.25, 8
"""Leaves of one depth that are each likelier empty than not count as empty unless their sum has so
many deviations: ``LEAST``, and ``SLOPE`` more, up to ``MOST``, for each level beyond ``ABOVE``
levels above the rows, as noise there moves a centre far."""


def may_hold_rows(depths: IntArray, values: FloatArray, variance: FloatArray) -> Mask:
    """Return a mask (m,) of the leaves whose noisy count does not look like that of an empty leaf.

    depths     (m,) of the leaves in their tree
    values     (m,) noisy counts of the leaves, by themselves
    variance   (m,) of the Laplace noise in each

    Leaves of one depth are a group, of which about twice as many are empty as have a negative
    count. The count z of an empty leaf has the density of the noise, that of any other 1/(z ln n),
    as if every order of size were equally likely. Leaves that are more likely empty are taken for
    it, unless their sum is more than noise: many leaves may hold few rows each. All leaves of a
    group of which less than 60 % are empty may hold rows.

    >>> values = np.array([500.0, 3, 1, 1, 1, 0.5, -1, -1, -1, -1, -2, -0.5])
    >>> may_hold_rows(np.full(12, 4), values, np.full(12, 2.0)).tolist()[:3]
    [True, False, False]
    """
    has_rows, counts = np.ones(len(values), dtype=np.bool_), values.clip(min=0)
    rows = max(2.0, float(values.sum()))
    typical = float((depths * counts).sum() / max(1.0, float(counts.sum())))
    for depth in np.unique(depths):
        group = np.flatnonzero(depths == depth)
        deviations = min(MOST, max(LEAST, LEAST + SLOPE * (typical - ABOVE - float(depth))))
        many = len(group)
        empty = min((2 * (values[group] < 0).sum() + 1) / (many + 1), 1 - 0.5 / many)
        if empty >= MOSTLY_EMPTY:
            own, scale = values[group], np.sqrt(variance[group] / 2)
            full = (1 - empty) / log(rows) / np.maximum(1.0, own)
            noise = empty / (2 * scale) * np.exp(-np.abs(own) / scale)
            weak = group[(own <= 0) | (full < noise)]
            has_rows[weak] = values[weak].sum() >= deviations * np.sqrt(variance[weak].sum())
    return has_rows
