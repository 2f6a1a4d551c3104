"""OEPT: noisy k-means from the densest places of a noisy histogram (after Yu et al., 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from numpy.random import Generator

from dp_pipeline.config.parameters import integer, share
from dp_pipeline.gate.counter import MAX_GRID_AXES
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.kmeans import dense_seeds
from dp_pipeline.models.base import planning_units
from dp_pipeline.models.clustering.base import Clustering, round_budgets
from dp_pipeline.results.clusters import Clusters


@dataclass(frozen=True)
class OeptKMeans(Clustering):
    """Starts at the densest cells of a noisy grid, then T noisy rounds of k-means.

    k              number of centres
    columns        numeric attributes, d of them; all when empty
    nominal_rows   declared number of rows N; a paid noisy count when None
    density        share of ε for the grid
    rounds         T, a fixed number

    The published method removes outliers, starts at records of high density, and
    runs noisy k-means. Reconstructed here: outliers are clipped to the declared box,
    and density is the noisy count of a grid cell; a cell beside a denser one
    that was chosen waits until no other is left.

    *Proof.* The grid is EUGkM's at its share of ε: one measure, one row in one cell,
    Δ1 = 1 under add/remove, times the distance. Starts are a function of noisy cells.
    Each round costs its ε, as in DPk-means. A paid count of rows comes first; grid
    and rounds share what it leaves. Sum: ε. ∎
    As published it is not ε-DP: which records are outliers, and which are dense, is
    read from the records.

    Source: Yu et al. 2016.
    """

    summary: ClassVar[str] = "k-means by noisy rounds from the densest cells of a noisy grid"
    most_columns: ClassVar[int | None] = MAX_GRID_AXES

    nominal_rows: int | None = integer(None, at_least=1, measuring=True)
    density: Fraction = share(Fraction(35, 100))
    rounds: int = integer(2, at_least=1, at_most=20, measuring=True)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres (k, d) and noisy sizes of the last round; spend exactly ``epsilon``."""
        lloyd = self.lloyd(curator)
        units, remaining = planning_units(curator, self.nominal_rows, epsilon)
        of_grid = remaining * self.density
        synopsis = lloyd.grid(units=units, epsilon=of_grid)
        seeds = dense_seeds(synopsis, k=self.k, box=lloyd.box, rng=rng)
        return lloyd.rounds(seeds[None], round_budgets(remaining - of_grid, self.rounds)).clusters()
