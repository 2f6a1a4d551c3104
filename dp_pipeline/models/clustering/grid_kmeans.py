"""k-means from the noisy counts of a public grid: on its cells, or by noisy rounds that start from
them.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from numpy.random import Generator

from dp_pipeline.config.parameters import integer, share
from dp_pipeline.gate.counter import MAX_GRID_AXES
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.kmeans import cluster_synopsis, dense_seeds, spread_seeds
from dp_pipeline.models.base import planning_units
from dp_pipeline.models.clustering.base import Clustering, SynopsisClustering, round_budgets
from dp_pipeline.models.clustering.lloyd_kmeans import best_sizes_share
from dp_pipeline.results.clusters import Clusters


@dataclass(frozen=True)
class EugKMeans(SynopsisClustering):
    """Weighted k-means on the noisy counts of a public grid.

    nominal_rows   declared number of rows N; a paid noisy count when None

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
        """Return centres (k, d) and the noisy grid as synopsis; ``rng`` draws starts of k-means."""
        units, remaining = planning_units(curator, self.nominal_rows, epsilon)
        return self.clusters(self.lloyd(curator).grid(units=units, epsilon=remaining), rng)


@dataclass(frozen=True)
class HybridKMeans(Clustering):
    """Weighted k-means on a noisy uniform grid with ε/2, then one noisy round with ε/2.

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
        """Return centres (k, d), noisy sizes and a noisy grid; ``rng`` draws starts of k-means."""
        lloyd = self.lloyd(curator)
        units, remaining = planning_units(curator, self.nominal_rows, epsilon)
        synopsis = lloyd.grid(units=units, epsilon=remaining / 2)
        start = cluster_synopsis(synopsis, k=self.k, starts=self.starts, rng=rng)
        share = best_sizes_share(len(lloyd.columns))
        means = lloyd.rounds(start[None], [remaining / 2], sizes_share=share)
        return Clusters(lloyd.columns, means.centres[0], synopsis, means.sizes[0])


@dataclass(frozen=True)
class OeptKMeans(Clustering):
    """k-means by T noisy rounds, which start at the densest cells of a noisy grid.

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
        """Return centres (k, d) and noisy sizes of the last round, with uniform starts by ``rng``
        in place of dense cells that are missing."""
        lloyd = self.lloyd(curator)
        units, remaining = planning_units(curator, self.nominal_rows, epsilon)
        of_grid = remaining * self.density
        synopsis = lloyd.grid(units=units, epsilon=of_grid)
        seeds = dense_seeds(synopsis, k=self.k, box=lloyd.box, rng=rng)
        return lloyd.rounds(seeds[None], round_budgets(remaining - of_grid, self.rounds)).clusters()


@dataclass(frozen=True)
class DpKMeansPlusPlus(Clustering):
    """k-means++ seeds on a noisy uniform grid with ε/2, then T noisy rounds with ε/2.

    nominal_rows   declared number of rows N; a paid noisy count when None
    rounds         T, a fixed number

    *Proof.* The grid is EUGkM's at ε/2: all cells of a public grid, one row in one
    cell, Δ1 = 1 under add/remove, times the distance. Seeds are drawn from its noisy
    cells: post-processing. A round at e = ε/2T costs e, as in DPk-means. A paid
    count of rows comes first, out of ε; the two halves are of what it leaves. ∎
    As published it is not ε-DP: D² sampling hands out records, and does so with
    probabilities that their true distances set.

    Source: Hu Chuang et al.; the grid and the halves are our reconstruction.
    """

    summary: ClassVar[str] = "k-means by noisy rounds from k-means++ seeds on a noisy grid"
    most_columns: ClassVar[int | None] = MAX_GRID_AXES

    nominal_rows: int | None = integer(None, at_least=1, measuring=True)
    rounds: int = integer(3, at_least=1, at_most=20, measuring=True)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres (k, d) and noisy sizes of the last round, with seeds by ``rng``."""
        lloyd = self.lloyd(curator)
        units, remaining = planning_units(curator, self.nominal_rows, epsilon)
        synopsis = lloyd.grid(units=units, epsilon=remaining / 2)
        seeds = spread_seeds(synopsis, k=self.k, box=lloyd.box, rng=rng)
        return lloyd.rounds(seeds[None], round_budgets(remaining / 2, self.rounds)).clusters()
