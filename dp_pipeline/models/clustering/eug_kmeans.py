"""EUGkM: k-means on a noisy uniform grid (Su, Cao, Li, Bertino, Jin, CODASPY 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from numpy.random import Generator

from dp_pipeline.config.parameters import integer
from dp_pipeline.gate.counter import MAX_GRID_AXES
from dp_pipeline.gate.curator import Curator
from dp_pipeline.models.base import planning_units
from dp_pipeline.models.clustering.base import SynopsisClustering
from dp_pipeline.results.clusters import Clusters


@dataclass(frozen=True)
class EugKMeans(SynopsisClustering):
    """Weighted k-means on the noisy counts of a public grid.

    k              number of centres
    columns        numeric attributes, d of them; all when empty
    nominal_rows   declared number of rows N; a paid noisy count when None
    starts         starts of the weighted k-means

    The grid has M = (N·ε/10)^{2d/(2+d)} cells, ⌊M^{1/d}⌋ an axis.

    *Proof.* The box and the number of cells are declared, or functions of a
    paid noisy count. All cells are measured, empty ones included; one row is in
    one cell, so Δ1 = 1 under add/remove, times the distance: one measure costs its
    ε, and the count of rows the rest. k-means on noisy cells is post-processing. ∎
    As published it is not ε-DP: the box is the data's own and M reads the exact N.

    Source: Su et al. 2016, EUGkM; the exponent for d > 2 is theirs.
    """

    summary: ClassVar[str] = "k-means on a noisy uniform grid over the declared box"
    most_columns: ClassVar[int | None] = MAX_GRID_AXES

    nominal_rows: int | None = integer(None, at_least=1, measuring=True)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres (k, d) and the noisy grid as synopsis; spend exactly ``epsilon``."""
        units, remaining = planning_units(curator, self.nominal_rows, epsilon)
        return self.clusters(self.lloyd(curator).grid(units=units, epsilon=remaining), rng)
