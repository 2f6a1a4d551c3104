"""Models that break a promise, each in one way: the contract must catch every one of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.rules import NearestCentre
from dp_pipeline.models.clustering.dp_kmeans import DpKMeans
from dp_pipeline.models.clustering.dpqt_kmeans import DpqtKMeans
from dp_pipeline.models.clustering.eug_kmeans import EugKMeans
from dp_pipeline.models.clustering.htree_kmeans import HTreeKMeans
from dp_pipeline.models.clustering.idp_kmeans import IdpKMeans
from dp_pipeline.models.clustering.moved_centres import part_of_the_spread
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.release.accountant import Accountant
from dp_pipeline.release.clusters import Clusters, Synopsis
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.release.trees import BitTree, Nodes, Prefixes
from dp_pipeline.spec.encoding import FloatArray
from dp_pipeline.spec.parameters import integer
from dp_pipeline_tests.instruments import CheaperNoise


def unpaid(curator: Curator) -> Curator:
    """A second door: the same rows and noise, another accountant."""
    return Curator(
        curator._route.counter,
        domain=curator.domain,
        distance=curator.distance,
        accountant=Accountant(Fraction(10**9)),
        transcript=Transcript(),
        noise=curator._route.noise,
    )


# What costs more, or less, than it says.


@dataclass(frozen=True)
class UnpaidRound(EugKMeans):
    """Draws noise for one more table, past the accountant."""

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        exact = curator._route.counter.grid(("x", "y"), 2).open_at_the_gate()
        curator._route.noise.discrete_laplace(exact, 1 / epsilon)
        return super().fit(curator, epsilon=epsilon, rng=rng)


@dataclass(frozen=True)
class UnpaidLevels(DpqtKMeans):
    """Grows the tree past the accountant, and counts the leaves with all of ε."""

    def _grow(
        self, curator: Curator, columns: tuple[str, ...], units: float, epsilon: Fraction
    ) -> tuple[Nodes, Fraction]:
        leaves, _ = super()._grow(unpaid(curator), columns, units, epsilon)
        return leaves, epsilon


@dataclass(frozen=True)
class UnpaidStart(IdpKMeans):
    """Takes the start's noisy means past the accountant, and all of ε for the only round."""

    rounds: int = integer(1, at_least=1, measuring=True)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        return super().fit(curator, epsilon=2 * epsilon, rng=rng)

    def _start(
        self,
        curator: Curator,
        columns: tuple[str, ...],
        epsilon: Fraction,
        rng: np.random.Generator,
    ) -> FloatArray:
        return super()._start(unpaid(curator), columns, epsilon, rng)


@dataclass(frozen=True)
class UnpaidRecount(HTreeKMeans):
    """Counts boxes of its tree once more, past the accountant, with as much again."""

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        columns = curator.domain.names
        tree = BitTree.over(columns, curator.domain.box(columns))
        nodes = Prefixes.root().children(4)
        unpaid(curator).measure_boxes(tree, nodes, epsilon=epsilon / 4)
        return super().fit(curator, epsilon=epsilon, rng=rng)


@dataclass(frozen=True)
class UnpaidDistance(HTreeKMeans):
    """Asks past the accountant how far rows are from the middle of all."""

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        columns = curator.domain.names
        ends = np.array([[one.lower, one.upper] for one in curator.domain.box(columns)])
        whole = Synopsis(columns, ends[:, :1].T, ends[:, 1:].T, np.array([100.0]))
        # Forced answers are small: they speak for nobody here, and for a person in the tree.
        part_of_the_spread(unpaid(curator), whole, epsilon=10 * epsilon)
        return super().fit(curator, epsilon=epsilon, rng=rng)


@dataclass(frozen=True)
class HalfTheNoise(Independent):
    """Draws at half the scale that was charged."""

    def fit(
        self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator
    ) -> SyntheticTable:
        cheaper = CheaperNoise(curator._route.noise, Fraction(2))
        curator._route = replace(curator._route, noise=cheaper)
        return super().fit(curator, epsilon=epsilon, rng=rng)


@dataclass(frozen=True)
class Refund(Independent):
    """Measures twice, and forgets the first charge."""

    def fit(
        self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator
    ) -> SyntheticTable:
        super().fit(curator, epsilon=epsilon, rng=rng)
        curator.accountant._spends.clear()
        return super().fit(curator, epsilon=epsilon, rng=rng)


@dataclass(frozen=True)
class OwnReach(Independent):
    """Measures as if every person had one row."""

    def fit(
        self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator
    ) -> SyntheticTable:
        curator._distance = 1
        return super().fit(curator, epsilon=epsilon, rng=rng)


@dataclass(frozen=True)
class UnspentRest(EugKMeans):
    """Leaves a tenth of ε unspent: a claim that is not what was done."""

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        return super().fit(curator, epsilon=epsilon * Fraction(9, 10), rng=rng)


@dataclass(frozen=True)
class StopsEarly(DpqtKMeans):
    """Goes on only where there is something left to split: the levels without are not paid."""

    def _grow(
        self, curator: Curator, columns: tuple[str, ...], units: float, epsilon: Fraction
    ) -> tuple[Nodes, Fraction]:
        share = epsilon * self.gamma / 3
        noisy = curator.measure_nodes(columns, Nodes.root(), depth=3, epsilon=share)
        if noisy.table[0] > units:
            return super()._grow(curator, columns, units, epsilon - share)
        return Nodes.root(), epsilon * (1 - self.gamma)


# What is not a function of the transcript.


def true_rows(curator: Curator) -> int:
    return int(curator._route.counter.count([()])[0].open_at_the_gate())


@dataclass(frozen=True)
class PeeksAtTheRowCount(EugKMeans):
    """Plans with the true number of rows."""

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        planned = EugKMeans(k=self.k, starts=self.starts, nominal_rows=100 * true_rows(curator) + 1)
        return planned.fit(curator, epsilon=epsilon, rng=rng)


@dataclass(frozen=True)
class DrawsAsManyRows(Independent):
    """As many synthetic rows as there are true ones."""

    def fit(
        self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator
    ) -> SyntheticTable:
        exactly = Independent(synthetic_rows=true_rows(curator))
        return exactly.fit(curator, epsilon=epsilon, rng=rng)


@dataclass(frozen=True)
class KeepsTheCentreOfAnEmptyCluster(EugKMeans):
    """A centre without true rows in its quarter of the box stays where it started."""

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        clusters = super().fit(curator, epsilon=epsilon, rng=rng)
        empty = curator._route.counter.grid(("x", "y"), 2).open_at_the_gate().ravel()[: self.k] == 0
        centres = np.where(empty[:, None], 0.0, clusters.centres)
        return Clusters(clusters.columns, centres, clusters.synopsis)


@dataclass(frozen=True)
class KeepsTheStartOfAnEmptyCluster(DpKMeans):
    """A centre that no true row is nearest to goes back to the middle of the box."""

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        clusters = super().fit(curator, epsilon=epsilon, rng=rng)
        box = curator.domain.box(clusters.columns)
        rule = NearestCentre.of(clusters.columns, clusters.centres, box)
        sums = curator._route.counter.sum_by_centre([rule], salt=0).open_at_the_gate()
        middle = [one.middle for one in box]
        centres = np.where(sums[0, :, :1] == 0, middle, clusters.centres)
        return Clusters(clusters.columns, centres, sizes=clusters.sizes)


@dataclass(frozen=True)
class OwnRandomness(Independent):
    """Ignores the generator that it was handed; a hundred rows agree by chance about never."""

    def fit(
        self,
        curator: Curator,
        *,
        epsilon: Fraction,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> SyntheticTable:
        hundred = Independent(synthetic_rows=100)
        return hundred.fit(curator, epsilon=epsilon, rng=np.random.default_rng())


@dataclass(frozen=True)
class RemembersTheNoise(Independent):
    """Keeps an answer of a second, unstored draw."""

    def fit(
        self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator
    ) -> SyntheticTable:
        more = unpaid(curator).measure((), epsilon=epsilon)
        exactly = Independent(synthetic_rows=max(0, int(more.table)))
        return exactly.fit(curator, epsilon=epsilon, rng=rng)
