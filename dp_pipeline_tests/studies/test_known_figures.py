"""Figures of the real data against the known ones, and whether our own claims hold.

Longer studies (`make study`), by the code of `python -m benchmarks.papers`. Cells of the folders
that the variables STUDY_CLUSTERING, STUDY_RELEASE and STUDY_ANONYMITY name are not measured again.
A fair figure fails by chance in about 0.1 % of the cases: three standard errors, one side.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite, sqrt
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class PublishedFigure:
    """One measure of some systems, as text at each level.

    repeats   repetitions of ours, over those of the known figures, which print no standard error
    margin    what a figure may be worse by
    factors   what the figure of a system may be multiplied by
    """

    kind: str
    measure: str
    levels: str
    repeats: float
    figures: dict[str, dict[str, str]]
    variant: str = ""
    is_higher_better: bool = False
    margin: float = 0.0
    factors: tuple[tuple[str, float], ...] = ()


RATIOS = PublishedFigure(
    "clustering",
    "nicv_ratio",
    "0.01 0.05 0.1 0.5 1",
    30 / 10,
    {
        "birch3": {
            "dp_kmeans": "19.8 10.8 7.3 2.7 1.9",
            "idp_kmeans": "21.1 12.0 8.0 3.4 2.7",
            "dp_kmeans_pp": "19.7 11.8 7.3 2.8 1.8",
            "dplloyd": "12.1 5.8 4.1 2.1 1.8",
            "hybrid_kmeans": "9.6 5.8 3.7 1.41 1.19",
            "eug_kmeans": "4.7 1.62 1.34 1.13 1.11",
            "dpqt_kmeans": "2.4 1.48 1.35 1.27 1.25",
            "privtree_kmeans": "2.8 1.53 1.25 1.05 1.02",
            "htree_kmeans": "2.01 1.29 1.16 1.02 1.005",
        },
        "checkin_events": {
            "dp_kmeans": "8.9 4.3 3.5 3.9 4.0",
            "idp_kmeans": "8.2 2.5 2.1 1.5 1.4",
            "dp_kmeans_pp": "12.6 2.4 2.3 1.8 1.7",
            "dplloyd": "7.0 4.6 3.9 4.3 4.8",
            "hybrid_kmeans": "4.3 1.8 2.1 1.9 1.9",
            "eug_kmeans": "2.4 2.4 2.2 2.0 2.0",
            "dpqt_kmeans": "1.8 1.21 1.16 1.15 1.15",
            "privtree_kmeans": "1.2 1.09 1.02 1.00 1.00",
            "htree_kmeans": "1.22 1.05 1.02 1.00 1.00",
        },
        # Hybrid was not measured here.
        "unbalance": {
            "dp_kmeans": "1010 220 164 37 32",
            "idp_kmeans": "1358 211 132 36 17",
            "dp_kmeans_pp": "1353 275 196 36 22",
            "dplloyd": "323 101 57 31 28",
            "eug_kmeans": "629 281 87 20 14",
            "dpqt_kmeans": "70 31 26 18 17",
            "privtree_kmeans": "99 20 8.9 3.8 2.6",
            "htree_kmeans": "46 12 7.1 2.8 2.0",
        },
    },
    variant="declared",
)
PAIRS = PublishedFigure(
    "release",
    "avd_2",
    "0.05 0.2 0.8 1.6",
    1,
    # The papers' methods as others have measured them, but for MST on Adult at ε = .2, which is
    # ours: .054 was said and is not reached.
    {
        "nltcs": {
            "independent_equal": ".163 .161 .161 .161",
            "independent": ".161 .161 .161 .161",
            "jtree": ".116 .105 .092 .098",
            "privbayes": ".096 .041 .020 .014",
            "privhd": ".080 .038 .042 .048",
            "mst_delta": ".096 .088 .084 .086",
            "aim_like_delta": ".035 .010 .004 .004",
            "one_shot": ".070 .018 .0065 .0038",
            "one_shot_delta": ".039 .011 .0030 .0018",
        },
        "adult": {
            "independent_equal": ".111 .082 .076 .075",
            "independent": ".103 .080 .076 .075",
            "jtree": ".374 .171 .076 .060",
            "privbayes": ".137 .093 .067 .056",
            "privhd": ".123 .073 .040 .031",
            "mst_delta": ".119 .060 .041 .039",
            "aim_like_delta": ".096 .048 .024 .021",
            "one_shot": ".107 .058 .030 .022",
            "one_shot_delta": ".087 .046 .024 .019",
        },
    },
    # Known by an accounting that is not used until it is proven: 2 to 8 % lower.
    factors=(("one_shot_delta", 1.08),),
)
# 500 sets of attributes. On Adult .054 and .041 were said at the last two ε, over unknown sets.
TRIPLES = replace(
    PAIRS,
    measure="avd_3",
    figures={
        "nltcs": {"one_shot": ".121 .034 .012 .007"},
        "adult": {"one_shot": ".186 .101 .059 .045"},
    },
)
# Mean over four targets; measured here, where real rows have .152, and not .150.
WRONG = replace(
    PAIRS,
    measure="misclassified_svm",
    figures={"adult": {"one_shot": ".288 .196 .161 .158", "privbayes": ".319 .208 .169 .162"}},
)
NESTED = PublishedFigure(
    "anonymity",
    "auc_logistic",
    "2 5 10 20 50",
    10 / 5,
    {
        "adult_2000": {
            "rfka": ".857 .854 .836 .826 .792",
            "hamdist_forward": ".836 .830 .830 .817 .791",
            "kjig": ".868 .870 .865 .861 .856",
            "kjig_2diverse": ".857 .857 .857 .853 .852",
            "mondrian": ".855 .860 .860 .852 .831",
            "tree": ".866 .866 .866 .866 .865",
        },
        "breast_cancer_wisconsin": {
            "rfka": ".983 .968 .963 .962 .941",
            "hamdist_forward": ".978 .978 .976 .966 .943",
            "kjig": ".988 .982 .978 .976 .958",
            "kjig_2diverse": ".978 .978 .976 .980 .958",
            "mondrian": ".984 .986 .985 .982 .976",
            "tree": ".979 .979 .979 .979 .971",
        },
    },
    variant="nested",
    is_higher_better=True,
)
PAPER = PublishedFigure(
    "anonymity",
    "auc_svm",
    "2 5 10 20 50",
    10 / 3,
    {
        "adult_2000": {
            "rfka": ".743 .718 .704 .649 .693",
            "hamdist_backward": ".722 .637 .637 .639 .593",
        },
        "breast_cancer_wisconsin": {"rfka": ".976 .937 .943 .953 .913"},
    },
    variant="paper",
    is_higher_better=True,
    # Many of the few different rows of a release lie on the margin of support vectors. Which of
    # them scores higher is decided by the solver's tolerance, not by the rows: AUCs of distances
    # that are not rounded, as in the paper, are off by 0.001 to 0.03. Ours are rounded.
    margin=0.02,
)
TABLES_OF_FIGURES = (RATIOS, PAIRS, TRIPLES, WRONG, NESTED, PAPER)
DATASETS = {expected.kind: tuple(expected.figures) for expected in (RATIOS, PAIRS, NESTED)}


def studies_of(kind: str, folder: Path) -> list[Study]:
    """Return the studies of all known figures of one kind."""
    tables = [expected for expected in TABLES_OF_FIGURES if expected.kind == kind]
    figures = [figures for expected in tables for figures in expected.figures.values()]
    names = sorted(set().union(*figures))
    specs = tuple(find_spec(name) for name in DATASETS[kind])
    fields: dict[str, Any] = {"specs": specs, "repeats": 10, "folder": folder}
    if kind == "clustering":
        systems = select_systems(names, CLUSTERINGS)
        return [ClusteringStudy(**{**fields, "repeats": 30}, systems=systems)]
    if kind == "anonymity":
        return [AnonymityStudy(**fields, systems=select_systems(names, METHODS))]
    fields |= {"delta": Fraction(1, 10**9), "teaches_classifiers": False}
    study = ReleaseStudy(**fields, systems=select_systems(names, TABLES))
    taught = select_systems(tuple(WRONG.figures["adult"]), TABLES)
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
    ("expected", "dataset", "system", "index"),
    [
        pytest.param(expected, dataset, system, i, id=f"{expected.measure} {dataset} {system} {k}")
        for expected in TABLES_OF_FIGURES
        for dataset, figures in expected.figures.items()
        for system in figures
        for i, k in enumerate(expected.levels.split())
    ],
)
def test_figure_is_no_worse_than_published(summary_of, expected, dataset, system, index) -> None:
    levels, figures = expected.levels.split(), expected.figures[dataset][system].split()
    place = Place(dataset, expected.variant, system, levels[index])
    mean = summary_of(expected.kind).mean(place, expected.measure)
    assert mean is not None
    assert isfinite(mean.error)
    print(f"\n{expected.measure} {place}: {mean.text} (known {figures[index]})")
    last_digit = 10.0 ** -len(figures[index].partition(".")[2]) / 2
    margin = last_digit + expected.margin + SURE * mean.error * sqrt(1 + expected.repeats)
    figure = dict(expected.factors).get(system, 1.0) * float(figures[index])
    assert (figure - mean.value if expected.is_higher_better else mean.value - figure) <= margin


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
