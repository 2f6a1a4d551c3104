"""Claims about private tables, the papers' and ours, and what the study says of each.

Summary: means and standard errors over repetitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from dp_pipeline.studies.fit import Mean, Rule, Verdict, means_by_place, standing
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.tables.cells import BASELINES, FACTS, USES, known_systems

Place = tuple[str, str, str]
"""Data set, system, ε as canonical text: empty for a baseline."""


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
        """The summary of finished cells, in the order of data sets, systems and ε."""
        in_order = sorted_rows(rows)

        def place(row: Row) -> Place:
            return row["dataset"], row["system"], row["epsilon"]

        means, failures = means_by_place(in_order, place, measures_of(in_order))
        return cls(means, failures)

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """Data sets with a mean, by name."""
        return tuple(dict.fromkeys(place[0] for place in self.means))

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """Everything that has a mean somewhere."""
        return tuple(dict.fromkeys(name for means in self.means.values() for name in means))

    def systems(self, dataset: str) -> tuple[str, ...]:
        """Systems with a mean on a data set, in the order of ``known_systems``."""
        found = dict.fromkeys(place[1] for place in self.means if place[0] == dataset)
        return tuple(name for name in found if name not in BASELINES)

    def epsilons(self, dataset: str) -> tuple[str, ...]:
        """ε of a data set as text, ascending."""
        found = {place[2] for place in self.means if place[0] == dataset}
        return tuple(sorted(found - {""}, key=Fraction))

    def mean(self, dataset: str, system: str, epsilon: str, measure: str) -> Mean | None:
        """One mean; of a baseline, which has no ε, the same at every ε. None where nothing was
        measured.
        """
        at = "" if system in BASELINES else epsilon
        return self.means.get((dataset, system, at), {}).get(measure)

    def repeats(self) -> tuple[int, int]:
        """Fewest and most repetitions of a number, the memory's apart: it is measured once."""
        found = [
            mean.repeats
            for means in self.means.values()
            for measure, mean in means.items()
            if measure != "peak_mb"
        ]
        return min(found), max(found)


def measures_of(rows: Iterable[Row]) -> tuple[str, ...]:
    """The numbers that the rows hold, in the order in which they come."""
    names = dict.fromkeys(name for row in rows for name in row)
    return tuple(name for name in names if name not in FACTS)


def sorted_rows(rows: Iterable[Row]) -> list[Row]:
    """By data set, system in the order of ``known_systems``, ε, use and repetition."""
    order = {name: at for at, name in enumerate((*known_systems(), *BASELINES))}
    return sorted(
        rows,
        key=lambda row: (
            row["dataset"],
            order[row["system"]],
            Fraction(row["epsilon"] or 0),
            USES.index(row["use"]),
            row["repetition"],
        ),
    )


DISTANCES = ("avd_2", "avd_3", "avd_5", "avd_6")
ERRORS = ("misclassified_svm", "misclassified_logistic")
SECONDS = ("seconds",)

MEASURE_TITLES = {
    **{name: f"AVD k={name.removeprefix('avd_')}" for name in DISTANCES},
    "misclassified_svm": "SVM",
    "misclassified_logistic": "logistic regression",
    "seconds": "run time",
}


@dataclass(frozen=True)
class Claim:
    """One sentence that the study can test; every measure is better when it is lower.

    source     whose claim it is
    sentence   the claim
    system     whom it praises
    against    whom it is compared with; nobody: with itself at the next smaller ε
    measures   columns of the results, each with a verdict of its own; ``misclassified_…`` is the
               mean over the declared targets
    rule       see ``studies.fit``
    factor     the numbers of the others are multiplied by it
    """

    source: str
    sentence: str
    system: str
    against: tuple[str, ...]
    measures: tuple[str, ...]
    rule: Rule = "better"
    factor: float = 1.0

    def verdict(self, summary: Summary, measure: str) -> Verdict:
        """Over every data set and ε where the system and all it is compared with were measured."""
        outcome = {}
        for dataset in summary.datasets:
            for epsilon, others in self._compared(summary, dataset, measure):
                own = summary.mean(dataset, self.system, epsilon, measure)
                scaled = [None if one is None else self._scaled(one) for one in others]
                found = standing(own, scaled, rule=self.rule, lower_is_better=True)
                if found is not None:
                    outcome[dataset, epsilon] = found
        return Verdict.by(self.rule, outcome)

    def _compared(
        self, summary: Summary, dataset: str, measure: str
    ) -> Iterator[tuple[str, list[Mean | None]]]:
        epsilons = summary.epsilons(dataset)
        if not self.against:
            for smaller, epsilon in pairwise(epsilons):
                yield epsilon, [summary.mean(dataset, self.system, smaller, measure)]
            return
        for epsilon in epsilons:
            yield epsilon, [summary.mean(dataset, o, epsilon, measure) for o in self.against]

    def _scaled(self, mean: Mean) -> Mean:
        return Mean(self.factor * mean.value, self.factor * mean.error, mean.repeats)


PRIVHD_PAPER = "Zhang et al. 2018 (PrivHD)"
JTREE_PAPER = "Chen et al. 2015 (JTree)"
AIM_PAPER = "McKenna et al. 2022 (AIM)"
OURS = "This project"

CLAIMS = (
    Claim(
        PRIVHD_PAPER,
        "PrivHD (tuned) has a lower AVD than PrivBayes, JTree and PriView.",
        "privhd",
        ("privbayes", "jtree", "priview"),
        DISTANCES,
    ),
    Claim(
        PRIVHD_PAPER,
        "The same of PrivHD by mutual information, its comparisons composed, "
        "where a row is replaced.",
        "privhd_composed",
        ("privbayes_i", "jtree", "priview"),
        DISTANCES,
    ),
    Claim(
        PRIVHD_PAPER,
        "The same of PrivHD by mutual information, its edges peeled, where a row is replaced.",
        "privhd_peeling",
        ("privbayes_i", "jtree", "priview"),
        DISTANCES,
    ),
    Claim(
        PRIVHD_PAPER,
        "A bigger ε lowers the AVD of PrivHD (tuned).",
        "privhd",
        (),
        DISTANCES,
    ),
    Claim(
        PRIVHD_PAPER,
        "Classifiers taught by PrivHD (tuned) misclassify less than those taught by PrivBayes and "
        "JTree.",
        "privhd",
        ("privbayes", "jtree"),
        ERRORS,
    ),
    Claim(
        PRIVHD_PAPER,
        "PrivHD (tuned) takes less time than PrivBayes and JTree.",
        "privhd",
        ("privbayes", "jtree"),
        SECONDS,
    ),
    Claim(
        JTREE_PAPER,
        "JTree (its sparse-vector step made sound) has a lower AVD than PrivBayes.",
        "jtree",
        ("privbayes",),
        DISTANCES,
    ),
    Claim(
        AIM_PAPER,
        "AIM (a likeness of it) has a lower AVD than MST.",
        "aim_like_delta",
        ("mst_delta",),
        ("avd_2", "avd_3"),
    ),
    Claim(
        OURS,
        "A bigger ε lowers the AVD of one_shot.",
        "one_shot",
        (),
        DISTANCES,
    ),
    Claim(
        OURS,
        "The AVD of one_shot is no worse than the best of PrivBayes, PrivHD (tuned) and "
        "independent with equal shares.",
        "one_shot",
        ("privbayes", "privhd", "independent_equal"),
        DISTANCES,
        rule="no worse",
    ),
    Claim(
        OURS,
        "The AVD of one_shot is within 8 % of independent with shares ∝ √|Ω|.",
        "one_shot",
        ("independent",),
        DISTANCES,
        rule="no worse",
        factor=1.08,
    ),
    Claim(
        OURS,
        "With δ, the AVD of one_shot is no worse than that of MST.",
        "one_shot_delta",
        ("mst_delta",),
        DISTANCES,
        rule="no worse",
    ),
    Claim(
        OURS,
        "With δ, the AVD of one_shot is at most 1.15 times that of the likeness of AIM.",
        "one_shot_delta",
        ("aim_like_delta",),
        DISTANCES,
        rule="no worse",
        factor=1.15,
    ),
    Claim(
        OURS,
        "Classifiers taught by one_shot misclassify no more than those taught by the best of "
        "PrivBayes and PrivHD (tuned).",
        "one_shot",
        ("privbayes", "privhd"),
        ERRORS,
        rule="no worse",
    ),
)
