"""The quality of releases: exact numbers on public rows, noisy paid ones on sensitive rows.

Exact comparisons with sensitive rows are for the data custodian alone and are never published.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from dp_pipeline.anonymity.coded_rows import CodedRows, TooFewRows
from dp_pipeline.config.dataset import WINDOW, DatasetSpec
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Bins, Codes, Names
from dp_pipeline.config.errors import DeclarationError, one_of
from dp_pipeline.metrics.classification import Scorer, predict_attribute, split_rows
from dp_pipeline.metrics.unit_tables import UnitTables
from dp_pipeline.raw.closest_record import distance_to_closest_record, share_of_copies
from dp_pipeline.raw.comparison import distances_of_table
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
from dp_pipeline.releases.k_anonymous_protocols import (
    EvaluationProtocol,
    ProtocolResult,
    evaluate_over,
)
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease, coded_rows
from dp_pipeline.reporting import quality
from dp_pipeline.reporting.figures.cluster_view import metre_rows
from dp_pipeline.reporting.metrics import QualityRow, bought_rows
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.class_table import ClassTable

MOST_LEVELS = 20
"""Levels of a label that classifiers predict: they learn once a level."""


@dataclass(frozen=True)
class TableComparison:
    """A real and a synthetic table with the same attributes, to be compared.

    real, synthetic   codes of every attribute of the domain
    """

    domain: Domain
    real: Codes
    synthetic: Codes

    def report(self, *, label: str | None = None) -> quality.QualityReport:
        """Return the report with every comparison of the two tables.

        label   an attribute that classifiers learn to predict from the others; None for none

        DeclarationError for a label that is no attribute, or has not 2 to ``MOST_LEVELS`` cells.
        """
        learned = () if label is None else (self.learned_label(label),)
        copies, twins = share_of_copies(self.real, self.synthetic)
        distance = distance_to_closest_record(self.real, self.synthetic)
        return quality.QualityReport(
            rows=_row_count(self.synthetic),
            real=_row_count(self.real),
            compared=self.compared(),
            learned=learned,
            likeness=quality.Likeness(copies, twins, distance),
        )

    def compared(self) -> tuple[quality.ComparedTable, ...]:
        """Return a comparison of each column and pair (of very many, a sample), worst first."""
        distances = distances_of_table(self.domain, self.real, self.synthetic)
        if self.domain.parts is None:
            moved = self._correlation_changes(self.real, self.synthetic)
        else:
            # Numbers of units are compared over units, all others over parts.
            tables = (self.real, self.synthetic)
            real, synthetic = (UnitTables(self.domain, codes) for codes in tables)
            moved = self._correlation_changes(real.parts, synthetic.parts)
            moved |= self._correlation_changes(real.units, synthetic.units)
        return quality.sort_by_distance(
            quality.ComparedTable(attributes, distance.value, distance.error, moved.get(attributes))
            for attributes, distance in distances.items()
        )

    def learned_label(self, label: str) -> quality.LearnedLabel:
        """Return accuracy and AUC of logistic regression for a label, learned from either table.

        It learns from the synthetic rows, or from 4/5 of the real ones; a fixed 1/5 tests both, and
        also the guess of the most frequent level. DeclarationError as of ``report``.
        """
        names = tuple(self.real)
        if label not in names:
            raise DeclarationError(f"The label {one_of(names, label)}")
        sizes = {name: self.domain[name].size for name in names}
        if not 2 <= sizes[label] <= MOST_LEVELS:
            raise DeclarationError(
                f"The label must be a column of 2 to {MOST_LEVELS} levels or bins, but "
                f"{label!r:.60} has {sizes[label]}: choose another label"
            )
        learned, tested = (
            {name: codes[rows] for name, codes in self.real.items()}
            for rows in split_rows(_row_count(self.real), seed=0)
        )
        accuracy, auc = predict_attribute("logistic", self.synthetic, tested, label, sizes)
        real_accuracy, real_auc = predict_attribute("logistic", learned, tested, label, sizes)
        most_frequent = np.bincount(learned[label], minlength=1).argmax()
        hits = tested[label] == most_frequent
        majority = float(hits.mean()) if len(hits) else float("nan")
        return quality.LearnedLabel(label, accuracy, auc, real_accuracy, real_auc, majority)

    def _correlation_changes(self, *tables: Codes) -> dict[Names, float]:
        """Return pair of numeric attributes → its synthetic minus its real correlation.

        A pair is left out if either correlation is undefined, as that of a constant is.

        tables   the real one and the synthetic one
        """
        numbers = [name for name in tables[0] if isinstance(self.domain[name].cells, Bins)]
        if len(numbers) < 2:
            return {}
        import pandas as pd

        centres = {}
        for name in numbers:
            cells = self.domain[name].cells
            assert isinstance(cells, Bins)
            edges = np.asarray(cells.edges, dtype=np.float64)
            centres[name] = np.append((edges[:-1] + edges[1:]) / 2, np.nan)
        # Pearson's, of the centres of bins, over rows without missing numbers in a pair.
        real, synthetic = (
            pd.DataFrame({name: centres[name][table[name]] for name in numbers}).corr().to_numpy()
            for table in tables
        )
        moved = synthetic - real
        pairs = combinations(range(len(numbers)), 2)
        return {
            (numbers[a], numbers[b]): float(moved[a, b])
            for a, b in pairs
            if np.isfinite(moved[a, b])
        }


def _row_count(table: Codes) -> int:
    return len(next(iter(table.values())))


AUC, PAPER_AUC, SECONDS, KEPT = "auc", "auc_paper", "seconds", "kept"
"""Metrics of k-anonymous releases."""

UNITS = dict.fromkeys(("nicv", "nicv_floor"), "squared data units")
UNITS |= {SECONDS: "seconds", KEPT: "columns"}


_VERSION = 3
"""Version of the formulas of exact numbers: numbers of another version are computed anew."""


def evaluate(spec: DatasetSpec, home: Home, bundles: Mapping[str, Bundle]) -> list[QualityRow]:
    """Return the quality numbers of those releases whose snapshot is the current one.

    Of sensitive rows these are paid numbers only, so none of a k-anonymous release; exact ones go
    to a private file in the raw store. Of retired rows a noisy release has paid numbers only, too.

    bundles   model or method → its release

    NotPrepared without a snapshot, and of a k-anonymous release without prepared rows.
    DeclarationError for a noisy release that was made for another purpose, and for a k-anonymous
    one that the data set file does not allow.
    """
    return [row for bundle in bundles.values() for row in _of_bundle(spec, home, bundle)]


def _of_bundle(spec: DatasetSpec, home: Home, bundle: Bundle) -> list[QualityRow]:
    snapshot = _released_snapshot(spec, home, bundle)
    if bundle.is_k_anonymous:
        return _k_anonymous_rows(spec, home, snapshot, bundle)
    _require_same_purpose(spec, bundle)
    if bundle.facts["snapshot"] != snapshot.names:
        return []
    # Nothing exact can be computed from retired rows any more; paid numbers stay.
    is_retired = any(part.is_retired() for part in snapshot.members)
    exact = {} if is_retired else _exact_quality(spec, snapshot, bundle)
    rows = []
    if not spec.is_release:
        epsilon = Fraction(bundle.facts["epsilon"])
        for metric in (name for name in exact if not name.startswith(SAMPLING_ERROR)):
            unit, error = UNITS.get(metric, "share"), exact.get(SAMPLING_ERROR + metric)
            exact_row = QualityRow(bundle.model, epsilon, metric, exact[metric], None, unit, error)
            rows.append(exact_row)
    rows += bought_rows(bundle)
    return [*rows, *metre_rows(spec, tuple(bundle.tables.get("centres", ())), rows)]


def _released_snapshot(spec: DatasetSpec, home: Home, bundle: Bundle) -> Snapshot:
    windows = spec.time_windows.parse_range(bundle.facts[WINDOW]) if spec.window else ()
    return require_snapshot(spec, home, windows)


MOST_KEPT = 100
"""Columns, pairs, and pairs of parts, of one release that a report compares with the rows."""


def compare_tables(
    spec: DatasetSpec, home: Home, bundles: Mapping[str, Bundle]
) -> dict[str, list[dict[str, Any]]]:
    """Return model → its worst comparisons with public rows, as documents; {} for sensitive rows.

    A release without synthetic rows is left out, and one whose rows were replaced or retired. The
    worst are at most MOST_KEPT columns, as many pairs, and as many pairs of parts.
    """
    if spec.is_release:
        return {}
    documents = {}
    for name, bundle in bundles.items():
        if "codes" not in bundle.tables or bundle.is_k_anonymous:
            continue
        _require_same_purpose(spec, bundle)
        snapshot = _released_snapshot(spec, home, bundle)
        is_retired = any(part.is_retired() for part in snapshot.members)
        if bundle.facts["snapshot"] == snapshot.names and not is_retired:
            codes = bundle.tables["codes"]
            real = prepared_codes(spec, snapshot, tuple(codes))
            compared = TableComparison(spec.domain, real, codes).compared()
            kinds: dict[tuple[int, int], list[quality.ComparedTable]] = {}
            for table in compared:
                # One kind has as many attributes, and as many different ones.
                names = table.attributes
                kinds.setdefault((len(names), len({*names})), []).append(table)
            documents[name] = [vars(t) for kind in kinds.values() for t in kind[:MOST_KEPT]]
    return documents


def parse_compared_tables(
    documents: Sequence[Mapping[str, Any]],
) -> tuple[quality.ComparedTable, ...]:
    """Return the compared tables that ``compare_tables`` wrote as documents."""
    return tuple(
        quality.ComparedTable(**{**document, "attributes": tuple(document["attributes"])})
        for document in documents
    )


def _require_same_purpose(spec: DatasetSpec, bundle: Bundle) -> None:
    if bundle.facts["purpose"] != spec.purpose:
        raise DeclarationError(
            f"{spec.name}: purpose: the release was made with {bundle.facts['purpose']!r}, but "
            f"the file declares {spec.purpose!r}: correct the file, or release again"
        )


def _exact_quality(spec: DatasetSpec, snapshot: Snapshot, bundle: Bundle) -> dict[str, float]:
    """Return the exact quality numbers of a release by metric.

    They are computed once and stored in the private folder of the snapshot.
    """
    declared = f"{_VERSION} {spec.label} {spec.targets}"
    digest = hashlib.sha256(f"{declared} {bundle.to_json()}".encode()).hexdigest()[:32]

    def compute() -> dict[str, float]:
        if "classes" in bundle.tables:
            released = ClassTable.from_tables(bundle.tables, spec.domain)
            return class_quality(spec, snapshot, released)
        if "centres" not in bundle.tables:
            return table_quality(spec, snapshot, bundle.tables["codes"])
        centres = bundle.tables["centres"]
        points = np.stack(list(centres.values()), axis=1)
        return clustering_quality(spec, snapshot, tuple(centres), points)

    return custodian_facts(snapshot, f"exact-quality-{digest}", compute)


def _k_anonymous_rows(
    spec: DatasetSpec, home: Home, snapshot: Snapshot, bundle: Bundle
) -> list[QualityRow]:
    """Return the quality of a k-anonymous release; empty if it is outdated or of sensitive rows.

    For sensitive rows the numbers are only stored.

    ``auc``: logistic regression, with columns selected inside each of five folds. ``auc_paper``: as
    in the papers, a support vector machine tested on rows that the selection has seen. ``kept``,
    ``seconds``: columns and wall time of one selection, mean over the folds, without time on
    release data. NaN where a fold has too few rows for the promise.

    DeclarationError, before rows are read, for a release that the data set file does not allow.
    """
    require_codes(spec, snapshot)
    name, k = bundle.facts["model"], int(bundle.facts["k"])
    release = KAnonymousRelease(spec, name, k, home)
    if bundle.key != release.key(snapshot).digest:
        return []
    release.require_allowed()

    def compute() -> dict[str, float]:
        rows = coded_rows(spec, snapshot)
        nested = _evaluate_protocol(release, rows, "nested", "logistic")
        paper = _evaluate_protocol(release, rows, "paper", "svm")
        seconds = {} if spec.is_release else {SECONDS: nested.seconds}
        aucs = {AUC: nested.aucs["logistic"], PAPER_AUC: paper.aucs["svm"]}
        return {**aucs, KEPT: nested.released_columns, **seconds}

    figures = custodian_facts(snapshot, f"k-anonymous-{bundle.key[:32]}", compute)
    if spec.is_release:
        return []
    return [
        QualityRow(name, Fraction(k), metric, value, None, UNITS.get(metric, "share"))
        for metric, value in figures.items()
    ]


def _evaluate_protocol(
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
