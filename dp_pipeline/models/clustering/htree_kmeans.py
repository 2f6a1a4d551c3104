"""htree_kmeans, the default: k-means on a noisy tree that spends ε along each path.

It grows by noisy counts and declared numbers, deep where rows are dense. A node with few rows for
its noise stops and spends its remaining ε on its own count; a node with many leaves most of its ε
to its descendants.
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
from numpy.random import Generator

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Coordinate, FloatArray, IntArray
from dp_pipeline.config.parameters import integer
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.trees import Expansion, TreeSession
from dp_pipeline.inference import noisy_tree
from dp_pipeline.inference.earlier import (
    UNSEEN_DRIFT,
    EarlierTree,
    combine_with_earlier,
    nonnegative_with_sum,
)
from dp_pipeline.inference.kmeans import cluster_synopsis
from dp_pipeline.models.base import clustering_columns, plan_from, require_plan, smooth
from dp_pipeline.models.clustering import moved_centres
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.results.clusters import Clusters, Synopsis, Tables
from dp_pipeline.results.measurement import SHARES, NoisyNodes, variance, variances
from dp_pipeline.results.trees import BitTree, CountedBoxes, Prefixes

BITS_A_BLOCK = 4
"""Bits counted at once: 16 children."""

GROWTH = 2.0
"""Factor on ε from each generation to the next."""

FIRST_SHARE = Fraction(1, 5)
"""Part of ε for the first generation, which shows how much signal there is."""

STRONG_SIGNAL = 300.0
"""Rows a cluster, in scales of the noise, from which on leaves may be taken for empty: with fewer,
tails of few rows look like noise."""

MANY_UNITS = 500.0
"""Rows, in scales of the noise, from which on they show whether the box is far too wide."""

FEW_UNITS = 200.0
"""Rows, in scales of the noise, below which leaves are coarser: small ones would be noise alone."""

EVEN_UNITS = 2.0
"""Rows, in scales of the noise, that are spread evenly over the box below ``FEW_UNITS``: else one
leaf might have all weight, and all centres."""

FEW_NODES = 4
"""Most growing nodes of a generation that only locates the rows, in a box that is far too wide."""

LOOK = 40.0
"""Rows of a node in such a generation, in scales of the noise of its children's counts."""

MOST_NODES = 400_000
"""Nodes at which a tree stops growing."""


@dataclass(frozen=True)
class GrowthPlan:
    """The limits of a tree's growth that follow from the counts of its first generation.

    rate            the ε of the tree divided by the distance: 1 / the scale of its noise
    units           noisy number of rows / the scale of the noise
    signal          noisy number of rows in a cluster / the scale of the noise; at least 1
    min_deviations  deviations of noise that a count must reach for a node to grow
    caution         factor on counts when depth is chosen, in (0, 1]: leaves are coarser where rows
                    a cluster are many, or all rows are few
    first           rule by which children of the root count as empty; None unless the signal is
                    strong, as rows lost in these large boxes would be far from every centre
    below           rule by which the children of all other nodes count as empty; None at a weak
                    signal
    """

    rate: float
    units: float
    signal: float
    min_deviations: float
    caution: float
    first: noisy_tree.Sparsity | None
    below: noisy_tree.Sparsity | None

    @classmethod
    def of(cls, total: float, *, clusters: int, rate: float) -> GrowthPlan:
        """Return the plan for a noisy number of rows, ``total``, k clusters, and ``rate`` as in the
        class."""
        units = total * rate
        signal = max(1.0, units / clusters)
        return cls(
            rate=rate,
            units=units,
            signal=signal,
            min_deviations=min(2.0, max(1.0, log(signal) / 3)),
            caution=min(1.0, max(0.35, min(units / FEW_UNITS, (20 / signal) ** (2 / 3)))),
            first=_sparsity(log(signal / 200) + 1),
            below=_sparsity(log(signal / 5)),
        )


def _sparsity(deviations: float) -> noisy_tree.Sparsity | None:
    capped = min(3.0, deviations)
    return noisy_tree.Sparsity(capped, capped - 1) if capped >= 1 else None


@dataclass(frozen=True)
class _Frontier:
    """The nodes of one generation of a tree, with their counts, variances and remaining shares
    of ε."""

    nodes: Prefixes
    positions: IntArray
    values: FloatArray
    variance: FloatArray
    shares: IntArray

    def where(self, mask: np.ndarray) -> _Frontier:
        parts = (self.positions, self.values, self.variance, self.shares)
        return _Frontier(self.nodes.where(mask), *(part[mask] for part in parts))


class _Growth:
    """The growth of one tree in its session, where ``rate`` is the session's ε divided by the
    distance."""

    def __init__(
        self, session: TreeSession, tree: BitTree, noisy: noisy_tree.NoisyTree, rate: float
    ) -> None:
        self._session, self._tree, self._rate = session, tree, rate
        self.noisy = noisy

    def initial_frontier(self) -> _Frontier:
        """Return the leaves at which the session was opened, with all shares of its ε remaining."""
        positions, nodes = self.noisy.leaves
        shares = np.full(len(nodes), SHARES)
        return _Frontier(nodes, positions, *self.noisy.estimates(positions), shares)

    def count(self, requests: Sequence[tuple[_Frontier, int, IntArray]]) -> list[_Frontier]:
        """Count descendants of nodes, all requests in one query; return one frontier for each
        request: the descendants, or for 0 bits the nodes, which are counted again.

        requests   nodes, how many bits below them the descendants are, and the shares of ε that
                   each node spends (m,)
        """
        answers = self._session.expand_all(
            [Expansion(parents.nodes, bits, shares) for parents, bits, shares in requests]
        )
        frontiers = []
        for (parents, bits, shares), values in zip(requests, answers, strict=True):
            variance = variances(shares * self._rate / SHARES)
            if not bits:
                self.noisy.count_again(parents.positions, values[:, 0], variance)
                frontiers.append(parents)
                continue
            nodes, fan = parents.nodes.children(bits), 1 << bits
            positions = self.noisy.add(parents.positions, nodes, values, variance)
            remaining = np.repeat(parents.shares - shares, fan)
            counts = values.ravel().astype(np.float64)
            child_variance = np.repeat(variance, fan)
            frontiers.append(_Frontier(nodes, positions, counts, child_variance, remaining))
        return frontiers

    def count_unsure_again(self, frontier: _Frontier) -> _Frontier:
        """Count the nodes again whose counts may be noise alone, for a fifth of their remaining ε;
        return all nodes, with better counts and fewer shares of these.

        Each spends one share at least; a node that has only one left is not counted again.
        """
        is_unsure = frontier.values < noisy_tree.CERTAIN * np.sqrt(frontier.variance / 2)
        unsure = frontier.where(is_unsure & (frontier.shares > 1))
        spent = np.maximum(1, (float(FIRST_SHARE) * unsure.shares).astype(np.int64))
        self.count([(unsure, 0, spent)])
        shares = frontier.shares.copy()
        shares[np.isin(frontier.positions, unsure.positions)] -= spent
        values, variance = self.noisy.estimates(frontier.positions)
        return replace(frontier, values=values, variance=variance, shares=shares)

    def depths(self, frontier: _Frontier, plan: GrowthPlan) -> FloatArray:
        """Return how many bits below each node its leaves should be (m,), not yet rounded; 0 where
        the node itself should be a leaf.

        That is so where its count may be noise alone, and for all nodes once the tree has more than
        ``MOST_NODES``. A uniform grid over z rows at rate e is best with about (z·e)^{2d/(2+d)}
        cells (Su et al. 2016); a node is treated as a small grid of its own.
        """
        d = len(self._tree.columns)
        signal = frontier.values * frontier.shares * (self._rate / SHARES * plan.caution)
        depths = 2 * d / (2 + d) * np.log2(np.maximum(1.0, signal))
        is_noise = frontier.values < plan.min_deviations * np.sqrt(frontier.variance)
        if len(self.noisy) > MOST_NODES:
            is_noise[:] = True
        deepest = self._tree.depth - frontier.nodes.depths
        return np.where(is_noise, 0.0, np.minimum(depths, deepest))


def leaf_synopsis(
    noisy: noisy_tree.NoisyTree, plan: GrowthPlan, tree: BitTree, box: Sequence[Coordinate]
) -> Synopsis:
    """Return the leaves of a grown tree, with denoised counts ≥ 0, as a synopsis.

    box   intervals of the columns of ``tree``

    At a strong signal, leaves that look empty have weight 0, and so have leaves far from all rows
    in a box that is far too wide: their noise would attract centres. Where rows are few, a few more
    are spread evenly over the box.
    """
    positions, nodes = noisy.leaves
    lower, upper = tree.boxes(nodes, box)
    weights = noisy.counts(first=plan.first, below=plan.below)[positions]
    values, noise_variances = noisy.estimates(positions)
    if plan.signal >= STRONG_SIGNAL:
        weights = np.where(
            noisy_tree.may_hold_rows(nodes.depths, values, noise_variances), weights, 0.0
        )
    if plan.units >= MANY_UNITS:
        is_far = noisy_tree.find_far_leaves(lower, upper, values, noise_variances)
        weights = np.where(is_far, 0.0, weights)
    if plan.units < FEW_UNITS:
        weights = weights + EVEN_UNITS / plan.rate * 0.5**nodes.depths
    return Synopsis(tree.columns, lower, upper, weights, np.sqrt(noise_variances))


def first_boxes(tree: BitTree, counted: NoisyNodes, *, is_coarse: bool) -> noisy_tree.NoisyTree:
    """Return a noisy tree of the root and its first generation.

    counted     counts of the sixteen boxes ``BITS_A_BLOCK`` below the root
    is_coarse   whether boxes are added up until each column is halved equally often: with three
                columns two and two
    """
    dimensions, noisy = len(tree.columns), noisy_tree.NoisyTree()
    bits = BITS_A_BLOCK % dimensions if is_coarse and dimensions < BITS_A_BLOCK else 0
    values = counted.table.reshape(-1, 1 << bits).sum(axis=1)
    noise_variance = np.full(1, variance(counted.scale) * (1 << bits))
    nodes = Prefixes.root().children(BITS_A_BLOCK - bits)
    noisy.add(np.zeros(1, dtype=np.int64), nodes, values[None, :], noise_variance)
    return noisy


def grow(
    session: TreeSession,
    tree: BitTree,
    noisy: noisy_tree.NoisyTree,
    plan: GrowthPlan,
    *,
    rate: float,
) -> None:
    """Grow ``noisy`` below its leaves, in place, by spending all of a session's ε on every path.

    session   opened on these leaves
    rate      the session's ε divided by the distance
    """
    growth = _Growth(session, tree, noisy, rate)
    live = growth.initial_frontier()
    is_look = True
    while len(live.positions):
        live = live.where(live.shares > 0)
        # Whole bits, so that many nodes share one scale of noise.
        bits = np.rint(growth.depths(live, plan)).astype(np.int64)
        is_last = bits <= BITS_A_BLOCK
        last = [(live.where(is_last & (bits == depth)), depth) for depth in range(BITS_A_BLOCK + 1)]
        live, bits = live.where(~is_last), bits[~is_last]
        # Whole shares for the next generation: a geometric series that ends with all of them.
        part = np.minimum(1.0, (GROWTH - 1) / (GROWTH ** (bits / BITS_A_BLOCK) - 1))
        shares = live.shares * part
        is_look = is_look and len(bits) <= FEW_NODES
        if is_look:
            shares = np.minimum(shares, LOOK * SHARES / (rate * live.values))
        shares = np.maximum(1, np.floor(shares)).astype(np.int64)
        leaves = [(frontier, depth, frontier.shares) for frontier, depth in last]
        *_, live = growth.count([*leaves, (live, BITS_A_BLOCK, shares)])
        if is_look:
            live = growth.count_unsure_again(live)


ENOUGH_SIGNAL = 50.0
"""Rows a cluster, in scales of the noise, from which on all centres are moved."""

MANY_COLUMNS = 5
"""Columns from which on, at a weaker signal, a query decides whether some centres are moved."""

NEAR_THE_MIDDLE = 0.36
"""Largest spread of rows around their middle, relative to even boxes, at which some are moved."""

ASKING_SHARE = Fraction(1, 8)
"""Part of the ε kept for moving centres that this query costs."""

ENOUGH_TO_ASK = 8.0
"""Rows, in scales of that query's noise, below which its answer would tell nothing."""

Mover = Callable[..., FloatArray]
"""From centres (k, d), their synopsis and ε to moved centres."""


@dataclass(frozen=True)
class HTreeKMeans(Clustering):
    """k-means on the leaves of a noisy tree, which is deeper where noisy counts are large.

    k           number of centres that the tree is planned for
    recluster   number of centres to release instead of the k, by k-means on the same tree at no
                cost, so they are not moved; None: the k centres
    starts      starts of the weighted k-means
    plan_from   ``previous``: the leaves of the tree of the window before, cut where many rows
                were, are counted with all of ε; nothing is spent on finding them
    smooth      whether those counts are combined with what the tree of before says of these leaves

    A fifth of (1 − φ)ε counts sixteen boxes, which show how strong the signal is. With three
    columns or more and a strong one, the share φ = min(0.4, d/16) of ε is kept from the tree and
    moves all centres (``move_by_residuals``). At a weaker one the tree gets it too, with fewer than
    five columns or too few rows to ask anything. Else an eighth of φε buys how far the rows are
    from the middle of all: where that is little beside what the boxes say, as many centres are
    moved as have rows for it, and the others are put beside moved ones, which no cost can rise by;
    if not, the leaves are counted once more.

    *Proof.* Sixteen disjoint boxes cost (1 − φ)ε/5, Δ1 = 1. Whether the tree gets φε is a function
    of their noisy counts, of ε, k, d and the distance. One tree session on disjoint boxes takes
    what is neither spent nor kept: ``gate.trees`` proves that the counts along every path below
    them cost exactly that. Which node is counted next, with how many shares and how far below, is a
    function of earlier noisy counts and of the same numbers (``grow``); no number of rows enters.
    What φε is used for is a function of noisy answers, and its parts add up to it; leaves are
    disjoint, Δ1 = 1, and distances and residuals have their own proofs. The centres that these are
    of depend on answers and measuring parameters alone. Agreement between levels and k-means are
    post-processing. ∎

    Source: our own; sharing ε along paths instead of levels, a budget that grows towards the
    leaves (Cormode, Procopiuc, Srivastava, Shen, Yu, ICDE 2012), inverse-variance
    consistency (Hay, Rastogi, Miklau, Suciu, VLDB 2010).
    """

    summary: ClassVar[str] = "k-means on a noisy tree that is deep where rows are dense"
    learns: ClassVar[bool] = True
    uncounted: ClassVar[str] = (
        "a tree that was not planned from the window before, and so has grown where its own noise "
        "was large"
    )

    recluster: int | None = integer(None, at_least=1, at_most=10_000)
    starts: int = integer(10, at_least=1, at_most=1000, measuring=True)
    plan_from: str = plan_from()
    smooth: str = smooth()

    def check(self, domain: Domain) -> None:
        super().check(domain)
        require_plan(self.plan_from, self.smooth)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres, (k, d) or (recluster, d), and the leaves of the tree as synopsis.

        Starts of k-means are drawn by ``rng`` where ``recluster`` is given, else by a generator
        whose seed is a hash of the noisy leaves.
        """
        columns = clustering_columns(self.columns, curator.domain)
        box, tree = curator.domain.box(columns), BitTree.over(columns, curator.domain.box(columns))
        boxes = Prefixes.root().children(BITS_A_BLOCK)
        price = FIRST_SHARE * (1 - moving_share(len(columns))) * epsilon
        counted = curator.measure_boxes(tree, boxes, epsilon=price)
        plan, budget = self._plan(curator, float(counted.table.sum()), len(columns), epsilon)
        noisy = first_boxes(tree, counted, is_coarse=plan.units < FEW_UNITS)
        remaining = epsilon - price - budget
        session = curator.open_tree(tree, epsilon=remaining, nodes=noisy.leaves[1])
        grow(session, tree, noisy, plan, rate=float(remaining) / curator.distance)
        session.require_all_spent()
        synopsis, mover = leaf_synopsis(noisy, plan, tree, box), None
        if budget:
            mover, budget = self._mover(curator, synopsis, plan.signal, budget)
        if budget and mover is None:
            positions, nodes = noisy.leaves
            again = curator.measure_boxes(tree, nodes, epsilon=budget)
            noise_variance = np.full(len(nodes), variance(again.scale))
            noisy.count_again(positions, again.table, noise_variance)
            synopsis = leaf_synopsis(noisy, plan, tree, box)
        return self._clusters(synopsis, mover, budget, rng)

    def fit_after(
        self, earlier: Tables, curator: Curator, *, epsilon: Fraction, rng: Generator
    ) -> Clusters:
        """Return centres, (k, d) or (recluster, d), and, as synopsis, boxes that are smaller where
        an earlier release has more rows, all counted anew.

        Starts of k-means are as in ``fit``.

        *Proof.* The leaves are a function of released numbers, ε and the distance. They are
        disjoint: a count of all costs what it is given; smoothing is post-processing. ∎
        """
        columns = clustering_columns(self.columns, curator.domain)
        box, tree = curator.domain.box(columns), BitTree.over(columns, curator.domain.box(columns))
        released = EarlierTree.of(tree, Synopsis.of_table(columns, earlier["synopsis"]), box)
        plan, budget = self._plan(curator, released.rows, len(columns), epsilon)
        leaves = released.leaves(rate=plan.rate, caution=plan.caution)
        counted = curator.measure_boxes(tree, leaves, epsilon=epsilon - budget)
        values, noise_variance = counted.table.astype(np.float64), variance(counted.scale)
        synopsis, mover = _counted_leaves(tree, leaves, box, values, noise_variance), None
        if budget:
            mover, budget = self._mover(curator, synopsis, plan.signal, budget)
        if budget and mover is None:
            again = curator.measure_boxes(tree, leaves, epsilon=budget)
            precisions = 1 / noise_variance, 1 / variance(again.scale)
            values = np.average([values, again.table], axis=0, weights=precisions)
            noise_variance = 1 / sum(precisions)
            synopsis = _counted_leaves(tree, leaves, box, values, noise_variance)
        if self.smooth == "true":
            before = released.mass(leaves)
            values, spread = combine_with_earlier(
                values, noise_variance, before, noise_variance, doubt=-UNSEEN_DRIFT
            )
            deviations = np.full(len(values), spread**0.5)
            synopsis = replace(
                synopsis, weights=nonnegative_with_sum(values), deviations=deviations
            )
        return self._clusters(synopsis, mover, budget, rng)

    def _plan(
        self, curator: Curator, total: float, dimensions: int, epsilon: Fraction
    ) -> tuple[GrowthPlan, Fraction]:
        """Return the plan for a noisy number of rows, and the part of ε that is kept from the tree
        to move centres.

        It is 0 below three columns, and at a weak signal where columns or rows are too few for the
        query of ``_mover``.
        """
        budget = moving_share(dimensions) * epsilon
        rate = float(epsilon - budget) / curator.distance
        plan = GrowthPlan.of(total, clusters=self.k, rate=rate)
        query_units = total * float(budget * ASKING_SHARE) / curator.distance
        can_ask = dimensions >= MANY_COLUMNS and query_units >= ENOUGH_TO_ASK
        if not budget or plan.signal >= ENOUGH_SIGNAL or can_ask:
            return plan, budget
        rate = float(epsilon) / curator.distance
        return GrowthPlan.of(total, clusters=self.k, rate=rate), Fraction(0)

    def _mover(
        self, curator: Curator, synopsis: Synopsis, signal: float, budget: Fraction
    ) -> tuple[Mover | None, Fraction]:
        """Return the function that moves centres, or None if leaves should be counted again, and
        the ε that is left for either.

        At a weak signal a query decides, for an eighth of ``budget``."""
        if signal >= ENOUGH_SIGNAL:
            return partial(moved_centres.move_by_residuals, curator), budget
        price = budget * ASKING_SHARE
        if (
            moved_centres.measure_relative_spread(curator, synopsis, epsilon=price)
            >= NEAR_THE_MIDDLE
        ):
            return None, budget - price
        fewer = partial(self._tree_centres, synopsis)
        return partial(moved_centres.move_as_many_as_can, curator, fewer=fewer), budget - price

    def _clusters(
        self, synopsis: Synopsis, mover: Mover | None, budget: Fraction, rng: Generator
    ) -> Clusters:
        centres = self._tree_centres(synopsis, self.k)
        if mover is not None:
            centres = mover(centres, synopsis, epsilon=budget)
        if self.recluster is not None:
            centres = self._k_means(synopsis, self.recluster, rng)
        return Clusters(synopsis.columns, centres, synopsis)

    def _tree_centres(self, synopsis: Synopsis, k: int) -> FloatArray:
        # Starts of k-means are a function of the noisy answers: a later question depends on the
        # centres, so no other generator may choose them.
        digest = hashlib.sha256(synopsis.weights.tobytes()).digest()
        return self._k_means(synopsis, k, np.random.default_rng(int.from_bytes(digest[:16])))

    def _k_means(self, synopsis: Synopsis, k: int, rng: Generator) -> FloatArray:
        return cluster_synopsis(synopsis.refined(), k=k, starts=self.starts, rng=rng)


def moving_share(dimensions: int) -> Fraction:
    """Return the share φ of ε that is kept from the tree's growth, to move centres; 0 below three
    dimensions."""
    return Fraction(0) if dimensions < 3 else min(Fraction(2, 5), Fraction(dimensions, 16))


def _counted_leaves(
    tree: BitTree,
    leaves: Prefixes,
    box: Sequence[Coordinate],
    values: FloatArray,
    noise_variance: float,
) -> Synopsis:
    counted = CountedBoxes.of_tree(tree, leaves, box, values, noise_variance)
    deviations = np.full(len(leaves), noise_variance**0.5)
    boxes = tree.boxes(leaves, box)
    return Synopsis(tree.columns, *boxes, nonnegative_with_sum(values), deviations, counted)
