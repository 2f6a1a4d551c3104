"""Claims of the papers about private clustering, as data, and what the study says of each.

Summary: means and standard errors over repetitions, and the papers' RCP.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Literal

from dp_pipeline.metrics.clustering import rcp
from dp_pipeline.studies.clustering.cells import METRICS, PLANNINGS, Planning, known_systems
from dp_pipeline.studies.fit import Mean, Outcome, Rule, Verdict, means_by_place, standing
from dp_pipeline.studies.journal import Row

MEASURES = (*METRICS, "seconds")
REFERENCE = "eug_kmeans"
"""RCP compares with it."""

Place = tuple[str, str, Planning, str]
"""Data set, system, planning, ε as canonical text."""


@dataclass(frozen=True)
class Summary:
    """Means of every place.

    means      place → measure → mean
    failures   place → the line of a system that refused
    """

    means: Mapping[Place, Mapping[str, Mean]]
    failures: Mapping[Place, str]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Summary:
        """The summary of finished cells, in the order of data sets, systems, plannings and ε."""

        def place(row: Row) -> Place:
            return row["dataset"], row["system"], row["planning"], row["epsilon"]

        means, failures = means_by_place(sorted_rows(rows), place, MEASURES)
        return cls(means, failures)

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """Data sets with a mean, by name."""
        return tuple(dict.fromkeys(place[0] for place in self.means))

    @cached_property
    def plannings(self) -> tuple[Planning, ...]:
        """The plannings to show: ``none`` stands in each of them."""
        found = {place[2] for place in self.means}
        return tuple(one for one in PLANNINGS if one in found) or ("declared",)

    def systems(self, dataset: str) -> tuple[str, ...]:
        """Systems with a mean on a data set, in the order of ``SYSTEMS``."""
        return tuple(dict.fromkeys(place[1] for place in self.means if place[0] == dataset))

    def epsilons(self, dataset: str) -> tuple[str, ...]:
        """ε of a data set as text, ascending."""
        return tuple(sorted({p[3] for p in self.means if p[0] == dataset}, key=Fraction))

    def mean(
        self, dataset: str, system: str, planning: Planning, epsilon: str, measure: str
    ) -> Mean | None:
        """One mean, ``rcp`` too; of a system that plans with no N, the same in every planning.

        None where nothing was measured.
        """
        if measure == "rcp":
            return self._rcp(dataset, system, planning, epsilon)
        ways: tuple[Planning, ...] = (planning, "none")
        for way in ways:
            found = self.means.get((dataset, system, way, epsilon), {}).get(measure)
            if found is not None:
                return found
        return None

    def _rcp(self, dataset: str, system: str, planning: Planning, epsilon: str) -> Mean | None:
        """RCP of the mean NICVs, in percent; its error by the delta method, because the two
        means are independent: |X/E|·√((s_X/X)² + (s_E/E)²).
        """
        reference = self.mean(dataset, REFERENCE, planning, epsilon, "nicv")
        own = self.mean(dataset, system, planning, epsilon, "nicv")
        if own is None or reference is None or system == REFERENCE or not own.value:
            return None
        value = rcp(reference=reference.value, candidate=own.value)
        relative = sqrt((own.error / own.value) ** 2 + (reference.error / reference.value) ** 2)
        error = 100 * own.value / reference.value * relative
        return Mean(value, error, min(own.repeats, reference.repeats))


def sorted_rows(rows: Iterable[Row]) -> list[Row]:
    """By data set, system in the order of ``SYSTEMS``, planning, ε and repetition."""
    order = {name: index for index, name in enumerate(known_systems())}
    return sorted(
        rows,
        key=lambda row: (
            row["dataset"],
            order[row["system"]],
            row["planning"],
            Fraction(row["epsilon"]),
            row["repetition"],
        ),
    )


Measure = Literal["nicv_ratio", "f_kmeans", "f_label", "rcp"]
_LOWER_IS_BETTER = ("nicv_ratio",)


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper that the study can test.

    source     whose claim it is
    sentence   the claim
    system     whom it praises
    against    whom it is compared with: it must be better than every one of them
    measure    ``nicv_ratio`` (NICV over that without privacy), ``f_kmeans``, ``f_label``; or
               ``rcp``, which is compared with 0
    rule       see ``studies.fit``
    at_most    the claim is of ε up to this one; None for every ε
    """

    source: str
    sentence: str
    system: str
    against: tuple[str, ...]
    measure: Measure
    rule: Rule = "better"
    at_most: Fraction | None = None

    def verdict(self, summary: Summary, planning: Planning) -> Verdict:
        """Over every data set and ε where the system and all it is compared with were measured."""
        outcome = {}
        for dataset in summary.datasets:
            for epsilon in summary.epsilons(dataset):
                found = self._outcome(summary, dataset, planning, epsilon)
                if found is not None:
                    outcome[dataset, epsilon] = found
        return Verdict.by(self.rule, outcome)

    def _outcome(
        self, summary: Summary, dataset: str, planning: Planning, epsilon: str
    ) -> Outcome | None:
        if self.at_most is not None and Fraction(epsilon) > self.at_most:
            return None
        own = summary.mean(dataset, self.system, planning, epsilon, self.measure)
        others = [
            Mean(0.0, 0.0, 0)
            if self.measure == "rcp"
            else summary.mean(dataset, other, planning, epsilon, self.measure)
            for other in self.against
        ]
        lower = self.measure in _LOWER_IS_BETTER
        return standing(own, others, rule=self.rule, lower_is_better=lower)


DPQT_PAPER = "Zhang, Cheng 2021 (DPQTk-means)"
IDPK_PAPER = "Li et al. (IDPk-means)"
SU_PAPER = "Su et al. 2016 (EUGkM, DPLloyd, Hybrid)"
HU_PAPER = "Hu et al. (DPk-means++)"
REN_PAPER = "Ren et al. 2017 (DPLK-means)"
YU_PAPER = "Yu et al. 2016 (OEPT)"
OURS = "This project"
_ROUNDS = ("dp_kmeans", "idp_kmeans", "dp_kmeans_pp")

CLAIMS = (
    Claim(
        DPQT_PAPER,
        "DPQTk-means has a lower NICV than EUGkM at every ε.",
        "dpqt_kmeans",
        ("eug_kmeans",),
        "nicv_ratio",
    ),
    Claim(
        DPQT_PAPER,
        "The RCP of DPQTk-means against EUGkM is positive everywhere.",
        "dpqt_kmeans",
        ("eug_kmeans",),
        "rcp",
    ),
    Claim(
        DPQT_PAPER,
        "DPQTk-means has a lower NICV than DPk-means, IDPk-means and DPk-means++.",
        "dpqt_kmeans",
        _ROUNDS,
        "nicv_ratio",
    ),
    Claim(
        DPQT_PAPER,
        "DPQTk-means has a higher F-measure than DPk-means, IDPk-means, DPk-means++ and EUGkM "
        "(classes: the labels of the data).",
        "dpqt_kmeans",
        (*_ROUNDS, "eug_kmeans"),
        "f_label",
    ),
    Claim(
        DPQT_PAPER,
        "The same F-measure where the data have no labels "
        "(classes: the clusters of k-means without privacy).",
        "dpqt_kmeans",
        (*_ROUNDS, "eug_kmeans"),
        "f_kmeans",
    ),
    Claim(
        IDPK_PAPER,
        "IDPk-means has a lower NICV than DPk-means.",
        "idp_kmeans",
        ("dp_kmeans",),
        "nicv_ratio",
    ),
    Claim(
        IDPK_PAPER,
        "IDPk-means is more usable than DPk-means at low ε (up to 0.1): higher F-measure "
        "(classes: the clusters of k-means without privacy).",
        "idp_kmeans",
        ("dp_kmeans",),
        "f_kmeans",
        at_most=Fraction(1, 10),
    ),
    Claim(
        SU_PAPER,
        "EUGkM has a lower NICV than DPLloyd.",
        "eug_kmeans",
        ("dplloyd",),
        "nicv_ratio",
    ),
    Claim(
        SU_PAPER,
        "Hybrid has a lower NICV than both EUGkM and DPLloyd.",
        "hybrid_kmeans",
        ("eug_kmeans", "dplloyd"),
        "nicv_ratio",
    ),
    Claim(
        HU_PAPER,
        "DPk-means++ has a lower NICV than DPk-means.",
        "dp_kmeans_pp",
        ("dp_kmeans",),
        "nicv_ratio",
    ),
    Claim(
        REN_PAPER,
        "DPLK-means has a lower NICV than DPk-means.",
        "dplk_kmeans",
        ("dp_kmeans",),
        "nicv_ratio",
    ),
    Claim(
        YU_PAPER,
        "OEPT has a lower NICV than DPk-means.",
        "oept_kmeans",
        ("dp_kmeans",),
        "nicv_ratio",
    ),
    Claim(
        OURS,
        "DPk-means with a fixed number of equal rounds has a lower NICV than with halving budgets.",
        "dp_kmeans",
        ("dp_kmeans_halving",),
        "nicv_ratio",
    ),
    Claim(
        OURS,
        "The NICV of HTree is no worse than the best of DPQTk-means, EUGkM and PrivTree.",
        "htree_kmeans",
        ("dpqt_kmeans", "eug_kmeans", "privtree_kmeans"),
        "nicv_ratio",
        rule="no worse",
    ),
)
