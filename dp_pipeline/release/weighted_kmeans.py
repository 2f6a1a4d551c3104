"""k-means on the weighted boxes of a synopsis: post-processing, it reads no row."""

from __future__ import annotations

import warnings

import numpy as np

from dp_pipeline.release.coreset import lightweight_coreset
from dp_pipeline.release.local_search import swapped
from dp_pipeline.release.one_thread import one_thread
from dp_pipeline.release.synopsis import Synopsis
from dp_pipeline.schema.encoding import FloatArray

MOST_SEARCHED = 1 << 14
"""Points that starts and swaps work on; more are only used to settle the best centres."""

MOST_STEPS = 200
ROUNDS = 3


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
    with one_thread():
        origin = np.average(points, axis=0, weights=weights)
        return _searched(points - origin, weights, k=k, starts=starts, rng=rng) + origin


def _searched(
    points: FloatArray, weights: FloatArray, *, k: int, starts: int, rng: np.random.Generator
) -> FloatArray:
    """The best of several starts, improved by swaps until those are of no use."""
    few, their_weights = lightweight_coreset(points, weights, size=MOST_SEARCHED, rng=rng)
    seed = int(rng.integers(2**31 - 1))
    centres, cost = _settled(few, their_weights, k=k, starts=starts, seed=seed)
    for _ in range(ROUNDS if k > 1 else 0):
        steps = min(max(50, k), MOST_STEPS)
        moved, any_moved = swapped(few, their_weights, centres, steps=steps, rng=rng)
        if not any_moved:
            break
        better, cost_now = _settled(few, their_weights, start=moved)
        if cost_now >= cost:
            break
        centres, cost = better, cost_now
    return centres if few is points else _settled(points, weights, start=centres)[0]


def _settled(
    points: FloatArray,
    weights: FloatArray,
    *,
    start: FloatArray | None = None,
    k: int = 0,
    starts: int = 1,
    seed: int = 0,
) -> tuple[FloatArray, float]:
    """Lloyd's iterations from given centres, or from the best of ``starts`` k-means++ starts."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if start is None:
        kmeans = KMeans(n_clusters=k, n_init=starts, random_state=seed)
    else:
        kmeans = KMeans(n_clusters=len(start), init=start, n_init=1)
    with warnings.catch_warnings():
        # Fewer distinct middles than centres is no mistake here: the boxes are disjoint.
        warnings.simplefilter("ignore", ConvergenceWarning)
        kmeans.fit(points, sample_weight=weights)
    return np.asarray(kmeans.cluster_centers_, dtype=np.float64), float(kmeans.inertia_)


def _filled_up(
    points: FloatArray, synopsis: Synopsis, k: int, rng: np.random.Generator
) -> FloatArray:
    low, high = synopsis.lower.min(axis=0), synopsis.upper.max(axis=0)
    missing = rng.uniform(low, high, size=(k - len(points), len(low)))
    return np.concatenate([points, missing])
