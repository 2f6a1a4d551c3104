"""Figures of the real data against the known ones, and whether our own claims hold.

Longer studies (`make study`), by the code of `python -m benchmarks.papers`. Cells of the folders
that the variables STUDY_CLUSTERING, STUDY_RELEASE and STUDY_ANONYMITY name are not measured again.
A fair figure fails by chance in about 0.1 % of the cases: three standard errors, one side.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import isfinite, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.papers.anonymity import SYSTEMS as METHODS
from benchmarks.papers.anonymity import AnonymityStudy
from benchmarks.papers.claimed import DISTANCES, OURS
from benchmarks.papers.claims import SURE
from benchmarks.papers.clustering import SYSTEMS as CLUSTERINGS
from benchmarks.papers.clustering import ClusteringStudy
from benchmarks.papers.results import Place, Summary
from benchmarks.papers.shown import REPORTS
from benchmarks.papers.study import Study, select_systems
from benchmarks.papers.tables import SYSTEMS as TABLES
from benchmarks.papers.tables import ReleaseStudy
from dp_pipeline.config.catalogue import find_spec
from dp_pipeline.config.source import DATA_FOLDER_VARIABLE
from dp_pipeline.ledger import Ledger

pytestmark = [
    pytest.mark.study,
    pytest.mark.skipif(
        not os.environ.get(DATA_FOLDER_VARIABLE),
        reason=f"needs the real data that {DATA_FOLDER_VARIABLE} names",
    ),
]


class PublishedFigure(NamedTuple):
    """One measure of some systems, as text at each level.

    repeats   repetitions of ours, over those of the known figures, which print no standard error
    figures   lines of a data set, a system, and its figure at each level
    margin    what a figure may be worse by
    """

    kind: str
    measure: str
    levels: str
    repeats: float
    figures: str
    variant: str = ""
    is_higher_better: bool = False
    margin: float = 0.0

    @property
    def rows(self) -> dict[tuple[str, str], list[str]]:
        """(data set, system) → its figures."""
        lines = map(str.split, self.figures.strip().splitlines())
        return {(dataset, system): figures for dataset, system, *figures in lines}


# Hybrid was not measured on unbalance.
RATIOS = """
birch3 dp_kmeans 19.8 10.8 7.3 2.7 1.9
birch3 idp_kmeans 21.1 12.0 8.0 3.4 2.7
birch3 dp_kmeans_pp 19.7 11.8 7.3 2.8 1.8
birch3 dplloyd 12.1 5.8 4.1 2.1 1.8
birch3 hybrid_kmeans 9.6 5.8 3.7 1.41 1.19
birch3 eug_kmeans 4.7 1.62 1.34 1.13 1.11
birch3 dpqt_kmeans 2.4 1.48 1.35 1.27 1.25
birch3 privtree_kmeans 2.8 1.53 1.25 1.05 1.02
birch3 htree_kmeans 2.01 1.29 1.16 1.02 1.005
checkin_events dp_kmeans 8.9 4.3 3.5 3.9 4.0
checkin_events idp_kmeans 8.2 2.5 2.1 1.5 1.4
checkin_events dp_kmeans_pp 12.6 2.4 2.3 1.8 1.7
checkin_events dplloyd 7.0 4.6 3.9 4.3 4.8
checkin_events hybrid_kmeans 4.3 1.8 2.1 1.9 1.9
checkin_events eug_kmeans 2.4 2.4 2.2 2.0 2.0
checkin_events dpqt_kmeans 1.8 1.21 1.16 1.15 1.15
checkin_events privtree_kmeans 1.2 1.09 1.02 1.00 1.00
checkin_events htree_kmeans 1.22 1.05 1.02 1.00 1.00
unbalance dp_kmeans 1010 220 164 37 32
unbalance idp_kmeans 1358 211 132 36 17
unbalance dp_kmeans_pp 1353 275 196 36 22
unbalance dplloyd 323 101 57 31 28
unbalance eug_kmeans 629 281 87 20 14
unbalance dpqt_kmeans 70 31 26 18 17
unbalance privtree_kmeans 99 20 8.9 3.8 2.6
unbalance htree_kmeans 46 12 7.1 2.8 2.0
"""
# The papers' methods as others have measured them, but for MST on Adult at ε = .2, which is ours:
# .054 was said and is not reached.
PAIRS = """
nltcs independent_equal .163 .161 .161 .161
nltcs independent .161 .161 .161 .161
nltcs jtree .116 .105 .092 .098
nltcs privbayes .096 .041 .020 .014
nltcs privhd .080 .038 .042 .048
nltcs mst_delta .096 .088 .084 .086
nltcs aim_like_delta .035 .010 .004 .004
nltcs one_shot .070 .018 .0065 .0038
nltcs one_shot_delta .039 .011 .0030 .0018
adult independent_equal .111 .082 .076 .075
adult independent .103 .080 .076 .075
adult jtree .374 .171 .076 .060
adult privbayes .137 .093 .067 .056
adult privhd .123 .073 .040 .031
adult mst_delta .119 .060 .041 .039
adult aim_like_delta .096 .048 .024 .021
adult one_shot .107 .058 .030 .022
adult one_shot_delta .087 .046 .024 .019
"""
# 500 sets of attributes. On Adult .054 and .041 were said at the last two ε, over unknown sets.
TRIPLES = """
nltcs one_shot .121 .034 .012 .007
adult one_shot .186 .101 .059 .045
"""
# Mean over four targets; measured here, where real rows have .152, and not .150.
WRONG = """
adult one_shot .288 .196 .161 .158
adult privbayes .319 .208 .169 .162
"""
NESTED = """
adult_2000 rfka .857 .854 .836 .826 .792
adult_2000 hamdist_forward .836 .830 .830 .817 .791
adult_2000 kjig .868 .870 .865 .861 .856
adult_2000 kjig_2diverse .857 .857 .857 .853 .852
adult_2000 mondrian .855 .860 .860 .852 .831
adult_2000 tree .866 .866 .866 .866 .865
breast_cancer_wisconsin rfka .983 .968 .963 .962 .941
breast_cancer_wisconsin hamdist_forward .978 .978 .976 .966 .943
breast_cancer_wisconsin kjig .988 .982 .978 .976 .958
breast_cancer_wisconsin kjig_2diverse .978 .978 .976 .980 .958
breast_cancer_wisconsin mondrian .984 .986 .985 .982 .976
breast_cancer_wisconsin tree .979 .979 .979 .979 .971
"""
PAPER = """
adult_2000 rfka .743 .718 .704 .649 .693
adult_2000 hamdist_backward .722 .637 .637 .639 .593
breast_cancer_wisconsin rfka .976 .937 .943 .953 .913
"""
EPSILONS, SIZES = "0.05 0.2 0.8 1.6", "2 5 10 20 50"
TABLES_OF_FIGURES = (
    PublishedFigure("clustering", "nicv_ratio", "0.01 0.05 0.1 0.5 1", 30 / 10, RATIOS, "declared"),
    PublishedFigure("release", "avd_2", EPSILONS, 1, PAIRS),
    PublishedFigure("release", "avd_3", EPSILONS, 1, TRIPLES),
    PublishedFigure("release", "misclassified_svm", EPSILONS, 1, WRONG),
    PublishedFigure("anonymity", "auc_logistic", SIZES, 10 / 5, NESTED, "nested", True),
    # Many of the few different rows of a release lie on the margin of support vectors. Which of
    # them scores higher is decided by the solver's tolerance, not by the rows: AUCs of distances
    # that are not rounded, as in the paper, are off by 0.001 to 0.03. Ours are rounded.
    PublishedFigure("anonymity", "auc_svm", SIZES, 10 / 3, PAPER, "paper", True, 0.02),
)
FACTORS = {("avd_2", "one_shot_delta"): 1.08}
"""Known by an accounting that is not used until it is proven: 2 to 8 % lower."""

DATASETS = {
    table.kind: tuple(dict.fromkeys(dataset for dataset, _ in table.rows))
    for table in reversed(TABLES_OF_FIGURES)
}


def studies_of(kind: str, folder: Path) -> list[Study]:
    """Return the studies of all known figures of one kind."""
    tables = [table for table in TABLES_OF_FIGURES if table.kind == kind]
    names = sorted({system for table in tables for _, system in table.rows})
    specs = tuple(find_spec(name) for name in DATASETS[kind])
    fields: dict[str, Any] = {"specs": specs, "repeats": 10, "folder": folder}
    if kind == "clustering":
        systems = select_systems(names, CLUSTERINGS)
        return [ClusteringStudy(**{**fields, "repeats": 30}, systems=systems)]
    if kind == "anonymity":
        return [AnonymityStudy(**fields, systems=select_systems(names, METHODS))]
    fields |= {"delta": Fraction(1, 10**9), "teaches_classifiers": False}
    study = ReleaseStudy(**fields, systems=select_systems(names, TABLES))
    taught = select_systems([line.split()[1] for line in WRONG.strip().splitlines()], TABLES)
    return [study, replace(study, specs=specs[1:], systems=taught, teaches_classifiers=True)]


@pytest.fixture(scope="module")
def summary_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Summary]:
    """Kind of a study → the means of everything that the tests look at."""
    summaries: dict[str, Summary] = {}

    def summary(kind: str) -> Summary:
        if kind not in summaries:
            folder, before = tmp_path_factory.mktemp(kind), os.environ.get(f"STUDY_{kind.upper()}")
            if before:
                shutil.copy(Path(before) / "results.jsonl", folder)
            for study in studies_of(kind, folder):
                cells = study.run(Ledger(folder / "ledger"), jobs=os.cpu_count() or 1)
            rows = [row for row in study.rows(cells) if row["dataset"] in DATASETS[kind]]
            summaries[kind] = Summary.of(REPORTS[kind].factors, rows)
        return summaries[kind]

    return summary


@pytest.mark.parametrize(
    ("table", "place", "known"),
    [
        pytest.param(
            table, (*place, level), figure, id=f"{table.measure} {' '.join(place)} {level}"
        )
        for table in TABLES_OF_FIGURES
        for place, figures in table.rows.items()
        for level, figure in zip(table.levels.split(), figures, strict=True)
    ],
)
def test_figure_is_no_worse_than_published(summary_of, table, place, known: str) -> None:
    dataset, system, level = place
    measured_at = Place(dataset, table.variant, system, level)
    mean = summary_of(table.kind).mean(measured_at, table.measure)
    assert mean is not None
    assert isfinite(mean.error)
    print(f"\n{table.measure} {measured_at}: {mean.text} (known {known})")
    last_digit = 10.0 ** -len(known.partition(".")[2]) / 2
    margin = last_digit + table.margin + SURE * mean.error * sqrt(1 + table.repeats)
    figure = FACTORS.get((table.measure, system), 1.0) * float(known)
    assert (figure - mean.value if table.is_higher_better else mean.value - figure) <= margin


@pytest.mark.parametrize(
    ("kind", "claim", "measured"),
    [
        pytest.param(kind, claim, measured, id=f"{claim.sentence[:50]} {measured.measure}")
        for kind in ("release", "anonymity")
        for claim in REPORTS[kind].claims
        for measured in claim.measured
        if claim.source == OURS
        if measured is DISTANCES[0] or (kind, claim.rule) == ("anonymity", "no worse")
        if measured.measure != "auc_svm"
    ],
)
def test_what_we_claim_holds_everywhere(summary_of, kind: str, claim, measured) -> None:
    verdict = claim.verdict(summary_of(kind), measured, measured.variant or "")
    assert verdict.is_held
    assert all(verdict.is_held.values()), verdict.short
