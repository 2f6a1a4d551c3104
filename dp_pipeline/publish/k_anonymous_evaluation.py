"""How well classifiers learn from k-anonymous releases: shown of public rows, kept of others."""

from __future__ import annotations

from collections.abc import Mapping

from dp_pipeline.anonymity.partition import TooFewRows
from dp_pipeline.anonymity.protocols import EvaluationProtocol, ProtocolResult, evaluate
from dp_pipeline.anonymity.rows import CodedRows
from dp_pipeline.metrics.classification import Scorer
from dp_pipeline.publish.account import require_snapshot
from dp_pipeline.publish.home import Home
from dp_pipeline.publish.k_anonymous_release import SyntacticRelease, coded_rows
from dp_pipeline.raw.evaluate import steward_facts
from dp_pipeline.raw.prepare import require_codes
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.spec.dataset import DatasetSpec

AUC, PAPER_AUC, SECONDS, KEPT = "auc", "auc_paper", "seconds", "kept"
"""Names of the figures."""

Figures = dict[str, float]


def evaluate_anonymous(
    spec: DatasetSpec, home: Home, bundles: Mapping[str, Bundle]
) -> dict[str, Figures]:
    """Method → figures of its release, all of one K; none of a release that is not of the current
    rows and declarations.

    ``auc``: logistic regression, selection inside each of five folds. ``auc_paper``: as the
    papers have it, support vectors that are tested on rows which the selection has seen.
    ``kept``, ``seconds``: columns and wall time of one selection, mean over the folds. NaN where
    the rows of a fold are too few for the promise.

    On release data the AUCs go to a private file beside the snapshot and nothing is
    returned; no time is taken there. DeclarationError for a release that the data set file does
    not allow: then its rows are not read.
    """
    snapshot = require_snapshot(spec, home)
    require_codes(spec, snapshot)
    found = {}
    for name, bundle in bundles.items():
        release = SyntacticRelease(spec, name, int(bundle.facts["k"]), home)
        if bundle.key == release.key(snapshot):
            release.require_allowed()
            found[name] = _kept(release, snapshot)
    return {} if spec.is_release else found


def _kept(release: SyntacticRelease, snapshot: Snapshot) -> Figures:
    """Computed once a release: looking again reads no row."""

    def compute() -> Figures:
        figures = _figures(release, coded_rows(release.spec, snapshot))
        if release.spec.is_release:
            del figures[SECONDS]
        return figures

    return steward_facts(snapshot, f"k-anonymous-{release.key(snapshot)[:32]}", compute)


def _figures(release: SyntacticRelease, rows: CodedRows) -> Figures:
    nested = _tried(release, rows, "nested", "logistic")
    return {
        AUC: nested.aucs["logistic"],
        PAPER_AUC: _tried(release, rows, "paper", "svm").aucs["svm"],
        KEPT: nested.kept,
        SECONDS: nested.seconds,
    }


def _tried(
    release: SyntacticRelease, rows: CodedRows, protocol: EvaluationProtocol, scorer: Scorer
) -> ProtocolResult:
    try:
        return evaluate(
            rows,
            release.method,
            release.promise,
            protocol=protocol,
            scorers=(scorer,),
            seed=release.declared.seed,
        )
    except TooFewRows:
        nan = float("nan")
        return ProtocolResult({scorer: nan}, nan, nan)
