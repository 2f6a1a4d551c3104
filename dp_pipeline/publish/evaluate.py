"""How good releases are: exact numbers of public rows, bought ones of sensitive rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from dp_pipeline.publish.account import require_snapshot
from dp_pipeline.publish.home import Home
from dp_pipeline.raw.evaluate import class_quality, clustering_quality, steward_facts, table_quality
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.release.class_table import ClassTable
from dp_pipeline.release.clusters import Tables
from dp_pipeline.reporting.figures.cluster_view import metre_rows
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.encoding import INVALID, IntArray
from dp_pipeline.spec.errors import DeclarationError

UNITS = {"nicv": "squared data units", "nicv_floor": "squared data units"}


def evaluate(spec: DatasetSpec, home: Home, bundles: Mapping[str, Bundle]) -> list[QualityRow]:
    """Quality of the releases of one ε.

    On release data the exact numbers go to a private file beside the snapshot and
    are not returned; what was bought through the gate is.
    """
    snapshot = require_snapshot(spec, home)
    rows = []
    for bundle in bundles.values():
        _require_same_purpose(spec, bundle)
        if bundle.facts["snapshot"] != snapshot.id:
            # What was released of an older snapshot was never about these rows.
            continue
        # Of retired rows nothing exact can be said any more; what was bought stays.
        exact = {} if snapshot.is_retired() else _exact_quality(spec, snapshot, bundle)
        own = []
        if not spec.is_release:
            own += [_exact(bundle, metric, value) for metric, value in exact.items()]
        own += [
            QualityRow.bought(bundle.model, _epsilon(bundle), metric=metric, number=bought)
            for metric, bought in bundle.quality.items()
        ]
        rows += [*own, *metre_rows(spec, tuple(bundle.tables.get("centres", ())), own)]
    return rows


def _require_same_purpose(spec: DatasetSpec, bundle: Bundle) -> None:
    if bundle.facts["purpose"] != spec.purpose:
        raise DeclarationError(
            f"{spec.name}: purpose: expected {bundle.facts['purpose']!r} as in what was released, "
            f"got {spec.purpose!r}"
        )


def _exact(bundle: Bundle, metric: str, value: float) -> QualityRow:
    unit = UNITS.get(metric, "share")
    return QualityRow(bundle.model, _epsilon(bundle), metric, value, None, unit)


def _epsilon(bundle: Bundle) -> Fraction:
    return Fraction(bundle.facts["epsilon"])


def _exact_quality(spec: DatasetSpec, snapshot: Snapshot, bundle: Bundle) -> dict[str, float]:
    """Exact numbers, kept by the bundle and by the label or targets that they are of."""
    declared = f"{spec.label} {spec.targets}"
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
        return tables["codes"]
    # A bundle of before there were codes holds a label a row.
    found = {}
    for name, labels in tables["synthetic"].items():
        codes = {label: code for code, label in enumerate(spec.domain[name].labels())}
        places = [codes.get(label, INVALID) for label in labels.tolist()]
        found[name] = np.array(places, dtype=np.int64)
    return found
