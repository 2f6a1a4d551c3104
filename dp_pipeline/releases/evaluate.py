"""How good releases are: exact numbers of public rows, paid ones of sensitive rows.

Of k-anonymous releases: how well classifiers learn, shown of public rows, kept of others.

Exact comparison of synthetic rows with real ones, as a QualityReport: the steward's side.

Nothing here is private, and nothing of it is published unless the real rows are a benchmark's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.coded_rows import CodedRows, TooFewRows
from dp_pipeline.anonymity.protocols import EvaluationProtocol, ProtocolResult, evaluate_over
from dp_pipeline.config.dataset import WINDOW, DatasetSpec
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Bins, FloatArray, Names
from dp_pipeline.config.errors import DeclarationError, one_of
from dp_pipeline.metrics.classification import Scorer, predict_attribute, split_rows
from dp_pipeline.metrics.marginals import attribute_sets
from dp_pipeline.raw.closest_record import distance_to_closest_record, share_of_copies
from dp_pipeline.raw.comparison import estimated_distances
from dp_pipeline.raw.evaluate import (
    SAMPLING_ERROR,
    class_quality,
    clustering_quality,
    custodian_facts,
    table_quality,
)
from dp_pipeline.raw.prepare import require_codes
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.stages import prepared_codes
from dp_pipeline.releases.account import require_snapshot
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease, coded_rows
from dp_pipeline.reporting.figures.cluster_view import metre_rows
from dp_pipeline.reporting.metrics import QualityRow, bought_rows
from dp_pipeline.reporting.quality import (
    ComparedTable,
    LearnedLabel,
    Likeness,
    QualityReport,
    worst_first,
)
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.class_table import ClassTable

Codes = Mapping[str, NDArray[Any]]
"""Attribute → codes (rows,), whole numbers below the attribute's size."""

MOST_LEVELS = 20
"""Levels of a column that classifiers tell: they learn once a level."""


@dataclass(frozen=True)
class TableComparison:
    """Two tables over the same attributes.

    real, synthetic   codes of every attribute of the domain
    """

    domain: Domain
    real: Codes
    synthetic: Codes

    def report(self, *, label: str | None = None) -> QualityReport:
        """Everything that is known of both.

        label   an attribute that classifiers learn to tell from the others; None for none

        DeclarationError for a label that is not among the attributes or has more than
        ``MOST_LEVELS`` cells.
        """
        learned = () if label is None else (self.learned(label),)
        copies, twins = share_of_copies(self.real, self.synthetic)
        return QualityReport(
            rows=_many(self.synthetic),
            real=_many(self.real),
            compared=self.compared(),
            learned=learned,
            likeness=Likeness(copies, twins, distance_to_closest_record(self.real, self.synthetic)),
        )

    def compared(self) -> tuple[ComparedTable, ...]:
        """Every column and every pair, the worst first; of very many pairs a sample that the names
        decide.
        """
        names = tuple(self.real)
        ways = [*((name,) for name in names), *attribute_sets(names, 2)]
        sizes = {name: self.domain[name].size for name in names}
        each: Mapping[str, Sequence[Names]] = {str(at): [way] for at, way in enumerate(ways)}
        found = estimated_distances(self.real, self.synthetic, sizes, each)
        moved = self._correlations()
        return worst_first(
            ComparedTable(way, one.value, one.error, moved.get(way))
            for way, one in zip(ways, found.values(), strict=True)
        )

    def learned(self, label: str) -> LearnedLabel:
        """What logistic regression tells of one attribute: learned from the synthetic rows, and
        from four fifths of the real ones; both tested on the other fifth, which a seed decides.
        """
        names = tuple(self.real)
        if label not in names:
            raise DeclarationError(f"label: expected {one_of(names, label)}")
        sizes = {name: self.domain[name].size for name in names}
        if not 2 <= sizes[label] <= MOST_LEVELS:
            raise DeclarationError(
                f"label: expected a column of 2 to {MOST_LEVELS} cells, got {label!r:.60} "
                f"with {sizes[label]}"
            )
        own, tested = (
            {name: codes[rows] for name, codes in self.real.items()}
            for rows in split_rows(_many(self.real), seed=0)
        )
        accuracy, auc = predict_attribute("logistic", self.synthetic, tested, label, sizes)
        real_accuracy, real_auc = predict_attribute("logistic", own, tested, label, sizes)
        most = np.bincount(own[label], minlength=1).argmax()
        majority = float((tested[label] == most).mean()) if len(tested[label]) else float("nan")
        return LearnedLabel(label, accuracy, auc, real_accuracy, real_auc, majority)

    def _correlations(self) -> dict[Names, float]:
        """Pair of numbers → synthetic correlation less the real one, of the middles of their bins;
        none where one of them is constant.
        """
        numbers = [name for name in self.real if isinstance(self.domain[name].cells, Bins)]
        if len(numbers) < 2:
            return {}
        real, synthetic = (
            _correlations({name: _middles(self.domain[name], table[name]) for name in numbers})
            for table in (self.real, self.synthetic)
        )
        moved = synthetic - real
        pairs = combinations(range(len(numbers)), 2)
        return {
            (numbers[a], numbers[b]): float(moved[a, b])
            for a, b in pairs
            if np.isfinite(moved[a, b])
        }


def _many(table: Codes) -> int:
    return len(next(iter(table.values())))


def _correlations(columns: Mapping[str, FloatArray]) -> FloatArray:
    """Pearson's, of the rows in which neither number is missing."""
    import pandas as pd

    return np.asarray(pd.DataFrame(columns).corr())


def _middles(attribute: Attribute, codes: NDArray[Any]) -> FloatArray:
    """The middle of the bin of every row; NaN where it is missing."""
    assert isinstance(attribute.cells, Bins)
    edges = np.asarray(attribute.cells.edges, dtype=np.float64)
    middles = np.append((edges[:-1] + edges[1:]) / 2, np.nan)
    return np.asarray(middles[codes])


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
    windows = spec.cut.parse_range(bundle.facts[WINDOW]) if spec.window else ()
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
    is_gone = any(one.is_retired() for one in snapshot.members)
    exact = {} if is_gone else _exact_quality(spec, snapshot, bundle)
    own = []
    if not spec.is_release:
        own += [
            _exact(bundle, metric, value, exact.get(SAMPLING_ERROR + metric))
            for metric, value in exact.items()
            if not metric.startswith(SAMPLING_ERROR)
        ]
    own += bought_rows(bundle)
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
        windows = spec.cut.parse_range(bundle.facts[WINDOW]) if spec.window else ()
        snapshot = require_snapshot(spec, home, windows)
        is_gone = any(one.is_retired() for one in snapshot.members)
        if bundle.facts["snapshot"] == snapshot.names and not is_gone:
            codes = bundle.tables["codes"]
            real = prepared_codes(spec, snapshot, tuple(codes))
            tables = TableComparison(spec.domain, real, codes).compared()
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
            return table_quality(spec, snapshot, bundle.tables["codes"])
        centres = bundle.tables["centres"]
        points = np.stack(list(centres.values()), axis=1)
        return clustering_quality(spec, snapshot, tuple(centres), points)

    return custodian_facts(snapshot, f"exact-quality-{of}", compute)


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

    found = custodian_facts(snapshot, f"k-anonymous-{bundle.key[:32]}", compute)
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
        KEPT: nested.released_columns,
        SECONDS: nested.seconds,
    }


def _tried(
    release: KAnonymousRelease, rows: CodedRows, protocol: EvaluationProtocol, scorer: Scorer
) -> ProtocolResult:
    try:
        seed, promises = release.declared.seed, [release.promise]
        results = evaluate_over(
            rows, release.method, promises, protocol=protocol, scorers=[scorer], seed=seed
        )
        return results[0]
    except TooFewRows:
        nan = float("nan")
        return ProtocolResult({scorer: nan}, nan, nan)
