"""IDPk-means: DPk-means that starts at noisy means of random subsets (Li Yang et al.)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from numpy.random import Generator

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.parameters import integer, variant
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.kmeans import uniform_places
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.results.clusters import Clusters


@dataclass(frozen=True)
class IdpKMeans(Clustering):
    """Noisy means of k subsets of the rows, then T rounds of noisy k-means.

    k         number of centres, and of subsets
    columns   numeric attributes, d of them; all when empty
    rounds    T, a fixed number, not counting the round of the start
    variant   ``sound``: the start is a round that is charged; ``published``: it is not
              charged, so the release costs more than was asked, and says so

    *Proof.* A row goes to one of k subsets by a hash of itself and a public salt, so
    another row moves it nowhere. The start is one round over subsets in place of
    clusters: sizes with Δ1 = 1 and sums with Δ1 = d·2^16 under add/remove, times
    the distance. It and the T rounds cost ε/(T+1) each, T + 1 of them: ε. Everything
    else is a function of noisy answers. ∎
    As published it is not ε-DP: the start is not charged (``published`` composes to
    ε·(T+1)/T), and subsets of equal size move many rows when one is added.

    Source: Li Yang et al., "Research on differentially private k-means".
    """

    summary: ClassVar[str] = "k-means by noisy rounds that starts at noisy means of random subsets"

    rounds: int = integer(5, at_least=1, at_most=20, measuring=True)
    variant: str = variant()

    def guarantee(self, epsilon: Fraction, domain: Domain | None = None) -> PrivacyGuarantee:  # noqa: ARG002
        """Return the guarantee of ε, or of ε·(T+1)/T if the start is not charged."""
        if self.variant == "sound":
            return PrivacyGuarantee("dp", epsilon)
        return PrivacyGuarantee(
            "dp",
            epsilon * (self.rounds + 1) / self.rounds,
            f"the initial round is not charged: {self.rounds + 1} rounds at ε/{self.rounds} "
            f"compose to {self.rounds + 1}/{self.rounds} of ε",
        )

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres (k, d) and noisy sizes of the last round; spend exactly the guaranteed
        ε."""
        lloyd = self.lloyd(curator)
        share = self.guarantee(epsilon).epsilon / (self.rounds + 1)
        # Noisy means of k subsets; a random place for one whose noisy size is below 1.
        places = uniform_places(self.k, lloyd.box, rng)[:, None]
        start = lloyd.round(places, epsilon=share, salt=int(rng.integers(1 << 63))).centres[:, 0]
        return lloyd.rounds(start[None], [share] * self.rounds).clusters()
