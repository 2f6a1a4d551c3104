"""Models that break a promise, each in one way: the contract must catch every one of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dp_pipeline.config.parameters import integer
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.rules import NearestCentre
from dp_pipeline.inference.kmeans import uniform_places
from dp_pipeline.models.clustering.dpqt_kmeans import DpqtKMeans
from dp_pipeline.models.clustering.grid_kmeans import EugKMeans
from dp_pipeline.models.clustering.htree_kmeans import HTreeKMeans
from dp_pipeline.models.clustering.lloyd_kmeans import DpKMeans, IdpKMeans
from dp_pipeline.models.clustering.moved_centres import measure_relative_spread
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.results.clusters import Clusters, Synopsis
from dp_pipeline.results.trees import BitTree, Prefixes
from dp_pipeline_tests.instruments import CheaperNoise, curator_over

WrongFit = Callable[[Curator, Fraction, Callable[..., Any]], Any]
"""A fit with a mistake. The sound fit that it is handed takes a curator, an ε and other values of
the model's parameters.
"""


def broken(base: type, wrong: WrongFit) -> Any:
    """Return the model that fits wrongly and is like ``base`` in everything else."""

    @dataclass(frozen=True)
    class Broken(base):  # type: ignore[misc]
        def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Any:
            def sound(curator: Curator, epsilon: Fraction, rng: Any = rng, **changes: Any) -> Any:
                return base.fit(replace(self, **changes), curator, epsilon=epsilon, rng=rng)

            return wrong(curator, epsilon, sound)

    return Broken


def unpaid(curator: Curator) -> Curator:
    """Open a second door: the same rows and noise, another accountant."""
    given = {"domain": curator.domain, "distance": curator.distance, "currency": curator.currency}
    rows, noise = curator._executor.counter, curator._executor.noise
    return curator_over(rows, epsilon=Fraction(10**9), noise=noise, **given)


def unpaid_round(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
    """Draw noise for one more table, past the accountant."""
    exact = curator._executor.counter.grid(("x", "y"), 2).open_at_the_gate()
    curator._executor.noise.discrete_laplace(exact, 1 / epsilon)
    return sound(curator, epsilon)


def unpaid_recount(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
    """Count boxes of the tree once more, past the accountant, with as much again."""
    columns = curator.domain.names
    tree = BitTree.over(columns, curator.domain.box(columns))
    unpaid(curator).measure_boxes(tree, Prefixes.root().children(4), epsilon=epsilon / 4)
    return sound(curator, epsilon)


def unpaid_distance(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
    """Ask past the accountant how far rows are from the middle of all."""
    columns = curator.domain.names
    ends = np.array([[side.lower, side.upper] for side in curator.domain.box(columns)])
    whole = Synopsis(columns, ends[:, :1].T, ends[:, 1:].T, np.array([100.0]))
    # Forced answers are small: they speak for nobody here, and for a person in the tree.
    measure_relative_spread(unpaid(curator), whole, epsilon=10 * epsilon)
    return sound(curator, epsilon)


def half_the_noise(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
    """Draw at half the deviation that was charged."""
    cheaper = CheaperNoise(curator._executor.noise, Fraction(2))
    executor = replace(curator._executor, noise=cheaper)
    return sound(replace(curator, _executor=executor), epsilon)


def refund(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
    """Measure twice, and forget the first charge."""
    sound(curator, epsilon)
    curator.accountant._spends.clear()
    return sound(curator, epsilon)


def own_reach(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
    """Measure as if every person had one row."""
    return sound(replace(curator, distance=1), epsilon)


def unspent_rest(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
    """Leave a tenth of ε unspent: a claim that is not what was done."""
    return sound(curator, epsilon * Fraction(9, 10))


def smaller_budget(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
    """Leave a tenth of the budget, by which a model plans its rounds."""
    curator.accountant.epsilon *= Fraction(9, 10)
    released = sound(curator, epsilon)
    curator.accountant.epsilon /= Fraction(9, 10)
    return released


def question_too_many(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
    """Count the rows after everything was spent."""
    amount = curator.accountant.remaining
    released = sound(curator, epsilon)
    curator.tabulate({(): amount / 100})
    return released


@dataclass(frozen=True)
class UnpaidLevels(DpqtKMeans):
    """Grows the tree past the accountant, and counts the leaves with all of ε."""

    def _grow(
        self, curator: Curator, columns: tuple[str, ...], units: float, epsilon: Fraction
    ) -> tuple[Prefixes, Fraction]:
        leaves, _ = super()._grow(unpaid(curator), columns, units, epsilon)
        return leaves, epsilon


@dataclass(frozen=True)
class UnpaidStart(IdpKMeans):
    """Takes the start's noisy means past the accountant, and all of ε for the only round."""

    rounds: int = integer(1, at_least=1, measuring=True)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        lloyd, free = self.lloyd(curator), self.lloyd(unpaid(curator))
        places = uniform_places(self.k, lloyd.box, rng)[:, None]
        start = free.rounds(places, [epsilon], salt=int(rng.integers(1 << 63)))
        return lloyd.rounds(start.centres[:, 0][None], [epsilon] * self.rounds).clusters()


@dataclass(frozen=True)
class StopsEarly(DpqtKMeans):
    """Goes on only where there is something left to split: the levels without are not paid."""

    def _grow(
        self, curator: Curator, columns: tuple[str, ...], units: float, epsilon: Fraction
    ) -> tuple[Prefixes, Fraction]:
        share = epsilon * self.gamma / 3
        noisy = curator.measure_nodes(columns, Prefixes.root(), depth=3, epsilon=share)
        if noisy.table[0] > units:
            return super()._grow(curator, columns, units, epsilon - share)
        return Prefixes.root(), epsilon * (1 - self.gamma)


def plans_by_rows(parameter: str, value: Callable[[int], int]) -> WrongFit:
    """Return the fit with a parameter that follows from the true number of rows."""

    def wrong(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
        counter = curator._executor.counter
        rows = 7 if counter is None else int(counter.count([()])[0].open_at_the_gate())
        return sound(curator, epsilon, **{parameter: value(rows)})

    return wrong


def empty_quarter(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Clusters:
    """Leave a centre without true rows in its quarter of the box where it started."""
    clusters = sound(curator, epsilon)
    counts = curator._executor.counter.grid(("x", "y"), 2).open_at_the_gate().ravel()
    empty = counts[: len(clusters.centres)] == 0
    centres = np.where(empty[:, None], 0.0, clusters.centres)
    return Clusters(clusters.columns, centres, clusters.synopsis)


def empty_cluster(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Clusters:
    """Put a centre that no true row is nearest to back to the middle of the box."""
    clusters = sound(curator, epsilon)
    box = curator.domain.box(clusters.columns)
    rule = NearestCentre.of(clusters.columns, clusters.centres, box)
    sums = curator._executor.counter.sum_by_centre([rule], salt=0).open_at_the_gate()
    middle = [side.middle for side in box]
    centres = np.where(sums[0, :, :1] == 0, middle, clusters.centres)
    return Clusters(clusters.columns, centres, sizes=clusters.sizes)


def own_randomness(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
    """Ignore the generator that it was handed; a hundred rows agree by chance about never."""
    return sound(curator, epsilon, np.random.default_rng(), synthetic_rows=100)


def remembered_noise(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
    """Keep an answer of a second, unstored draw."""
    more = unpaid(curator).measure((), epsilon=epsilon)
    return sound(curator, epsilon, synthetic_rows=max(0, int(more.table)))


UnpaidRound = broken(EugKMeans, unpaid_round)
UnpaidRecount = broken(HTreeKMeans, unpaid_recount)
UnpaidDistance = broken(HTreeKMeans, unpaid_distance)
HalfTheNoise = broken(Independent, half_the_noise)
Refund = broken(Independent, refund)
OwnReach = broken(Independent, own_reach)
UnspentRest = broken(EugKMeans, unspent_rest)
PeeksAtTheRowCount = broken(EugKMeans, plans_by_rows("nominal_rows", lambda n: 100 * n + 1))
DrawsAsManyRows = broken(Independent, plans_by_rows("synthetic_rows", int))
KeepsTheCentreOfAnEmptyCluster = broken(EugKMeans, empty_quarter)
KeepsTheStartOfAnEmptyCluster = broken(DpKMeans, empty_cluster)
OwnRandomness = broken(Independent, own_randomness)
RemembersTheNoise = broken(Independent, remembered_noise)
