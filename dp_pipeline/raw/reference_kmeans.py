"""k-means without privacy: the centres that released ones are compared with.

They are exact answers about rows: they stay in private files of the snapshot.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dp_pipeline.raw.snapshot import Snapshot, write_private
from dp_pipeline.schema.encoding import FloatArray
from dp_pipeline.schema.spec import DatasetSpec


def reference_centres(
    spec: DatasetSpec, snapshot: Snapshot, columns: tuple[str, ...], points: FloatArray, *, k: int
) -> FloatArray:
    """Centres (m, d) of scikit-learn's KMeans(k, n_init=10, random_state=0), in data units.

    points   the prepared rows on ``columns``, (N, d), N ≥ 1

    m = k; with fewer rows than k every different row is a centre of its own. Seconds
    of work, so they are kept for these columns, this k, declaration and snapshot.
    """
    rows = snapshot.manifest["fingerprints"]["normalized"]
    what = json.dumps([columns, k, spec.digest, rows])
    path = snapshot.folder / "kmeans" / f"{hashlib.sha256(what.encode()).hexdigest()[:32]}.json"
    if not path.is_file():
        _keep(path, _kmeans(points, k))
    return np.array(json.loads(path.read_text())["centres"], dtype=np.float64)


def _keep(path: Path, centres: FloatArray) -> None:
    def write(file: BinaryIO) -> None:
        file.write(json.dumps({"centres": centres.tolist()}).encode())

    write_private(path, write)


def _kmeans(points: FloatArray, k: int) -> FloatArray:
    if len(points) < k:
        return np.unique(points, axis=0)
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Fewer different rows than k is no mistake here; the text would say how many there are.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = KMeans(k, n_init=10, random_state=0).fit(points)
    return np.asarray(fitted.cluster_centers_, dtype=np.float64)
