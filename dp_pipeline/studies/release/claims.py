"""Claims about private tables, the papers' and ours, and what the study says of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from dp_pipeline.studies.means import Mean
from dp_pipeline.studies.release.summary import Summary
from dp_pipeline.studies.verdict import Rule, Verdict, standing

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
    rule       see ``studies.verdict``
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
