"""Black-box audits: no event tells one person from nobody better than ε allows.

Two neighbouring populations, many runs, one event, two exact bounds (Clopper–Pearson): the event is
chosen on one half of the runs and bounded on the other, so the choice costs nothing. The certified
ε is a lower bound on the true one: above the claim it proves a violation; below, there is no
evidence of one, and no more than that.

The long ones are for `make study`: the contract finds as much by exact likelihoods. 20,000 runs a
side (3000 of the round of k-means, whose answers are too many to go on together) and α = 1e-4 an
audit. Seven sound audits of models and two of the audit itself are made, so a false alarm among all
has probability below 9e-4; the seeds are fixed, so it would have happened already. What an audit
misses (small shares of ε, rare events) the exact tests of the contract are there for.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.gate.samplers import geometric_noise
from dp_pipeline.gate.scores import UNIT, DependenceScore
from dp_pipeline.models.base import Model, Released
from dp_pipeline.models.clustering.dpqt_kmeans import DpqtKMeans
from dp_pipeline.models.clustering.grid_kmeans import EugKMeans
from dp_pipeline.models.clustering.lloyd_kmeans import DpKMeans
from dp_pipeline.models.tables.dp_kjig import DpKjig
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.results.accountant import LAPLACE, NOISY_MAX
from dp_pipeline.results.class_table import ClassTable
from dp_pipeline.results.clusters import Clusters
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.models.mutants import UnpaidLevels
from dp_pipeline_tests.populations import NOBODY, ONE_PERSON, TEN_PEOPLE, TOWN, Row

ALPHA = 1e-4
"""Chance that a sound model is certified above its claim, for one audit."""


class NextDraw(Exception):
    """A model asks for noise beyond the answers that it was given."""

    def __init__(self, mechanism: str, exact: IntArray, scale: Fraction) -> None:
        super().__init__("next draw")
        self.mechanism, self.exact, self.scale = mechanism, exact, scale

    def drawn(self, noise: SeededNoise, scale: Fraction, many: int) -> IntArray:
        """Independent answers at some scale, (many, m); a choice is one number."""
        tiled = np.tile(self.exact.ravel(), (many, 1))
        if self.mechanism == LAPLACE:
            return noise.discrete_laplace(tiled, scale)
        # ``noisy_argmax``, many at a time: geometric noise, ties to the lowest index.
        tiled += geometric_noise(tiled.size, scale, noise._uniform).reshape(tiled.shape)
        return tiled.argmax(axis=1)[:, None]


@dataclass
class GivenAnswers:
    """Answers in their order; NextDraw after the last."""

    answers: tuple[IntArray, ...]
    name: str = "given"
    is_releasable: bool = False
    given: int = 0

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        if self.given == len(self.answers):
            raise NextDraw(LAPLACE, counts, scale)
        self.given += 1
        return self.answers[self.given - 1].reshape(counts.shape)

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        if self.given == len(self.answers):
            raise NextDraw(NOISY_MAX, scores, scale)
        self.given += 1
        return int(self.answers[self.given - 1][0])


Features = Callable[[Released], Sequence[float]]
"""A few numbers of what was released."""


@dataclass(frozen=True)
class Experiment:
    """A model, what is read off its release, and the noise (divided by ``cheaper``)."""

    model: Model
    features: Features
    epsilon: Fraction
    cheaper: Fraction = Fraction(1)

    def runs(self, rows: Sequence[Row], *, many: int, seed: int) -> NDArray[np.float64]:
        """The features of ``many`` independent runs over these rows, (many, m), in random order.

        Runs that have had the same answers so far go on together: what they ask next is the
        same (a model is a function of its transcript), and all their noise is drawn at once.
        """
        noise, features, repeats = SeededNoise(seed), [], []
        waiting: list[tuple[tuple[IntArray, ...], int]] = [((), many)]
        while waiting:
            answers, together = waiting.pop()
            try:
                features.append(self._features(rows, answers))
                repeats.append(together)
            except NextDraw as asked:
                noisy = asked.drawn(noise, asked.scale / self.cheaper, together)
                distinct, counts = np.unique(noisy, axis=0, return_counts=True)
                waiting += [
                    ((*answers, answer), int(n)) for answer, n in zip(distinct, counts, strict=True)
                ]
        every = np.repeat(np.array(features, dtype=float), repeats, axis=0)
        return np.random.default_rng(seed).permutation(every)

    def _features(self, rows: Sequence[Row], answers: tuple[IntArray, ...]) -> Sequence[float]:
        curator = curator_over(rows, epsilon=self.epsilon, noise=GivenAnswers(answers))
        rng = np.random.default_rng(1)
        return self.features(self.model.fit(curator, epsilon=self.epsilon, rng=rng))


_Event = Callable[[NDArray[np.float64]], NDArray[np.bool_]]


def certified_epsilon(
    one: NDArray[np.float64], other: NDArray[np.float64], *, alpha: float = ALPHA
) -> float:
    """A lower bound on ε, right with probability 1 − α, of features (n, m) of two neighbours.

    Events: all features at least, or all at most, some values of them.
    """
    half = len(one) // 2
    events = _events(np.concatenate([one[:half], other[:half]]))

    def bound(event: _Event, a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
        return _log_ratio(event(a).sum(), event(b).sum(), len(a), alpha)

    choices = list(product(events, (False, True)))

    def halves(swapped: bool, part: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return (other[part], one[part]) if swapped else (one[part], other[part])

    best, swapped = max(choices, key=lambda c: bound(c[0], *halves(c[1], slice(half))))
    return bound(best, *halves(swapped, slice(half, None)))


def _events(sample: NDArray[np.float64]) -> list[_Event]:
    levels = [np.unique(np.quantile(column, np.linspace(0, 1, 9))) for column in sample.T]

    def at_least(values: NDArray[np.float64]) -> _Event:
        return lambda features: (features >= values).all(axis=1)

    def at_most(values: NDArray[np.float64]) -> _Event:
        return lambda features: (features <= values).all(axis=1)

    corners = [np.array(corner) for corner in product(*levels)]
    return [kind(corner) for corner in corners for kind in (at_least, at_most)]


def _log_ratio(hits: int, other_hits: int, runs: int, alpha: float) -> float:
    """log of the lowest plausible P(event) over the highest plausible P'(event)."""
    if hits == 0:
        return -np.inf
    low = beta.ppf(alpha / 2, hits, runs - hits + 1)
    high = beta.ppf(1 - alpha / 2, other_hits + 1, runs - other_hits) if other_hits < runs else 1.0
    return float(np.log(low / high))


RUNS = 20_000
ROUND_RUNS = 3000
CLAIM = Fraction(2)
X = ONE_PERSON[0][0]


def box_of_the_person(clusters: Clusters) -> tuple[float, float]:
    """How small the released box with the person in it is, and its noisy count."""
    synopsis = clusters.synopsis
    at = int(np.nonzero((synopsis.lower[:, 0] <= X) & (synopsis.upper[:, 0] > X))[0][0])
    return -(synopsis.upper[at, 0] - synopsis.lower[at, 0]), synopsis.weights[at]


def cells_of_the_person(table: SyntheticTable) -> tuple[float, ...]:
    """The noisy counts of the person's own levels, the first of each attribute."""
    return tuple(marginal.table[0] for marginal in table.measured)


def size_and_total(clusters: Clusters) -> tuple[float, float]:
    """The noisy size of the only cluster, and what its centre says of its noisy total."""
    (middle,) = (interval.middle for interval in TOWN.box(clusters.columns))
    size = clusters.sizes[0]
    return size, max(size, 1.0) * (clusters.centres[0, 0] - middle)


def bit_and_count(table: ClassTable) -> tuple[float, float]:
    """Whether the person's own bit was chosen, and the noisy count of the likes of them."""
    (bit,) = table.classes.bits
    place = int(table.places_of({"colour": np.array([0])})[0])
    is_published = place < len(table.published)
    return float(bit.name == "colour=red"), table.counts[place, 0] if is_published else -1.0


@dataclass(frozen=True)
class ChoosesATable(Model):
    """A choice whose scores move in opposite directions when a person comes."""

    summary: ClassVar[str] = "the table that is farther from what is expected"

    def check(self, domain: Domain) -> None:
        """Any domain of the town."""

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Any:  # noqa: ARG002
        tables = {
            ("colour",): DependenceScore(np.zeros(3, np.int64)),
            ("smokes",): DependenceScore(np.full(2, UNIT)),
        }
        return curator.choose("table", tables, epsilon=epsilon)


def which_table(chosen: Any) -> tuple[float]:
    return (float(chosen == ("colour",)),)


# k above the number of boxes: no k-means, which reads no more than the boxes.
TREE = DpqtKMeans(k=8, columns=("x",), nominal_rows=3, gamma=Fraction(1, 2))
# Most of ε for the counts: one person alone raises every score alike, and changes no choice.
CLASSES = DpKjig(
    label=("smokes",),
    attributes=("colour",),
    k=1,
    bits=1,
    beta=Fraction(9, 10),
    score_share=Fraction(5, 100),
)
SOUND: Mapping[str, Experiment] = {
    "a tree of one level": Experiment(TREE, box_of_the_person, CLAIM),
    "a grid of four cells": Experiment(
        EugKMeans(k=8, columns=("x",), nominal_rows=40), box_of_the_person, CLAIM
    ),
    "a grid of a paid number of cells": Experiment(
        EugKMeans(k=8, columns=("x",)), box_of_the_person, CLAIM
    ),
    "a choice between two tables": Experiment(ChoosesATable(), which_table, CLAIM),
    "two tables": Experiment(
        Independent(attributes=("colour", "smokes"), synthetic_rows=0), cells_of_the_person, CLAIM
    ),
    "a bit and the classes by it": Experiment(CLASSES, bit_and_count, CLAIM),
}
ROUND = Experiment(DpKMeans(k=1, columns=("x",), rounds=1), size_and_total, CLAIM)
"""Of somebody on the edge of the box, where a person moves a total the most."""

UNSOUND: Mapping[str, Experiment] = {
    **{
        f"{name}, too little noise": replace(experiment, cheaper=Fraction(3, 2))
        for name, experiment in SOUND.items()
        if name != "a grid of a paid number of cells"
    },
    "a tree with an unpaid level": replace(
        SOUND["a tree of one level"], model=UnpaidLevels(**vars(TREE))
    ),
}


def certified(experiment, person=ONE_PERSON, *, runs=RUNS) -> float:
    alone, nobody = (
        experiment.runs(rows, many=runs, seed=seed) for rows, seed in ((person, 1), (NOBODY, 2))
    )
    return certified_epsilon(alone, nobody)


LONG = ("a grid of a paid number of cells", "two tables", "two tables, too little noise")


def audits(names: Iterable[str]) -> list:
    """The long ones with the marker that leaves them to the study."""
    return [pytest.param(name, marks=[pytest.mark.study] if name in LONG else []) for name in names]


@pytest.mark.parametrize("name", audits(SOUND))
def test_there_is_no_evidence_of_a_violation(name: str) -> None:
    assert certified(SOUND[name]) <= CLAIM


@pytest.mark.parametrize("name", audits(UNSOUND))
def test_too_little_noise_and_an_unpaid_level_are_flagged(name: str) -> None:
    assert certified(UNSOUND[name]) > CLAIM


@pytest.mark.study
def test_a_round_with_too_little_noise_is_flagged_and_no_other() -> None:
    cheaper = replace(ROUND, cheaper=Fraction(3, 2))
    assert certified(ROUND, TEN_PEOPLE[-1:], runs=ROUND_RUNS) <= CLAIM
    assert certified(cheaper, TEN_PEOPLE[-1:], runs=ROUND_RUNS) > CLAIM


def noisy_counts(count: int, *, seed: int, scale: Fraction = 1 / CLAIM) -> np.ndarray:
    return SeededNoise(seed).discrete_laplace(np.full((RUNS, 1), count), scale).astype(float)


def test_the_audit_certifies_most_of_what_a_count_costs() -> None:
    certain = certified_epsilon(noisy_counts(1, seed=1), noisy_counts(0, seed=2))
    assert 0.9 * CLAIM < certain <= CLAIM


def test_the_audit_certifies_nothing_where_nothing_differs() -> None:
    assert certified_epsilon(noisy_counts(0, seed=1), noisy_counts(0, seed=2)) <= 0


def test_the_audit_certifies_exact_answers_as_runs_allow() -> None:
    exact = np.zeros((RUNS, 1))
    certain = certified_epsilon(exact + 1, exact)
    assert certain == pytest.approx(math.log(RUNS / 2 / -math.log(ALPHA / 2)), rel=0.01)
