"""How good releases are: exact numbers of public rows, bought ones of sensitive rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from dp_pipeline.gate.counts import MOST_GRID_CELLS
from dp_pipeline.ledger.home import Home
from dp_pipeline.orchestration.lineage import require_snapshot
from dp_pipeline.raw.comparison import clustering_quality, marginal_quality, steward_facts
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.release.product import pair_probabilities
from dp_pipeline.reporting.rows import QualityRow
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.spec import DatasetSpec

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
        exact = _exact_quality(spec, snapshot, bundle)
        if not spec.is_release:
            rows += [_exact(bundle, metric, value) for metric, value in exact.items()]
        rows += [
            QualityRow.bought(bundle.model, _epsilon(bundle), metric=metric, number=bought)
            for metric, bought in bundle.quality.items()
        ]
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
    """Exact numbers, kept by the bundle and the label that they are of."""
    of = hashlib.sha256(f"{spec.label} {bundle.to_json()}".encode()).hexdigest()[:32]

    def compute() -> dict[str, float]:
        if "centres" not in bundle.tables:
            marginals = pair_probabilities(bundle.tables["marginals"], most_cells=MOST_GRID_CELLS)
            return marginal_quality(spec, snapshot, marginals)
        centres = bundle.tables["centres"]
        points = np.stack(list(centres.values()), axis=1)
        return clustering_quality(spec, snapshot, tuple(centres), points)

    return steward_facts(snapshot, f"exact-quality-{of}", compute)
