"""Black-box audits: no event found tells one person from nobody better than ε allows.

The long ones are for `make study`: the contract finds as much by exact likelihoods.
20,000 runs a side (3000 of the round of k-means, whose answers are too many to go on together) and
α = 1e-4 an audit. Seven sound audits of models and two of the audit itself
are made, so a false alarm among all has probability below 9e-4; the seeds are fixed, so it would
have happened already. A pass is no evidence of a violation: it is not a proof of privacy. What an
audit misses (small shares of ε, rare events) the exact tests of the contract are there for.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from dp_pipeline.config.domain import Domain
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.gate.scores import UNIT, DependenceScore
from dp_pipeline.models.base import Model
from dp_pipeline.models.clustering.dpqt_kmeans import DpqtKMeans
from dp_pipeline.models.clustering.grid_kmeans import EugKMeans
from dp_pipeline.models.clustering.lloyd_kmeans import DpKMeans
from dp_pipeline.models.tables.dp_kjig import DpKjig
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.results.class_table import ClassTable
from dp_pipeline.results.clusters import Clusters
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.models.auditing import ALPHA, Experiment, certified_epsilon
from dp_pipeline_tests.models.mutants import UnpaidLevels
from dp_pipeline_tests.populations import NOBODY, ONE_PERSON, TEN_PEOPLE, TOWN

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
        f"{name}, too little noise": replace(SOUND[name], cheaper=Fraction(3, 2))
        for name in (
            "a tree of one level",
            "a grid of four cells",
            "two tables",
            "a choice between two tables",
            "a bit and the classes by it",
        )
    },
    "a tree with an unpaid level": replace(
        SOUND["a tree of one level"], model=UnpaidLevels(**vars(TREE))
    ),
}


def certified(experiment, person=ONE_PERSON, *, runs=RUNS) -> float:
    """A lower bound on what one person costs."""
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
def test_no_evidence_that_a_round_of_k_means_costs_more() -> None:
    assert certified(ROUND, TEN_PEOPLE[-1:], runs=ROUND_RUNS) <= CLAIM


@pytest.mark.study
def test_too_little_noise_in_a_round_of_k_means_is_flagged() -> None:
    cheaper = replace(ROUND, cheaper=Fraction(3, 2))
    assert certified(cheaper, TEN_PEOPLE[-1:], runs=ROUND_RUNS) > CLAIM


def noisy_counts(count: int, *, seed: int, scale: Fraction = 1 / CLAIM) -> np.ndarray:
    return SeededNoise(seed).discrete_laplace(np.full((RUNS, 1), count), scale).astype(float)


def test_the_audit_certifies_most_of_what_a_count_costs() -> None:
    found = certified_epsilon(noisy_counts(1, seed=1), noisy_counts(0, seed=2))
    assert 0.9 * CLAIM < found <= CLAIM


def test_the_audit_certifies_nothing_where_nothing_differs() -> None:
    assert certified_epsilon(noisy_counts(0, seed=1), noisy_counts(0, seed=2)) <= 0


def test_the_audit_certifies_exact_answers_as_runs_allow() -> None:
    exact = np.zeros((RUNS, 1))
    found = certified_epsilon(exact + 1, exact)
    assert found == pytest.approx(math.log(RUNS / 2 / -math.log(ALPHA / 2)), rel=0.01)
