"""DPk-means++: noisy k-means from D² seeds on a noisy grid (after Hu Chuang et al.)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from numpy.random import Generator

from dp_pipeline.config.parameters import integer
from dp_pipeline.gate.counter import MAX_GRID_AXES
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.kmeans import spread_seeds
from dp_pipeline.models.base import planning_units
from dp_pipeline.models.clustering.base import Clustering, round_budgets
from dp_pipeline.results.clusters import Clusters


@dataclass(frozen=True)
class DpKMeansPlusPlus(Clustering):
    """k-means++ seeds on a noisy uniform grid with ε/2, then T noisy rounds with ε/2.

    k              number of centres
    columns        numeric attributes, d of them; all when empty
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
        """Return centres (k, d) and noisy sizes of the last round; spend exactly ``epsilon``."""
        lloyd = self.lloyd(curator)
        units, remaining = planning_units(curator, self.nominal_rows, epsilon)
        synopsis = lloyd.grid(units=units, epsilon=remaining / 2)
        seeds = spread_seeds(synopsis, k=self.k, box=lloyd.box, rng=rng)
        return lloyd.rounds(seeds[None], round_budgets(remaining / 2, self.rounds)).clusters()
