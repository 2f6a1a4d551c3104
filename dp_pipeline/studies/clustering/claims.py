"""Claims of the papers about private clustering, as data, and what the study says of each."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dp_pipeline.studies.clustering.summary import Summary
from dp_pipeline.studies.clustering.systems import Planning
from dp_pipeline.studies.means import Mean, Outcome
from dp_pipeline.studies.verdict import Rule, Verdict, standing

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
    rule       see ``studies.verdict``
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
