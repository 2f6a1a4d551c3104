"""k-means on the weighted boxes of a synopsis: post-processing, it reads no row."""

from __future__ import annotations

import warnings

import numpy as np

from dp_pipeline.release.quadtree import Synopsis
from dp_pipeline.schema.encoding import FloatArray


def cluster_synopsis(
    synopsis: Synopsis, *, k: int, starts: int, rng: np.random.Generator
) -> FloatArray:
    """k centres, float (k, d) in data units, each inside the box that the synopsis covers.

    Boxes stand for their middles; negative weights count as 0. Fewer positive
    boxes than centres (an empty or tiny population): every such middle is a centre
    and the others are drawn uniformly from the box.
    """
    positive = synopsis.weights > 0
    points, weights = synopsis.middles[positive], synopsis.weights[positive]
    if len(points) <= k:
        return _filled_up(points, synopsis, k, rng)
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    seed = int(rng.integers(2**31 - 1))
    # Sums of floats depend on the number of threads, and a replay must give the same bytes.
    with warnings.catch_warnings(), threadpool_limits(limits=1):
        # Fewer distinct middles than centres is no mistake here: the boxes are disjoint.
        warnings.simplefilter("ignore", ConvergenceWarning)
        kmeans = KMeans(n_clusters=k, n_init=starts, random_state=seed)
        kmeans.fit(points, sample_weight=weights)
    return np.asarray(kmeans.cluster_centers_, dtype=np.float64)


def _filled_up(
    points: FloatArray, synopsis: Synopsis, k: int, rng: np.random.Generator
) -> FloatArray:
    low, high = synopsis.lower.min(axis=0), synopsis.upper.max(axis=0)
    missing = rng.uniform(low, high, size=(k - len(points), len(low)))
    return np.concatenate([points, missing])
