"""Claims about k-anonymous tables, the paper's and ours, and what the study says of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from dp_pipeline.studies.anonymity.cell import Use
from dp_pipeline.studies.anonymity.summary import Summary
from dp_pipeline.studies.means import Mean, Outcome
from dp_pipeline.studies.verdict import Rule, Verdict, standing

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
    rule       see ``studies.verdict``, here of the mean difference of pairs
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
