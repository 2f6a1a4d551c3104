"""Exact answers for internal evaluation: the steward's side only, nothing here is private.

On benchmark data the numbers may be shown. On release data they go to a 0600
file on the raw store, and whoever records metadata says only that it exists.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dp_pipeline.metrics.class_tables import adjusted_rand, class_table, f_measure
from dp_pipeline.metrics.clustering import nearest_centres, nicv
from dp_pipeline.raw.ingest import read_stage
from dp_pipeline.raw.readiness import require_prepared
from dp_pipeline.raw.reference_kmeans import reference_centres
from dp_pipeline.raw.snapshot import Snapshot, write_private
from dp_pipeline.schema.encoding import FloatArray, IntArray
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.spec import DatasetSpec

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def exact_points(spec: DatasetSpec, snapshot: Snapshot, columns: tuple[str, ...]) -> FloatArray:
    """Prepared rows in data units (N, d): clipped, and rounded to the fixed-point grid.

    NotPrepared unless the snapshot is prepared; DeclarationError for an attribute without bounds.
    """
    require_prepared(spec, snapshot)
    box = spec.domain.box(columns)
    table = read_stage(snapshot, "normalized")
    decoded = [
        interval.decode(table.column(name).to_numpy().astype(np.float64))
        for name, interval in zip(columns, box, strict=True)
    ]
    return np.stack(decoded, axis=1)


def keep_reference(
    spec: DatasetSpec, snapshot: Snapshot, columns: tuple[str, ...], *, k: int
) -> None:
    """Compute k-means without privacy now, so that several processes do not later."""
    points = exact_points(spec, snapshot, columns)
    if len(points):
        reference_centres(spec, snapshot, columns, points, k=k)


def clustering_quality(
    spec: DatasetSpec, snapshot: Snapshot, columns: tuple[str, ...], centres: FloatArray
) -> dict[str, float]:
    """How good released centres are on the prepared rows, and beside k-means without privacy.

    columns   d numeric attributes
    centres   (k, d) in data units

    ``nicv``, that of scikit-learn's KMeans as ``nicv_floor``, and their ratio;
    ``f_kmeans`` and ``ari_kmeans``, agreement with the clusters of that KMeans; ``f_label``
    and ``ari_label``, with the declared label where there is one. The floor is 0 where
    there are fewer rows than k, and there is no ratio to it: NaN. With no rows all are NaN.
    """
    points = exact_points(spec, snapshot, columns)
    if len(points) == 0:
        truths = ("kmeans",) if spec.label is None else ("kmeans", "label")
        names = [f"{metric}_{truth}" for truth in truths for metric in ("f", "ari")]
        return dict.fromkeys(["nicv", "nicv_floor", "nicv_ratio", *names], float("nan"))
    centres = np.asarray(centres, dtype=np.float64)
    best = reference_centres(spec, snapshot, columns, points, k=len(centres))
    quality, floor = nicv(points, centres), nicv(points, best)
    clusters = nearest_centres(points, centres)
    tables = {"kmeans": _table(nearest_centres(points, best), clusters)}
    if spec.label is not None:
        tables["label"] = _table(_codes(snapshot, spec.label), clusters)
    return {
        "nicv": quality,
        "nicv_floor": floor,
        "nicv_ratio": quality / floor if floor > 0 else float("nan"),
        **{f"f_{truth}": f_measure(table) for truth, table in tables.items()},
        **{f"ari_{truth}": adjusted_rand(table) for truth, table in tables.items()},
    }


def _codes(snapshot: Snapshot, attribute: str) -> IntArray:
    """Cell codes of one discrete attribute, in the order of the prepared rows."""
    column = read_stage(snapshot, "discretized").column(attribute)
    codes: IntArray = column.to_numpy().astype(np.int64)
    return codes


def _table(classes: IntArray, clusters: IntArray) -> IntArray:
    """Class × cluster counts; classes and clusters without a row at the end change no metric."""
    shape = (int(classes.max()) + 1, int(clusters.max()) + 1)
    return class_table(classes, clusters, shape=shape)


def steward_facts(
    snapshot: Snapshot, name: str, compute: Callable[[], Mapping[str, float]]
) -> dict[str, float]:
    """Exact facts about a release, kept in a 0600 JSON file of the snapshot: computed once, so
    that looking at a settled release again reads no row.

    The file is sealed with the lineage's key: one that another lineage wrote, or that
    was changed, is computed anew. DeclarationError unless ``name`` is a safe file name.
    """
    if not _NAME.fullmatch(name):
        raise DeclarationError(f"steward file: expected letters, digits, . _ or -, got {name!r}")
    path = snapshot.folder / "steward" / f"{name}.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if kept.get("seal") != _seal(snapshot, name, kept.get("facts", {})):
        facts = dict(compute())
        kept = {"facts": facts, "seal": _seal(snapshot, name, facts)}
        _write_json(path, kept)
    return dict(kept["facts"])


def _seal(snapshot: Snapshot, name: str, facts: Mapping[str, float]) -> str:
    text = json.dumps([name, facts], sort_keys=True)
    return hmac.new(snapshot.key, text.encode(), "sha256").hexdigest()


def _write_json(path: Path, facts: Mapping[str, Any]) -> None:
    def write(file: Any) -> None:
        file.write(json.dumps(dict(facts), indent=1, sort_keys=True).encode())

    write_private(path, write)
