"""htree_kmeans, the default: a tree that spends ε along each path, deep where rows are dense.

How it grows is a function of noisy counts and declared numbers. A node that holds few rows beside
its noise stops and spends all it has left on its own count; a node that holds many hands most of
its ε on to its descendants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import log
from typing import ClassVar

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Coordinate, FloatArray, IntArray
from dp_pipeline.config.parameters import integer
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.trees import Expansion, TreeSession
from dp_pipeline.inference.earlier import EarlierTree, smoothed, whole_counts
from dp_pipeline.inference.kmeans import cluster_synopsis
from dp_pipeline.inference.noisy_tree import NoisyTree, Sparsity
from dp_pipeline.models.base import clustering_columns, plan_from, require_plan, smooth
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.models.clustering.moved_centres import (
    move_as_many_as_can,
    move_by_residuals,
    part_of_the_spread,
)
from dp_pipeline.results.clusters import Clusters, Synopsis, Tables
from dp_pipeline.results.measurement import SHARES, variance, variances
from dp_pipeline.results.trees import BitTree, CountedBoxes, Prefixes

BLOCK = 4
"""Bits counted at once: 16 children."""

GROWTH = 2.0
"""How much more ε each generation gets than its parents'."""

FIRST_SHARE = 0.2
"""Part of ε for the first generation, which shows how much signal there is."""

STRONG = 300.0
"""Rows a cluster, in units of the noise's scale, from which on leaves may be taken for empty: below
it, tails of few rows look like noise."""

MOST_NODES = 400_000
"""Nodes at which a tree stops growing."""


@dataclass(frozen=True)
class GrowthPlan:
    """What the first generation says about the whole tree.

    signal     noisy rows a cluster, in units of the noise's scale at all of ε; at least 1
    doubt      noise deviations below which a count is no reason to go on
    caution    factor on counts when depth is chosen, in (0, 1]: many rows a cluster allow
               coarser leaves than the noise alone would
    first      which of the root's children are taken for empty; they are large, and rows
               lost there would be far from every centre: only at a strong signal
    below      the same for all other nodes
    """

    signal: float
    doubt: float
    caution: float
    first: Sparsity | None
    below: Sparsity | None

    @classmethod
    def of(cls, total: float, *, clusters: int, rate: float) -> GrowthPlan:
        """From the noisy number of rows, k, and ε per row of one unit."""
        signal = max(1.0, total * rate / clusters)
        return cls(
            signal=signal,
            doubt=min(2.0, max(1.0, log(signal) / 3)),
            caution=min(1.0, max(0.35, (20 / signal) ** (2 / 3))),
            first=_sparsity(log(signal / 200) + 1),
            below=_sparsity(log(signal / 5)),
        )


def _sparsity(deviations: float) -> Sparsity | None:
    """Deviations for one child, one less for the rest; at most 3, and nothing below 1."""
    one = min(3.0, deviations)
    return Sparsity(one, one - 1) if one >= 1 else None


@dataclass(frozen=True)
class _Frontier:
    """Nodes of one generation: position in the tree, count, variance, shares left."""

    nodes: Prefixes
    positions: IntArray
    values: FloatArray
    variance: FloatArray
    left: IntArray

    def where(self, chosen: np.ndarray) -> _Frontier:
        return _Frontier(
            self.nodes.where(chosen),
            self.positions[chosen],
            self.values[chosen],
            self.variance[chosen],
            self.left[chosen],
        )


class _Growth:
    """One tree on its session; ``rate`` is ε a row of one unit."""

    def __init__(self, session: TreeSession, tree: BitTree, rate: float) -> None:
        self._session, self._tree, self._rate = session, tree, rate
        self.noisy = NoisyTree()

    def first(self) -> _Frontier:
        root = _Frontier(
            Prefixes.root(),
            np.zeros(1, dtype=np.int64),
            np.zeros(1),
            np.full(1, np.inf),
            np.array([SHARES]),
        )
        shares = np.array([max(1, int(FIRST_SHARE * SHARES))])
        return self.count([(root, BLOCK, shares)])[0]

    def count(self, asked: Sequence[tuple[_Frontier, int, IntArray]]) -> list[_Frontier]:
        """Count all descendants so many bits below nodes, for so many shares of each: they are the
        next generations. 0 bits below a node it is counted once more itself. One look for all.
        """
        answers = self._session.expand_all(
            [Expansion(parents.nodes, bits, shares) for parents, bits, shares in asked]
        )
        return [
            self._added(parents, bits, shares, values)
            for (parents, bits, shares), values in zip(asked, answers, strict=True)
        ]

    def _added(
        self, parents: _Frontier, bits: int, shares: IntArray, values: IntArray
    ) -> _Frontier:
        variance = variances(shares * self._rate / SHARES)
        if not bits:
            self.noisy.count_again(parents.positions, values[:, 0], variance)
            return parents
        nodes, fan = parents.nodes.children(bits), 1 << bits
        positions = self.noisy.add(parents.positions, nodes, values, variance)
        left = np.repeat(parents.left - shares, fan)
        spread = np.repeat(variance, fan)
        return _Frontier(nodes, positions, values.ravel().astype(np.float64), spread, left)

    def depths(self, frontier: _Frontier, plan: GrowthPlan) -> FloatArray:
        """How many bits below each node its leaves should be, (m,).

        A uniform grid over z rows at rate e is best with about (z·e)^{2d/(2+d)} cells (Su et
        al. 2016); a node is treated as a small grid of its own.
        """
        d = len(self._tree.columns)
        signal = frontier.values * frontier.left * (self._rate / SHARES * plan.caution)
        wanted = 2 * d / (2 + d) * np.log2(np.maximum(1.0, signal))
        hopeless = frontier.values < plan.doubt * np.sqrt(frontier.variance)
        if len(self.noisy) > MOST_NODES:
            hopeless[:] = True
        room = self._tree.depth - frontier.nodes.depths
        return np.where(hopeless, 0.0, np.minimum(wanted, room))


@dataclass(frozen=True)
class GrownTree:
    """A tree that has spent all of its session's ε, and the plan it grew by."""

    noisy: NoisyTree
    plan: GrowthPlan

    def synopsis(self, tree: BitTree, box: Sequence[Coordinate]) -> Synopsis:
        """The leaves and their counts ≥ 0; where the signal is strong, without those of leaves that
        look empty: in a box far wider than the rows their noise would draw centres.

        box   of the columns of ``tree``
        """
        positions, nodes = self.noisy.leaves
        lower, upper = tree.boxes(nodes, box)
        weights = self.noisy.counts(first=self.plan.first, below=self.plan.below)[positions]
        if self.plan.signal >= STRONG:
            weights = np.where(self.noisy.occupied(lower, upper), weights, 0.0)
        return Synopsis(tree.columns, lower, upper, weights)


def grow(session: TreeSession, tree: BitTree, *, clusters: int, rate: float) -> GrownTree:
    """Spend all of a session's ε, on every path.

    clusters   k that the tree is planned for
    rate       ε divided by the distance
    """
    growth = _Growth(session, tree, rate)
    live = growth.first()
    plan = GrowthPlan.of(float(live.values.sum()), clusters=clusters, rate=rate)
    while len(live.positions):
        live = live.where(live.left > 0)
        # Whole bits, so that many nodes share one scale of noise.
        bits = np.rint(growth.depths(live, plan)).astype(np.int64)
        ending = bits <= BLOCK
        last = [(live.where(ending & (bits == at)), at) for at in range(BLOCK + 1)]
        live, bits = live.where(~ending), bits[~ending]
        # Whole shares for the next generation: a geometric series that ends with what is left.
        part = np.minimum(1.0, (GROWTH - 1) / (GROWTH ** (bits / BLOCK) - 1))
        shares = np.maximum(1, np.floor(live.left * part)).astype(np.int64)
        *_, live = growth.count(
            [*((leaves, at, leaves.left) for leaves, at in last), (live, BLOCK, shares)]
        )
    return GrownTree(growth.noisy, plan)


ENOUGH = 50.0
"""Rows a cluster, in units of the noise's scale, from which on all centres are moved."""

MANY_COLUMNS = 5
"""Columns from which on, at less, it is asked whether some centres are better moved."""

NEAR_THE_MIDDLE = 0.36
"""Part of the boxes' spread below which rows are so near to the middle of all that some are."""

ENOUGH_TO_ASK = 8.0
"""Rows, in units of that question's noise, below which its answer would tell nothing."""

Mover = Callable[..., FloatArray]
"""From centres (k, d), their synopsis and ε to centres that were moved."""


@dataclass(frozen=True)
class HTreeKMeans(Clustering):
    """Count boxes of a tree, deeper where noisy counts are large, and cluster its leaves.

    k           number of centres that the tree is planned for
    columns     numeric attributes, d of them; all when empty
    recluster   number of centres to release instead of k, k when None: from the same tree,
                at no cost
    starts      starts of the weighted k-means
    plan_from   ``previous``: the leaves of the tree of the window before, cut where many rows
                were, are counted with all of ε; nothing is spent on finding them
    smooth      whether those counts are combined with what the tree of before says of these leaves

    With three columns or more, a share φ = min(0.4, d/16) of ε is kept from the tree to move
    centres (``move_by_residuals``): all k where the tree shows a strong signal. At a weak one the
    leaves are counted once more, but for long boxes whose middles are far from the mean of their
    rows: with five columns or more an eighth of φε buys how far the rows are from the middle of
    all, and where that is little beside what the boxes say, as many centres are moved as have rows
    for it, and the others are put beside moved ones, which no cost can rise by.

    *Proof.* One tree session at (1 − φ)ε: ``gate.trees`` proves that the counts along
    every root-to-leaf path cost exactly that, and that siblings are disjoint. Which node is
    counted next, with how many shares and how far below, is a function of earlier noisy
    counts, of ε, k, d and the distance (``grow``); no number of rows enters. What φε
    is used for is a function of noisy answers, and its parts add up to it; leaves are
    disjoint, Δ1 = 1, and distances and residuals have their own proofs. The centres that these
    are of depend on answers and measuring parameters alone. Agreement between levels and k-means
    are post-processing. ∎

    Source: our own; sharing ε along paths instead of levels, a budget that grows towards the
    leaves (Cormode, Procopiuc, Srivastava, Shen, Yu, ICDE 2012), inverse-variance
    consistency (Hay, Rastogi, Miklau, Suciu, VLDB 2010).
    """

    summary: ClassVar[str] = "k-means on a noisy tree that is deep where rows are dense"
    learns: ClassVar[bool] = True
    uncounted: ClassVar[str] = (
        "a tree that was not planned from the window before: it has grown where its own noise was "
        "large"
    )

    recluster: int | None = integer(None, at_least=1, at_most=10_000)
    starts: int = integer(10, at_least=1, at_most=1000, measuring=True)
    plan_from: str = plan_from()
    smooth: str = smooth()

    def check(self, domain: Domain) -> None:
        """Also DeclarationError for numbers that cannot be smoothed."""
        super().check(domain)
        require_plan(self.plan_from, self.smooth)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        """Centres (k, d) and the tree's leaves as synopsis; spends exactly ``epsilon``."""
        columns = clustering_columns(self.columns, curator.domain)
        kept = _kept_share(len(columns)) * epsilon
        box, rate = curator.domain.box(columns), float(epsilon - kept) / curator.distance
        tree = BitTree.over(columns, box)
        session = curator.open_tree(tree, epsilon=epsilon - kept)
        grown = grow(session, tree, clusters=self.k, rate=rate)
        session.close()
        synopsis, move = grown.synopsis(tree, box), None
        if kept:
            move, kept = self._mover(curator, synopsis, grown.plan.signal, kept)
        if kept and move is None:
            positions, nodes = grown.noisy.leaves
            again = curator.measure_boxes(tree, nodes, epsilon=kept)
            spread = np.full(len(nodes), variance(again.scale))
            grown.noisy.count_again(positions, again.table, spread)
            synopsis = grown.synopsis(tree, box)
        return self._released(synopsis, move, kept, rng)

    def fit_after(
        self,
        earlier: Tables,
        curator: Curator,
        *,
        epsilon: Fraction,
        rng: np.random.Generator,
    ) -> Clusters:
        """The same with the leaves of an earlier tree, counted at once.

        *Proof.* The leaves are a function of released numbers, ε and the distance. They are
        disjoint: a count of all costs what it is given; smoothing is post-processing. ∎
        """
        columns = clustering_columns(self.columns, curator.domain)
        box, tree = curator.domain.box(columns), BitTree.over(columns, curator.domain.box(columns))
        kept = _kept_share(len(columns)) * epsilon
        known = EarlierTree.of(tree, Synopsis.of_table(columns, earlier["synopsis"]), box)
        rate = float(epsilon - kept) / curator.distance
        plan = GrowthPlan.of(known.rows, clusters=self.k, rate=rate)
        leaves = known.leaves(rate=rate, caution=plan.caution)
        if plan.signal < ENOUGH and len(columns) < MANY_COLUMNS:
            # As in a new tree: what is not kept for moving centres counts the leaves.
            kept = Fraction(0)
        counted = curator.measure_boxes(tree, leaves, epsilon=epsilon - kept)
        values, spread = counted.table.astype(np.float64), variance(counted.scale)
        synopsis, move = _counted(tree, leaves, box, values, spread), None
        if kept:
            move, kept = self._mover(curator, synopsis, plan.signal, kept)
        if kept and move is None:
            again = curator.measure_boxes(tree, leaves, epsilon=kept)
            precisions = 1 / spread, 1 / variance(again.scale)
            values = np.average([values, again.table], axis=0, weights=precisions)
            spread = 1 / sum(precisions)
            synopsis = _counted(tree, leaves, box, values, spread)
        if self.smooth == "true":
            values, _ = smoothed(values, spread, known.mass(leaves), spread)
            synopsis = replace(synopsis, weights=whole_counts(values))
        return self._released(synopsis, move, kept, rng)

    def _mover(
        self, curator: Curator, synopsis: Synopsis, signal: float, kept: Fraction
    ) -> tuple[Mover | None, Fraction]:
        """What moves centres, None where the leaves are rather counted again, and what is left of
        ``kept`` for it."""
        if signal >= ENOUGH:
            return partial(move_by_residuals, curator), kept
        asked = kept / 8
        rows = float(synopsis.weights.clip(min=0).sum() * asked / curator.distance)
        if len(synopsis.columns) < MANY_COLUMNS or rows < ENOUGH_TO_ASK:
            return None, kept
        part = part_of_the_spread(curator, synopsis, epsilon=asked)
        fewer = partial(self._begun, synopsis)
        move = (
            partial(move_as_many_as_can, curator, fewer=fewer) if part < NEAR_THE_MIDDLE else None
        )
        return move, kept - asked

    def _released(
        self, synopsis: Synopsis, move: Mover | None, kept: Fraction, rng: np.random.Generator
    ) -> Clusters:
        """Centres of a synopsis, moved for ``kept`` where there is what moves them."""
        centres = self._begun(synopsis, self.k)
        if move is not None:
            centres = move(centres, synopsis, epsilon=kept)
        if self.recluster is not None:
            return self._clusters(synopsis, self.recluster, rng)
        return Clusters(synopsis.columns, centres, synopsis)

    def _begun(self, synopsis: Synopsis, k: int) -> FloatArray:
        # Starts of k-means are a function of the noisy answers: a later question depends on the
        # centres, so no other generator may choose them.
        digest = hashlib.sha256(synopsis.weights.tobytes()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:16]))
        return self._clusters(synopsis, k, rng).centres

    def _clusters(self, synopsis: Synopsis, k: int, rng: np.random.Generator) -> Clusters:
        centres = cluster_synopsis(synopsis.refined(), k=k, starts=self.starts, rng=rng)
        return Clusters(synopsis.columns, centres, synopsis)


def _kept_share(dimensions: int) -> Fraction:
    """φ: the share of ε that is not the tree's."""
    return Fraction(0) if dimensions < 3 else min(Fraction(2, 5), Fraction(dimensions, 16))


def _counted(
    tree: BitTree, leaves: Prefixes, box: Sequence[Coordinate], values: FloatArray, spread: float
) -> Synopsis:
    """Leaves of a tree with their noisy counts, all of one variance."""
    told = CountedBoxes.of_tree(tree, leaves, box, values, spread)
    return Synopsis(tree.columns, *tree.boxes(leaves, box), whole_counts(values), told)
