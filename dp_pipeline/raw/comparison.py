"""Exact answers for internal evaluation: the steward's side only, nothing here is private.

On benchmark data the numbers may be shown. On release data they go to a 0600
file on the raw store, and whoever records metadata says only that it exists.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.metrics.clustering import nicv
from dp_pipeline.metrics.marginals import mean_pair_error
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.ingest import read_stage
from dp_pipeline.raw.readiness import require_prepared
from dp_pipeline.raw.snapshot import Snapshot, write_private
from dp_pipeline.schema.encoding import FloatArray
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


def clustering_quality(
    spec: DatasetSpec, snapshot: Snapshot, columns: tuple[str, ...], centres: FloatArray
) -> dict[str, float]:
    """NICV of released centres, of scikit-learn's KMeans, and their ratio, on the prepared rows.

    columns   d numeric attributes
    centres   (k, d) in data units

    ``nicv_floor`` is KMeans(k, n_init=10, random_state=0), without privacy; 0
    when there are fewer rows than k, every row then being a centre of its own.
    With no rows all three are NaN, with a floor of 0 the ratio is. The floor
    costs seconds and is kept in a private file of the snapshot.
    """
    points = exact_points(spec, snapshot, columns)
    quality = nicv(points, np.asarray(centres, dtype=np.float64))
    floor = _floor(spec, snapshot, columns, points, k=len(centres))
    ratio = quality / floor if floor > 0 else float("nan")
    return {"nicv": quality, "nicv_floor": floor, "nicv_ratio": ratio}


def _floor(
    spec: DatasetSpec, snapshot: Snapshot, columns: tuple[str, ...], points: FloatArray, *, k: int
) -> float:
    """The kept floor for these columns, k, declaration and rows; computed when there is none."""
    rows = snapshot.manifest["fingerprints"]["normalized"]
    what = json.dumps([columns, k, spec.digest, rows])
    path = snapshot.folder / "floors" / f"{hashlib.sha256(what.encode()).hexdigest()[:32]}.json"
    if path.is_file():
        return float(json.loads(path.read_text())["nicv_floor"])
    floor = _kmeans_nicv(points, k)
    _write_json(path, {"nicv_floor": floor})
    return floor


def _kmeans_nicv(points: FloatArray, k: int) -> float:
    if len(points) == 0:
        return float("nan")
    if len(points) < k:
        return 0.0
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Fewer different rows than k is no mistake here; the text would say how many there are.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = KMeans(k, n_init=10, random_state=0).fit(points)
    return nicv(points, fitted.cluster_centers_)


def marginal_quality(
    spec: DatasetSpec,
    snapshot: Snapshot,
    probabilities: Mapping[tuple[str, ...], NDArray[np.float64]],
) -> dict[str, float]:
    """``mean_tvd``: average total variation distance of released marginals to the exact ones.

    probabilities   attributes → released table of the marginal's shape, with sum 1

    NaN with no rows. NotPrepared unless the snapshot is prepared; DeclarationError
    for no marginals and for a table of another shape.
    """
    counter = MemoryCounter.open(spec, snapshot)
    exact = counter.exact_tables(list(probabilities))
    return {"mean_tvd": mean_pair_error(exact, list(probabilities.values()))}


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
