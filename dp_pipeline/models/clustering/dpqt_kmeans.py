"""DPQTk-means: k-means on the noisy leaves of a quadtree (Zhang Kehua, Cheng Weiqing, 2021)."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import log
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import COORDINATE_BITS, IntArray
from dp_pipeline.config.parameters import integer, share, variant
from dp_pipeline.gate.counter import MAX_GRID_AXES, MAX_GRID_CELLS
from dp_pipeline.gate.curator import Curator
from dp_pipeline.models.base import PrivacyGuarantee, clustering_columns, planning_units
from dp_pipeline.models.clustering.base import SynopsisClustering
from dp_pipeline.results.clusters import Clusters, Synopsis
from dp_pipeline.results.measurement import variance
from dp_pipeline.results.trees import BitTree, CountedBoxes, Prefixes


@dataclass(frozen=True)
class DpqtKMeans(SynopsisClustering):
    """k-means on the leaves of a noisy quadtree, in which boxes with large noisy counts are split.

    nominal_rows   declared number of rows N; a paid noisy count when None
    gamma          share of ε for the splits (paper: 0.3)
    variant        ``sound``; ``published``: the box is the data's, on benchmarks alone

    Depths 0 … H−1 are tested, H = ⌊ln(N)/d⌋: a node is split at its middle
    into 2^d while its noisy count exceeds N/1000; leaves are counted afresh.

    *Proof.* The live nodes of one depth are disjoint, so one row is in at most
    one and a depth's measure at γε/H has Δ1 = 1 under add/remove, times the
    distance. H such measures cost γε. The leaves are disjoint too: one measure at
    (1−γ)ε. Sum: ε. Which nodes live is a function of earlier noisy counts; H and
    the threshold of N, which is declared or paid for. A depth without live
    nodes is an empty measure: charged all the same. k-means is post-processing. ∎
    As published it is not ε-DP: bounds from the data, initial centres from
    k-means on the records, N exact, and one level more than was paid for.
    ``published`` is the first of these faults alone, which is enough. The data's bounds
    are snapped outward to the tree: it grows from the smallest node that holds every
    row, at most as far below the box as its H levels leave cells to count. One row at
    the other end of the box makes that node the whole box, so boxes that were released
    with probability 0 get a positive one.

    Source: Zhang and Cheng 2021.
    """

    summary: ClassVar[str] = "k-means on the noisy leaves of a quadtree over the declared box"
    most_columns: ClassVar[int | None] = MAX_GRID_AXES
    uncounted: ClassVar[str] = "boxes of a tree that begins around the rows of its window"

    nominal_rows: int | None = integer(None, at_least=1, measuring=True)
    gamma: Fraction = share(Fraction(3, 10))
    variant: str = variant()

    def guarantee(self, epsilon: Fraction, domain: Domain | None = None) -> PrivacyGuarantee:  # noqa: ARG002
        """Return the guarantee of ε, or a ``not-dp`` one for ``published``, which uses the data's
        box."""
        if self.variant == "sound":
            return PrivacyGuarantee("dp", epsilon)
        return PrivacyGuarantee(
            "not-dp", epsilon, "the box is taken from the smallest and largest records"
        )

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres (k, d) and noisy leaves as synopsis; ``rng`` draws starts of k-means."""
        columns = clustering_columns(self.columns, curator.domain)
        units, remaining = planning_units(curator, self.nominal_rows, epsilon)
        leaves, remaining = self._grow(curator, columns, units, remaining)
        d = len(columns)
        depth = max(tree_height(units, d), int(leaves.depths.max()) // d)
        noisy = curator.measure_nodes(columns, leaves, depth=depth, epsilon=remaining)
        box = curator.domain.box(columns)
        weights = noisy.table.astype(np.float64)
        deviations = np.full(len(weights), variance(noisy.scale) ** 0.5)
        # It has the boxes of every quadtree, whatever its height.
        tree = BitTree.quadtree(columns, finest_height(d))
        synopsis = Synopsis(columns, *tree.boxes(leaves, box), weights, deviations)
        if self.variant == "sound":
            counted = CountedBoxes.of_tree(tree, leaves, box, weights, variance(noisy.scale))
            synopsis = replace(synopsis, counted=counted)
        return self.clusters(synopsis, rng)

    def _grow(
        self, curator: Curator, columns: tuple[str, ...], units: float, epsilon: Fraction
    ) -> tuple[Prefixes, Fraction]:
        """Grow the tree by noisy counts; return its leaves, and the ε left to count these, which is
        all of it for a tree without levels."""
        d = len(columns)
        height = tree_height(units, d)
        live, leaves = Prefixes.root(), list[Prefixes]()
        if self.variant == "published":
            # The node around the data, in place of the whole box.
            bounds = curator.disclose_bounds(columns, reason=self.guarantee(Fraction(1)).reason)
            live = node_around(bounds, most=finest_height(d) - height)
        if height == 0:
            return live, epsilon
        depth = int(live.depths[0]) // d + height
        threshold = units * curator.distance / 1000
        for _ in range(height):
            level_epsilon = epsilon * self.gamma / height
            noisy = curator.measure_nodes(columns, live, depth=depth, epsilon=level_epsilon)
            is_split = noisy.table > threshold
            leaves.append(live.where(~is_split))
            live = live.where(is_split).children(d)
        return Prefixes.concatenate([*leaves, live]), epsilon * (1 - self.gamma)


def finest_height(dimensions: int) -> int:
    """Return the largest h for which a grid of 2^h cells on each axis may be counted."""
    return int(log(MAX_GRID_CELLS, 2) / dimensions)


def node_around(bounds: IntArray, *, most: int) -> Prefixes:
    """Return the smallest node that contains two fixed-point corners (2, d), at most ``most``
    levels below the root, which is the whole box.

    >>> node_around(np.array([[1, 1], [65536, 9]]), most=5)
    Prefixes(depths=array([2]), bits=array([3]))
    """
    for depth in range(most, 0, -1):
        cells = 1 << depth
        low, high = np.minimum(
            (bounds + (1 << COORDINATE_BITS)) * cells >> COORDINATE_BITS + 1, cells - 1
        )
        if (low == high).all():
            bits = 0
            for level in reversed(range(depth)):
                for place in reversed(low.tolist()):
                    bits = bits << 1 | place >> level & 1
            return Prefixes(np.array([depth * len(low)]), np.array([bits]))
    return Prefixes.root()


def tree_height(units: float, dimensions: int) -> int:
    """Return the number of levels to grow, ⌊ln(units)/d⌋, from 0 to ``finest_height``.

    >>> tree_height(100_000, 2)
    5
    """
    return max(0, min(int(log(max(1.0, units)) / dimensions), finest_height(dimensions)))
