"""DPQTk-means: k-means on the noisy leaves of a quadtree (Zhang Kehua, Cheng Weiqing, 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log
from typing import ClassVar

import numpy as np

from dp_pipeline.gate.counts import MOST_GRID_CELLS
from dp_pipeline.gate.curator import Curator
from dp_pipeline.models.base import clustering_columns, planning_units
from dp_pipeline.models.parameters import integer, names, share
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.quadtree import Nodes, Synopsis
from dp_pipeline.release.weighted_kmeans import cluster_synopsis
from dp_pipeline.schema.domain import Domain


@dataclass(frozen=True)
class DpqtKMeans:
    """Split boxes while their noisy count is large, count the leaves, cluster them.

    k              number of centres
    columns        numeric attributes, d of them; all when empty
    nominal_rows   declared number of rows N; a paid noisy count when None
    gamma          share of ε for the splits (paper: 0.3)
    starts         starts of the weighted k-means

    Heights 0 … H−1 are tested, H = ⌊ln(N)/d⌋: a node is split at its middle
    into 2^d while its noisy count exceeds N/1000; leaves are counted afresh.

    *Proof.* The live nodes of one height are disjoint, so one row is in at most
    one and a height's measure at γε/H has Δ1 = 1 under add/remove, times the
    reach. H such measures cost γε. The leaves are disjoint too: one measure at
    (1−γ)ε. Sum: ε. Which nodes live is a function of earlier noisy counts; H and
    the threshold of N, which is declared or paid for. A height without live
    nodes is an empty measure: charged all the same. k-means is post-processing. ∎
    As published it is not ε-DP: bounds from the data, initial centres from
    k-means on the records, N exact, and one level more than was paid for.

    Source: Zhang and Cheng 2021.
    """

    summary: ClassVar[str] = "k-means on the noisy leaves of a quadtree over the declared box"

    k: int = integer(8, at_least=1, at_most=10_000)
    columns: tuple[str, ...] = names()
    nominal_rows: int | None = integer(None, at_least=1, measuring=True)
    gamma: Fraction = share(Fraction(3, 10))
    starts: int = integer(10, at_least=1, at_most=1000)

    def check(self, domain: Domain) -> None:
        """Raise DeclarationError unless the columns are numeric attributes."""
        clustering_columns(self.columns, domain)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        """Centres (k, d) and the noisy leaves as synopsis; spends exactly ``epsilon``."""
        columns = clustering_columns(self.columns, curator.domain)
        units, left = planning_units(curator, self.nominal_rows, epsilon)
        leaves, left = self._grow(curator, columns, units, left)
        depth = tree_height(units, len(columns))
        noisy = curator.measure_nodes(columns, leaves, depth=depth, epsilon=left)
        box = curator.domain.box(columns)
        synopsis = Synopsis.of_nodes(leaves, noisy.table.astype(np.float64), columns, box)
        centres = cluster_synopsis(synopsis, k=self.k, starts=self.starts, rng=rng)
        return Clusters(columns, centres, synopsis)

    def _grow(
        self, curator: Curator, columns: tuple[str, ...], units: float, epsilon: Fraction
    ) -> tuple[Nodes, Fraction]:
        """The leaves, and the ε that is left for counting them."""
        depth = tree_height(units, len(columns))
        if depth == 0:
            return Nodes.root(), epsilon
        threshold = units * curator.reach / 1000
        live, leaves = Nodes.root(), []
        for _ in range(depth):
            share_of_height = epsilon * self.gamma / depth
            noisy = curator.measure_nodes(columns, live, depth=depth, epsilon=share_of_height)
            splits = noisy.table > threshold
            leaves.append(live.where(~splits))
            live = live.where(splits).children(len(columns))
        return Nodes.joined([*leaves, live]), epsilon * (1 - self.gamma)


def tree_height(units: float, dimensions: int) -> int:
    """⌊ln(units)/d⌋, at least 0, with a finest level within the gate's cap.

    >>> tree_height(100_000, 2)
    5
    """
    most = int(log(MOST_GRID_CELLS, 2) / dimensions)
    return max(0, min(int(log(max(1.0, units)) / dimensions), most))
