"""AUC on the paper's two data sets against the known numbers, and whether our own claims hold.

A longer study (`make study`): 10 repetitions of every system of the tables at five K, by the code
of `dp-pipeline study anonymity`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from math import isfinite, sqrt
from pathlib import Path

import pytest

from dp_pipeline.ledger import Ledger
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.spec.source import DATA_FOLDER_VARIABLE
from dp_pipeline.studies.claims import OURS, SURE, Measured, PaperClaim
from dp_pipeline.studies.k_anonymity import CLAIMS, SYSTEMS, AnonymityStudy
from dp_pipeline.studies.results import Place, Summary
from dp_pipeline.studies.study import named, open_journal

pytestmark = [
    pytest.mark.study,
    pytest.mark.skipif(
        not os.environ.get(DATA_FOLDER_VARIABLE),
        reason=f"needs the real data that {DATA_FOLDER_VARIABLE} names",
    ),
]

REPETITIONS = 10
TABLE_REPETITIONS = {"nested": 5, "paper": 3}
"""The known numbers are means of so many runs, one of them as good as one of ours: their own
standard error is not printed."""

PARTITIONS = (2, 5, 10, 20, 50)

NESTED = {
    "adult_2000": {
        "rfka": (".857", ".854", ".836", ".826", ".792"),
        "hamdist_forward": (".836", ".830", ".830", ".817", ".791"),
        "kjig": (".868", ".870", ".865", ".861", ".856"),
        "kjig_2diverse": (".857", ".857", ".857", ".853", ".852"),
        "mondrian": (".855", ".860", ".860", ".852", ".831"),
        "tree": (".866", ".866", ".866", ".866", ".865"),
    },
    "breast_cancer_wisconsin": {
        "rfka": (".983", ".968", ".963", ".962", ".941"),
        "hamdist_forward": (".978", ".978", ".976", ".966", ".943"),
        "kjig": (".988", ".982", ".978", ".976", ".958"),
        "kjig_2diverse": (".978", ".978", ".976", ".980", ".958"),
        "mondrian": (".984", ".986", ".985", ".982", ".976"),
        "tree": (".979", ".979", ".979", ".979", ".971"),
    },
}
"""Data set → system → mean AUC of logistic regression at each K, selected in each fold."""

PAPER = {
    "adult_2000": {
        "rfka": (".743", ".718", ".704", ".649", ".693"),
        "hamdist_backward": (".722", ".637", ".637", ".639", ".593"),
    },
    "breast_cancer_wisconsin": {"rfka": (".976", ".937", ".943", ".953", ".913")},
}
"""The same of support vectors, selected once on all rows."""

SVM_ROOM = 0.02
"""Few different rows are left of a release, and many of them lie on the margin of support vectors.
Which of those scores higher is decided by the solver's tolerance, not by the rows: AUCs of
distances that are not rounded, as in the table, are off by 0.001 to 0.03 where this was tried. Ours
are rounded.
"""

AUCS = {
    "nested": (NESTED, "auc_logistic"),
    "paper": (PAPER, "auc_svm"),
}

NAMES = {system for table, _ in AUCS.values() for known in table.values() for system in known}


@pytest.fixture(scope="module")
def summary(folder_of: Callable[[str], Path]) -> Summary:
    """Means of everything that the tests look at."""
    folder = folder_of("anonymity")
    study = AnonymityStudy(
        specs=tuple(find_spec(name) for name in NESTED),
        systems=named(sorted(NAMES), SYSTEMS),
        partitions=(),
        protocols=("paper", "nested"),
        scorers=("logistic", "svm"),
        repeats=REPETITIONS,
        folder=folder,
        ledger=Ledger(folder / "ledger"),
        jobs=os.cpu_count() or 1,
    )
    study.run()
    with open_journal(folder / "results.jsonl", study.header()) as journal:
        rows = [
            row
            for row in journal.rows.values()
            if row["dataset"] in NESTED and row["system"] in NAMES
        ]
    return Summary.of(study.factors, study.rows(rows))


@pytest.mark.parametrize("k", PARTITIONS)
@pytest.mark.parametrize(
    ("use", "dataset", "system"),
    [
        (use, dataset, system)
        for use, (table, _) in AUCS.items()
        for dataset, known in table.items()
        for system in known
    ],
)
def test_the_auc_is_no_lower_than_the_known_one(
    summary: Summary, use: str, dataset: str, system: str, k: int
) -> None:
    table, measure = AUCS[use]
    known = table[dataset][system][PARTITIONS.index(k)]
    found = summary.mean(Place(dataset, use, system, str(k)), measure)
    assert found is not None
    print(f"\n{use} {dataset} {system} K={k}: {found.text} (known {known})")
    error = found.error * sqrt(1 + REPETITIONS / TABLE_REPETITIONS[use])
    last_digit = 10.0 ** -len(known.partition(".")[2]) / 2
    assert isfinite(found.error)
    room = SVM_ROOM if measure == "auc_svm" else 0.0
    assert found.value >= float(known) - last_digit - room - SURE * error


@pytest.mark.parametrize(
    ("claim", "measured"),
    [
        (claim, measured)
        for claim in CLAIMS
        for measured in claim.measured
        if claim.source == OURS and measured.measure != "auc_svm" and claim.rule == "no worse"
    ],
    ids=lambda one: one.sentence[:60] if isinstance(one, PaperClaim) else one.measure,
)
def test_what_we_claim_holds_everywhere(
    summary: Summary, claim: PaperClaim, measured: Measured
) -> None:
    found = claim.verdict(summary, measured, str(measured.way))
    assert len(found.held) == len(NESTED) * len(PARTITIONS)
    assert all(found.held.values()), found.text
