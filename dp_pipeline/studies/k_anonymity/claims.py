"""Claims about k-anonymous tables, the paper's and ours, and what the study says of each.

Summary: means and standard errors over repetitions, and mean differences of pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from dp_pipeline.studies.fit import Mean, Outcome, Rule, Verdict, means_by_place, standing
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.k_anonymity.cells import FACTS, NO_SELECTION, USES, Use, known_systems

Place = tuple[str, str, str, int]
"""Data set, use, system, K: 0 for what keeps everything."""


@dataclass(frozen=True)
class Summary:
    """What came of finished cells.

    rows   one a place and repetition, in the order of data sets, uses, systems and K
    """

    rows: tuple[Row, ...]

    @classmethod
    def of(cls, cells: Iterable[Row]) -> Summary:
        """The summary of finished cells. Cells that measured a K twice, each with scorers or
        other K of its own, are one row: what both have is the same but for the clock.
        """
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for cell in cells:
            for k, numbers in cell["by_k"].items():
                facts = {**dict.fromkeys(FACTS, ""), **cell, "k": int(k)}
                del facts["by_k"]
                row = found.setdefault((*_place(facts), facts["repetition"]), facts)
                row |= {**numbers, **row, "failure": numbers.get("failure", "")}
        return cls(tuple(sorted(found.values(), key=_order)))

    @cached_property
    def _grouped(self) -> tuple[Mapping[Place, Mapping[str, Mean]], Mapping[Place, str]]:
        return means_by_place(self.rows, _place, self.measures)

    @property
    def means(self) -> Mapping[Place, Mapping[str, Mean]]:
        """Place → measure → mean."""
        return self._grouped[0]

    @property
    def failures(self) -> Mapping[Place, str]:
        """Place → the line of a system that refused."""
        return self._grouped[1]

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """The numbers that the rows hold, in the order in which they come."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return tuple(name for name in names if name not in FACTS)

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """Data sets with a mean, by name."""
        return tuple(dict.fromkeys(place[0] for place in self.means))

    def systems(self, dataset: str) -> tuple[str, ...]:
        """Systems with a mean on a data set, in the order of ``known_systems``."""
        found = {place[2] for place in self.means if place[0] == dataset}
        return tuple(name for name in known_systems() if name in found)

    def partitions(self, dataset: str) -> tuple[int, ...]:
        """K of a data set with a mean, ascending; not that of what keeps everything."""
        found = {p[3] for p in self.means if p[0] == dataset and p[2] != NO_SELECTION}
        return tuple(sorted(found))

    def mean(self, dataset: str, use: str, system: str, k: int, measure: str) -> Mean | None:
        """One mean; of what keeps everything, the same at every K. None where nothing was
        measured.
        """
        at = 0 if system == NO_SELECTION else k
        return self.means.get((dataset, use, system, at), {}).get(measure)

    def numbers(
        self, dataset: str, use: str, system: str, k: int, measure: str
    ) -> dict[int, float]:
        """Repetition → number."""
        at = (dataset, use, system, k)
        return {
            row["repetition"]: row[measure]
            for row in self._by_place.get(at, ())
            if row.get(measure) is not None
        }

    def difference(
        self,
        dataset: str,
        use: str,
        measure: str,
        one: tuple[str, int],
        other: tuple[str, int],
    ) -> Mean | None:
        """Mean of ``one`` less ``other`` (each a system and its K) over the repetitions that both
        have: they saw the same rows in the same folds, so what differs is what they did. None
        without such a repetition.
        """
        ours, theirs = (self.numbers(dataset, use, *place, measure) for place in (one, other))
        pairs = [ours[at] - theirs[at] for at in ours if at in theirs]
        return Mean.of(pairs) if pairs else None

    @cached_property
    def _by_place(self) -> Mapping[Place, list[Row]]:
        found: dict[Place, list[Row]] = {}
        for row in self.rows:
            found.setdefault(_place(row), []).append(row)
        return found

    def repeats(self) -> tuple[int, int]:
        """Fewest and most repetitions of a number."""
        found = [mean.repeats for means in self.means.values() for mean in means.values()]
        return min(found), max(found)


def _place(row: Row) -> Place:
    return row["dataset"], row["use"], row["system"], row["k"]


def _order(row: Row) -> tuple[Any, ...]:
    systems = list(known_systems())
    return (
        row["dataset"],
        USES.index(row["use"]),
        systems.index(row["system"]),
        row["k"],
        row["repetition"],
    )


_NOTHING = Mean(0.0, 0.0, 0)


@dataclass(frozen=True)
class Measured:
    """A number that claims are about.

    title     in tables
    measure   a column of the results
    """

    title: str
    use: Use
    measure: str
    lower_is_better: bool = False


PAPER_SVM = Measured("AUC by SVM (paper)", "paper", "auc_svm")
PAPER_LOGISTIC = Measured("AUC by logistic regression (paper)", "paper", "auc_logistic")
NESTED_SVM = Measured("AUC by SVM (nested)", "nested", "auc_svm")
NESTED_LOGISTIC = Measured("AUC by logistic regression (nested)", "nested", "auc_logistic")
SECONDS = Measured("run time", "release", "seconds", lower_is_better=True)
HOMOGENEOUS = Measured("rows in classes with one label", "release", "homogeneous", True)

AUCS = (PAPER_SVM, PAPER_LOGISTIC, NESTED_LOGISTIC, NESTED_SVM)


@dataclass(frozen=True)
class Claim:
    """One sentence that the study can test, at every K that promises something.

    source     whose claim it is
    sentence   the claim
    system     whom it is about
    measured   each with a verdict of its own
    against    whom it is compared with; None: with itself at the next smaller K
    rule       see ``studies.fit``, here of the mean difference of pairs
    falls      the claim is that the number gets worse
    at_most    instead of all comparisons: every repetition's number is at most this
    """

    source: str
    sentence: str
    system: str
    measured: tuple[Measured, ...]
    against: str | None = None
    rule: Rule = "better"
    falls: bool = False
    at_most: float | None = None

    def verdict(self, summary: Summary, measured: Measured) -> Verdict:
        """Over every data set and K where all that it compares was measured."""
        outcome = {}
        for dataset in summary.datasets:
            for k, found in self._found(summary, dataset, measured):
                if found is not None:
                    outcome[dataset, str(k)] = found
        return Verdict.by(self.rule, outcome, over="K")

    def _found(
        self, summary: Summary, dataset: str, measured: Measured
    ) -> Iterator[tuple[int, Outcome | None]]:
        for smaller, k in pairwise((-1, *summary.partitions(dataset))):
            # K of 0 and 1 promise nothing, and there all systems are alike.
            if k > 1 and self.at_most is not None:
                yield k, self._within(summary, dataset, measured, k)
            elif k > 1:
                other = (self.system, smaller) if self.against is None else (self.against, k)
                yield k, self._compared(summary, dataset, measured, (self.system, k), other)

    def _within(self, summary: Summary, dataset: str, measured: Measured, k: int) -> Outcome | None:
        assert self.at_most is not None
        at = (dataset, measured.use, self.system, k, measured.measure)
        found = summary.numbers(*at).values()
        if not found:
            return None
        return "better" if max(found) <= self.at_most else "worse"

    def _compared(
        self,
        summary: Summary,
        dataset: str,
        measured: Measured,
        own: tuple[str, int],
        other: tuple[str, int],
    ) -> Outcome | None:
        gain = summary.difference(dataset, measured.use, measured.measure, own, other)
        lower = measured.lower_is_better is not self.falls
        return standing(gain, [_NOTHING], rule=self.rule, lower_is_better=lower)


RFKA_PAPER = "Huang, Zhu (RFKA)"
OURS = "This project"

_READINGS = {
    "hamdist_backward": "the bit of least distance is dropped",
    "hamdist_ratio": "the bit is dropped that frees most rows for its distance",
    "hamdist_forward": "RFKA's search in the order of the distance",
}
"""The paper on Greedy_Hamdist could not be read: each reading of it is compared with."""

CLAIMS = (
    *(
        Claim(
            RFKA_PAPER,
            f"The AUC of RFKA is no lower than that of Greedy_Hamdist at every K ({reading}).",
            "rfka",
            AUCS,
            against=name,
            rule="no worse",
        )
        for name, reading in _READINGS.items()
    ),
    *(
        Claim(
            RFKA_PAPER,
            f"RFKA is faster than Greedy_Hamdist ({reading}; distances in closed form).",
            "rfka",
            (SECONDS,),
            against=name,
        )
        for name, reading in _READINGS.items()
    ),
    Claim(
        RFKA_PAPER,
        "The AUC of RFKA falls as K grows (as the figures show): lower than at the K before.",
        "rfka",
        AUCS,
        falls=True,
    ),
    Claim(
        OURS,
        "The AUC of kjig is no lower than that of RFKA at every K.",
        "kjig",
        (NESTED_LOGISTIC, NESTED_SVM),
        against="rfka",
        rule="no worse",
    ),
    Claim(
        OURS,
        "The AUC of kjig is higher than that of RFKA at every K.",
        "kjig",
        (NESTED_LOGISTIC, NESTED_SVM),
        against="rfka",
    ),
    Claim(
        OURS,
        "kjig with 2-diversity leaves no row in a class with one label.",
        "kjig_2diverse",
        (HOMOGENEOUS,),
        at_most=0.0,
    ),
    Claim(
        OURS,
        "kjig selects in at most 0.1 seconds.",
        "kjig",
        (SECONDS,),
        at_most=0.1,
    ),
)
