"""k-means by noisy rounds of Lloyd's algorithm alone, which differ in their starts and budgets."""

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.parameters import choice, integer, variant
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.kmeans import cluster_synopsis, pack_spheres, uniform_places
from dp_pipeline.models.base import PrivacyGuarantee, planning_units
from dp_pipeline.models.clustering.base import Clustering, round_budgets
from dp_pipeline.results.clusters import Clusters, Synopsis


@dataclass(frozen=True)
class DpKMeans(Clustering):
    """T rounds of k-means whose cluster sizes and sums are noisy.

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
        """Return the guarantee of ε, or a ``not-dp`` one for ``published``, which starts from
        records."""
        if self.variant == "sound":
            return PrivacyGuarantee("dp", epsilon)
        return PrivacyGuarantee("not-dp", epsilon, "the initial centres are records without noise")

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres (k, d) and noisy sizes of the last round, with starts by ``rng``."""
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


FEWEST_ROUNDS, MOST_ROUNDS = 2, 7
_RHO = 0.225  # ρ, the paper's constant


@dataclass(frozen=True)
class DpLloyd(Clustering):
    """Noisy k-means from packed spheres, with as many rounds as their noise allows.

    nominal_rows   declared number of rows N; a paid noisy count when None

    T = ε/ε_m rounds, in 2..7, with ε_m = √(500·k³/N²·(d + c)³) and c = (4dρ²)^{1/3},
    ρ = 0.225. In a round c/(d + c) of its ε goes to the sizes.

    *Proof.* T is a function of k, d, ε and N, which is declared or paid for. A round at
    e = ε/T is two measures of disjoint clusters, under add/remove, times the distance:
    sizes with Δ1 = 1 and sums of fixed-point coordinates with Δ1 = d·2^16, at shares
    of e that add up to e. The start reads the box alone. Sum: ε. ∎
    As published it is not ε-DP: the box is the data's own and T reads the exact N.

    Source: Su et al. 2016, DPLloyd.
    """

    summary: ClassVar[str] = "k-means by noisy rounds, as many as their noise allows"

    nominal_rows: int | None = integer(None, at_least=1, measuring=True)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres (k, d) and noisy sizes of the last round, with starts by ``rng``."""
        lloyd = self.lloyd(curator)
        dimensions = len(lloyd.columns)
        units, remaining = planning_units(curator, self.nominal_rows, epsilon)
        start = pack_spheres(self.k, lloyd.box, rng)
        rounds = planned_rounds(units, float(remaining), k=self.k, dimensions=dimensions)
        budgets, share = round_budgets(remaining, rounds), best_sizes_share(dimensions)
        return lloyd.rounds(start[None], budgets, sizes_share=share).clusters()


def planned_rounds(units: float, epsilon: float, *, k: int, dimensions: int) -> int:
    """Return the number of rounds ⌊ε/ε_m⌋ (ε_m as in ``DpLloyd``), at least 2 and at most 7.

    >>> planned_rounds(100_000, 1.0, k=5, dimensions=2)
    7
    """
    d = dimensions
    least = sqrt(500 * k**3 / units**2 * (d + float(_sizes_weight(d))) ** 3)
    return max(FEWEST_ROUNDS, min(MOST_ROUNDS, int(epsilon / least)))


def best_sizes_share(dimensions: int) -> Fraction:
    """Return the share of a round's ε for sizes, c/(d + c), at which a centre's error is least."""
    weight = _sizes_weight(dimensions)
    return weight / (dimensions + weight)


def _sizes_weight(dimensions: int) -> Fraction:
    """Return the weight c = (4dρ²)^{1/3} of sizes against coordinates (``DpLloyd``), rounded to
    thousandths."""
    return Fraction(round(1000 * (4 * dimensions * _RHO**2) ** (1 / 3)), 1000)


@dataclass(frozen=True)
class IdpKMeans(Clustering):
    """Noisy means of k subsets of the rows, then T rounds of noisy k-means.

    k         number of centres, and of subsets
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
        """Return the guarantee of ε, or of ε·(T+1)/T for ``published``, which does not charge its
        start."""
        if self.variant == "sound":
            return PrivacyGuarantee("dp", epsilon)
        return PrivacyGuarantee(
            "dp",
            epsilon * (self.rounds + 1) / self.rounds,
            f"the initial round is not charged: {self.rounds + 1} rounds at ε/{self.rounds} "
            f"compose to {self.rounds + 1}/{self.rounds} of ε",
        )

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres (k, d) and noisy sizes of the last round.

        ``rng`` draws the salt of the subsets, and the place of the start for each subset whose
        noisy size is below 1. The budget is the guaranteed ε, which is more than ``epsilon`` if
        ``published``.
        """
        lloyd = self.lloyd(curator)
        share = self.guarantee(epsilon).epsilon / (self.rounds + 1)
        # Noisy means of k subsets; a random place for one whose noisy size is below 1.
        places = uniform_places(self.k, lloyd.box, rng)[:, None]
        start = lloyd.rounds(places, [share], salt=int(rng.integers(1 << 63))).centres[:, 0]
        return lloyd.rounds(start[None], [share] * self.rounds).clusters()


@dataclass(frozen=True)
class DplkKMeans(Clustering):
    """Noisy k-means in m subsets of the rows, k-means on their centres, then on all rows.

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
        """Return centres (k, d) and noisy sizes of the last round, with starts and subsets by
        ``rng``."""
        lloyd = self.lloyd(curator)
        budgets = round_budgets(epsilon, self.subset_rounds + self.rounds)
        starts = np.stack([pack_spheres(self.k, lloyd.box, rng) for _ in range(self.subsets)])
        salt = int(rng.integers(1 << 63))
        in_subsets = lloyd.rounds(starts, budgets[: self.subset_rounds], salt=salt)
        places = in_subsets.centres.reshape(-1, len(lloyd.columns))
        points = Synopsis(lloyd.columns, places, places, in_subsets.sizes.ravel())
        start = cluster_synopsis(points, k=self.k, starts=self.starts, rng=rng)
        return lloyd.rounds(start[None], budgets[self.subset_rounds :]).clusters()
