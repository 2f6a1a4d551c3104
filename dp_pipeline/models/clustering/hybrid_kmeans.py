"""Hybrid: EUGkM, then one round of DPLloyd (Su, Cao, Li, Bertino, Jin, CODASPY 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from numpy.random import Generator

from dp_pipeline.config.parameters import integer
from dp_pipeline.gate.counter import MAX_GRID_AXES
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.kmeans import cluster_synopsis
from dp_pipeline.models.base import planning_units
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.models.clustering.dplloyd import least_error
from dp_pipeline.results.clusters import Clusters


@dataclass(frozen=True)
class HybridKMeans(Clustering):
    """Weighted k-means on a noisy uniform grid with ε/2, then one noisy round with ε/2.

    k              number of centres
    columns        numeric attributes, d of them; all when empty
    nominal_rows   declared number of rows N; a paid noisy count when None
    starts         starts of the weighted k-means

    *Proof.* The grid is EUGkM's at ε/2: one measure of all cells, one row in one
    cell, Δ1 = 1 under add/remove, times the distance. Its centres are post-processing.
    The round at ε/2 is DPLloyd's: two measures whose shares add up to ε/2. A paid
    count of rows comes first, out of ε; the two halves are of what it leaves. ∎
    As published it is not ε-DP: the box is the data's own and the grid reads the exact N.

    Source: Su et al. 2016, Hybrid.
    """

    summary: ClassVar[str] = "k-means on a noisy uniform grid, and one noisy round from there"
    most_columns: ClassVar[int | None] = MAX_GRID_AXES

    nominal_rows: int | None = integer(None, at_least=1, measuring=True)
    starts: int = integer(10, at_least=1, at_most=1000, measuring=True)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres (k, d), noisy sizes and the noisy grid; spend exactly ``epsilon``."""
        lloyd = self.lloyd(curator)
        units, remaining = planning_units(curator, self.nominal_rows, epsilon)
        synopsis = lloyd.grid(units=units, epsilon=remaining / 2)
        start = cluster_synopsis(synopsis, k=self.k, starts=self.starts, rng=rng)
        share = least_error(len(lloyd.columns))
        means = lloyd.round(start[None], epsilon=remaining / 2, sizes_share=share)
        return Clusters(lloyd.columns, means.centres[0], synopsis, means.sizes[0])
