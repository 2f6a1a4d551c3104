"""How htree's tree grows: who is counted next, how far below, with how much of its ε.

Everything here is a function of noisy counts and declared numbers. A node that
holds few rows beside its noise stops and spends all it has left on its own
count; a node that holds many hands most of its ε on to its descendants.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from dp_pipeline.gate.tree_session import TreeSession
from dp_pipeline.release.bit_tree import BitTree, Prefixes
from dp_pipeline.release.measurement import SHARES, variances
from dp_pipeline.release.noisy_tree import NoisyTree, Sparsity
from dp_pipeline.schema.encoding import FloatArray, IntArray

BLOCK = 4
"""Bits counted at once: 16 children."""

GROWTH = 2.0
"""How much more ε each generation gets than its parents'."""

FIRST_SHARE = 0.2
"""Part of ε for the first generation, which shows how much signal there is."""

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
        shares = max(1, int(FIRST_SHARE * SHARES))
        root = _Frontier(
            Prefixes.root(),
            np.zeros(1, dtype=np.int64),
            np.zeros(1),
            np.full(1, np.inf),
            np.array([SHARES]),
        )
        return self.count_below(root, BLOCK, np.array([shares]))

    def count_below(self, parents: _Frontier, bits: int, shares: IntArray) -> _Frontier:
        """Count all descendants ``bits`` further down; they are the next generation."""
        values = self._session.expand(parents.nodes, bits=bits, shares=shares)
        variance = variances(shares * self._rate / SHARES)
        nodes, fan = parents.nodes.children(bits), 1 << bits
        positions = self.noisy.add(parents.positions, nodes, values, variance)
        left = np.repeat(parents.left - shares, fan)
        spread = np.repeat(variance, fan)
        return _Frontier(nodes, positions, values.ravel().astype(np.float64), spread, left)

    def count_again(self, nodes: _Frontier) -> None:
        """Spend what is left to nodes on their own counts."""
        values = self._session.expand(nodes.nodes, bits=0, shares=nodes.left)
        variance = variances(nodes.left * self._rate / SHARES)
        self.noisy.count_again(nodes.positions, values[:, 0], variance)

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

    def counts(self) -> tuple[Prefixes, FloatArray]:
        """The leaves and their counts ≥ 0."""
        positions, nodes = self.noisy.leaves
        return nodes, self.noisy.counts(first=self.plan.first, below=self.plan.below)[positions]


def grow(session: TreeSession, tree: BitTree, *, clusters: int, rate: float) -> GrownTree:
    """Spend all of a session's ε, on every path.

    clusters   k that the tree is planned for
    rate       ε divided by the reach
    """
    growth = _Growth(session, tree, rate)
    live = growth.first()
    plan = GrowthPlan.of(float(live.values.sum()), clusters=clusters, rate=rate)
    while len(live.positions):
        live = live.where(live.left > 0)
        # Whole bits, so that many nodes share one scale of noise.
        bits = np.rint(growth.depths(live, plan)).astype(np.int64)
        ending = bits <= BLOCK
        growth.count_again(live.where(ending & (bits == 0)))
        for last in range(1, BLOCK + 1):
            leaves = live.where(ending & (bits == last))
            growth.count_below(leaves, last, leaves.left)
        live, bits = live.where(~ending), bits[~ending]
        live = growth.count_below(live, BLOCK, _shares(live.left, bits))
    return GrownTree(growth.noisy, plan)


def _shares(left: IntArray, bits: IntArray) -> IntArray:
    """Whole shares for the next generation: a geometric series that ends with what is left."""
    part = (GROWTH - 1) / (GROWTH ** (bits / BLOCK) - 1)
    return np.maximum(1, np.floor(left * np.minimum(1.0, part))).astype(np.int64)
