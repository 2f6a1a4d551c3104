"""How good releases are: exact numbers of public rows, paid ones of sensitive rows.

Of k-anonymous releases: how well classifiers learn, shown of public rows, kept of others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dp_pipeline.anonymity.partition import TooFewRows
from dp_pipeline.anonymity.protocols import EvaluationProtocol, ProtocolResult
from dp_pipeline.anonymity.protocols import evaluate as tried_on
from dp_pipeline.anonymity.rows import CodedRows
from dp_pipeline.metrics.classification import Scorer
from dp_pipeline.publish.account import require_snapshot
from dp_pipeline.publish.home import Home
from dp_pipeline.publish.k_anonymous_release import KAnonymousRelease, coded_rows
from dp_pipeline.publish.quality import Comparison
from dp_pipeline.raw.evaluate import (
    SAMPLING_ERROR,
    class_quality,
    clustering_quality,
    steward_facts,
    table_quality,
)
from dp_pipeline.raw.prepare import require_codes
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.stages import prepared_codes
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.release.class_table import ClassTable
from dp_pipeline.release.clusters import Tables
from dp_pipeline.reporting.figures.cluster_view import metre_rows
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.reporting.quality import ComparedTable
from dp_pipeline.spec.dataset import WINDOW, DatasetSpec
from dp_pipeline.spec.encoding import INVALID, IntArray
from dp_pipeline.spec.errors import DeclarationError

AUC, PAPER_AUC, SECONDS, KEPT = "auc", "auc_paper", "seconds", "kept"
"""Metrics of k-anonymous releases."""

UNITS = {
    **dict.fromkeys(("nicv", "nicv_floor"), "squared data units"),
    SECONDS: "seconds",
    KEPT: "columns",
}


_WAY = 2
"""A number that changes with the numbers: those kept from before are computed anew."""


def evaluate(spec: DatasetSpec, home: Home, bundles: Mapping[str, Bundle]) -> list[QualityRow]:
    """Quality of the releases of one ε, or of one K.

    On release data the exact numbers go to a private file beside the snapshot and
    are not returned; what was paid for through the gate is.
    """
    return [row for bundle in bundles.values() for row in _of_bundle(spec, home, bundle)]


def _of_bundle(spec: DatasetSpec, home: Home, bundle: Bundle) -> list[QualityRow]:
    windows = spec.cut.ranged(bundle.facts[WINDOW]) if spec.window else ()
    snapshot = require_snapshot(spec, home, windows)
    if bundle.is_k_anonymous:
        return _k_anonymous_rows(spec, home, snapshot, bundle)
    return _rows(spec, snapshot, bundle)


def _rows(spec: DatasetSpec, snapshot: Snapshot, bundle: Bundle) -> list[QualityRow]:
    _require_same_purpose(spec, bundle)
    if bundle.facts["snapshot"] != snapshot.names:
        # What was released of an older snapshot was never about these rows.
        return []
    # Of retired rows nothing exact can be said any more; what was paid for stays.
    is_gone = any(one.is_retired() for one in snapshot.all)
    exact = {} if is_gone else _exact_quality(spec, snapshot, bundle)
    own = []
    if not spec.is_release:
        own += [
            _exact(bundle, metric, value, exact.get(SAMPLING_ERROR + metric))
            for metric, value in exact.items()
            if not metric.startswith(SAMPLING_ERROR)
        ]
    own += [
        QualityRow.private(bundle.model, _epsilon(bundle), metric=metric, number=number)
        for metric, number in bundle.quality.items()
    ]
    return [*own, *metre_rows(spec, tuple(bundle.tables.get("centres", ())), own)]


MOST_KEPT = 100
"""Columns, and pairs, of one release that a report compares with the rows: the worst ones."""


def compared_tables(
    spec: DatasetSpec, home: Home, bundles: Mapping[str, Bundle]
) -> dict[str, list[dict[str, Any]]]:
    """Model → its columns and pairs against the rows, the worst first, as documents: of public rows
    alone, and of the snapshot that was released.
    """
    if spec.is_release:
        return {}
    found = {}
    for name, bundle in bundles.items():
        if "codes" not in bundle.tables or bundle.is_k_anonymous:
            continue
        _require_same_purpose(spec, bundle)
        windows = spec.cut.ranged(bundle.facts[WINDOW]) if spec.window else ()
        snapshot = require_snapshot(spec, home, windows)
        is_gone = any(one.is_retired() for one in snapshot.all)
        if bundle.facts["snapshot"] == snapshot.names and not is_gone:
            codes = bundle.tables["codes"]
            real = prepared_codes(spec, snapshot, tuple(codes))
            tables = Comparison(spec.domain, real, codes).compared()
            kept = [one for k in (1, 2) for one in _of_size(tables, k)[:MOST_KEPT]]
            found[name] = [vars(one) for one in kept]
    return found


def _of_size(tables: Sequence[ComparedTable], k: int) -> list[ComparedTable]:
    return [one for one in tables if len(one.attributes) == k]


def from_compared(documents: Sequence[Mapping[str, Any]]) -> tuple[ComparedTable, ...]:
    """Compared tables of documents."""
    return tuple(
        ComparedTable(**{**one, "attributes": tuple(one["attributes"])}) for one in documents
    )


def _require_same_purpose(spec: DatasetSpec, bundle: Bundle) -> None:
    if bundle.facts["purpose"] != spec.purpose:
        raise DeclarationError(
            f"{spec.name}: purpose: expected {bundle.facts['purpose']!r} as in what was released, "
            f"got {spec.purpose!r}"
        )


def _exact(bundle: Bundle, metric: str, value: float, error: float | None) -> QualityRow:
    unit = UNITS.get(metric, "share")
    return QualityRow(bundle.model, _epsilon(bundle), metric, value, None, unit, error)


def _epsilon(bundle: Bundle) -> Fraction:
    return Fraction(bundle.facts["epsilon"])


def _exact_quality(spec: DatasetSpec, snapshot: Snapshot, bundle: Bundle) -> dict[str, float]:
    """Exact numbers, kept by the bundle and by the label or targets that they are of, and by the
    way in which they are computed.
    """
    declared = f"{_WAY} {spec.label} {spec.targets}"
    of = hashlib.sha256(f"{declared} {bundle.to_json()}".encode()).hexdigest()[:32]

    def compute() -> dict[str, float]:
        if "classes" in bundle.tables:
            released = ClassTable.from_tables(bundle.tables, spec.domain)
            return class_quality(spec, snapshot, released)
        if "centres" not in bundle.tables:
            return table_quality(spec, snapshot, _codes(spec, bundle.tables))
        centres = bundle.tables["centres"]
        points = np.stack(list(centres.values()), axis=1)
        return clustering_quality(spec, snapshot, tuple(centres), points)

    return steward_facts(snapshot, f"exact-quality-{of}", compute)


def _codes(spec: DatasetSpec, tables: Tables) -> dict[str, IntArray]:
    """Attribute → codes of the synthetic rows."""
    if "codes" in tables:
        return dict(tables["codes"])
    # A bundle of before there were codes holds a label a row.
    found = {}
    for name, labels in tables["synthetic"].items():
        codes = {label: code for code, label in enumerate(spec.domain[name].labels())}
        places = [codes.get(label, INVALID) for label in labels.tolist()]
        found[name] = np.array(places, dtype=np.int64)
    return found


def _k_anonymous_rows(
    spec: DatasetSpec, home: Home, snapshot: Snapshot, bundle: Bundle
) -> list[QualityRow]:
    """Nothing of a release that is not of the current rows and declarations.

    ``auc``: logistic regression, selection inside each of five folds. ``auc_paper``: as the
    papers have it, support vectors that are tested on rows which the selection has seen.
    ``kept``, ``seconds``: columns and wall time of one selection, mean over the folds. NaN where
    the rows of a fold are too few for the promise. No time is taken on release data.

    DeclarationError for a release that the data set file does not allow: then its rows are not
    read.
    """
    require_codes(spec, snapshot)
    name, k = bundle.facts["model"], int(bundle.facts["k"])
    release = KAnonymousRelease(spec, name, k, home)
    if bundle.key != release.key(snapshot).digest:
        return []
    release.require_allowed()

    def compute() -> dict[str, float]:
        figures = _figures(release, coded_rows(spec, snapshot))
        return {
            name: one for name, one in figures.items() if name != SECONDS or not spec.is_release
        }

    found = steward_facts(snapshot, f"k-anonymous-{bundle.key[:32]}", compute)
    if spec.is_release:
        return []
    return [
        QualityRow(name, Fraction(k), metric, value, None, UNITS.get(metric, "share"))
        for metric, value in found.items()
    ]


def _figures(release: KAnonymousRelease, rows: CodedRows) -> dict[str, float]:
    nested = _tried(release, rows, "nested", "logistic")
    return {
        AUC: nested.aucs["logistic"],
        PAPER_AUC: _tried(release, rows, "paper", "svm").aucs["svm"],
        KEPT: nested.kept,
        SECONDS: nested.seconds,
    }


def _tried(
    release: KAnonymousRelease, rows: CodedRows, protocol: EvaluationProtocol, scorer: Scorer
) -> ProtocolResult:
    try:
        return tried_on(
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
