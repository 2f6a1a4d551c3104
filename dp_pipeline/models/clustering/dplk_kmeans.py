"""DPLK-means: noisy k-means from starts that noisy k-means in subsets found (after Ren et al.)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dp_pipeline.config.parameters import integer
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.kmeans import cluster_synopsis, pack_spheres
from dp_pipeline.models.clustering.base import Clustering, round_budgets
from dp_pipeline.results.clusters import Clusters, Synopsis


@dataclass(frozen=True)
class DplkKMeans(Clustering):
    """Noisy k-means in m subsets of the rows, k-means on their centres, then on all rows.

    k               number of centres
    columns         numeric attributes, d of them; all when empty
    subsets         m
    subset_rounds   rounds in the subsets, all of them at once
    rounds          rounds on all rows
    starts          starts of the weighted k-means on the m·k centres

    Every round costs the same. Reconstructed here: every subset has a start of its
    own, and the m·k centres weigh what their noisy sizes say.

    *Proof.* A row goes to one of m subsets by a hash of itself and a public salt, so
    another row moves it nowhere. A round in all subsets is two measures of disjoint
    subset × cluster cells: sizes with Δ1 = 1 and sums of fixed-point coordinates
    with Δ1 = d·2^16 under add/remove, times the distance. With T_s rounds in subsets
    and T on all rows each costs ε/(T_s + T), in sum ε. The rest is post-processing. ∎
    As published it is not ε-DP: starts are drawn from records, and subsets cut by
    position move many rows when one is added.

    Source: Ren et al. 2017.
    """

    summary: ClassVar[str] = "k-means by noisy rounds, first in random subsets, then on all rows"

    subsets: int = integer(3, at_least=2, at_most=100, measuring=True)
    subset_rounds: int = integer(1, at_least=1, at_most=20, measuring=True)
    rounds: int = integer(2, at_least=1, at_most=20, measuring=True)
    starts: int = integer(10, at_least=1, at_most=1000, measuring=True)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres (k, d) and noisy sizes of the last round; spend exactly ``epsilon``."""
        lloyd = self.lloyd(curator)
        budgets = round_budgets(epsilon, self.subset_rounds + self.rounds)
        starts = np.stack([pack_spheres(self.k, lloyd.box, rng) for _ in range(self.subsets)])
        salt = int(rng.integers(1 << 63))
        in_subsets = lloyd.rounds(starts, budgets[: self.subset_rounds], salt=salt)
        places = in_subsets.centres.reshape(-1, len(lloyd.columns))
        points = Synopsis(lloyd.columns, places, places, in_subsets.sizes.ravel())
        start = cluster_synopsis(points, k=self.k, starts=self.starts, rng=rng)
        return lloyd.rounds(start[None], budgets[self.subset_rounds :]).clusters()
