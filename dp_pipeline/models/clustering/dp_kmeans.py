"""DPk-means: Lloyd's algorithm with noisy sums and counts (Blum, Dwork, McSherry, Nissim, 2005)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.parameters import choice, integer, variant
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.kmeans import pack_spheres, uniform_places
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.models.clustering.base import Clustering, round_budgets
from dp_pipeline.results.clusters import Clusters


@dataclass(frozen=True)
class DpKMeans(Clustering):
    """T rounds of k-means whose cluster sizes and sums are noisy.

    k         number of centres
    columns   numeric attributes, d of them; all when empty
    rounds    T, a fixed number
    budgets   ``fixed``: ε/T a round; ``halving``: ε/2, ε/4, …, the last gets the rest
    start     ``uniform``: independent places in the box; ``packing``: places far apart
    variant   ``sound``; ``published``: it starts from records, on benchmarks alone

    *Proof.* A round at e is two measures of disjoint clusters: sizes with Δ1 = 1 at
    e/(d+1) and sums of fixed-point coordinates with Δ1 = d·2^16 at d·e/(d+1),
    under add/remove, times the distance. It costs e, and Σ e = ε over the T rounds. The
    start reads the box alone; T is declared; where a centre goes, or that it stays, is a
    function of noisy answers. ∎
    As published it is not ε-DP: it starts from records, and stops when the true
    assignments stay as they are. ``published`` is the first of these faults alone: k
    records, drawn by a hash of their content, without noise. A centre whose noisy size
    is below 1 in every round stays such a record to the last digit.

    Source: Blum et al. 2005 (SuLQ k-means).
    """

    summary: ClassVar[str] = "k-means by rounds of noisy sizes and sums over the declared box"

    rounds: int = integer(5, at_least=1, at_most=20, measuring=True)
    budgets: str = choice("fixed", "halving")
    start: str = choice("uniform", "packing")
    variant: str = variant()

    def guarantee(self, epsilon: Fraction, domain: Domain | None = None) -> PrivacyGuarantee:  # noqa: ARG002
        """Return the guarantee of ε, or of no ε if the start is a sample of records."""
        if self.variant == "sound":
            return PrivacyGuarantee("dp", epsilon)
        return PrivacyGuarantee("not-dp", epsilon, "the initial centres are records without noise")

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres (k, d) and noisy sizes of the last round; spend exactly ``epsilon``."""
        lloyd = self.lloyd(curator)
        if self.variant == "sound":
            places = uniform_places if self.start == "uniform" else pack_spheres
            start = places(self.k, lloyd.box, rng)
        else:
            salt, reason = int(rng.integers(1 << 63)), self.guarantee(epsilon).reason
            records = curator.disclose_records(lloyd.columns, self.k, salt, reason=reason)
            axes = [side.decode(records[:, axis]) for axis, side in enumerate(lloyd.box)]
            start = np.stack(axes, axis=1)
        budgets = round_budgets(epsilon, self.rounds, self.budgets)
        return lloyd.rounds(start[None], budgets).clusters()
