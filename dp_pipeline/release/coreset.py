"""A few weighted points that stand for many in k-means."""

from __future__ import annotations

import numpy as np

from dp_pipeline.schema.encoding import FloatArray


def lightweight_coreset(
    points: FloatArray, weights: FloatArray, *, size: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """``size`` points, drawn with replacement, and weights that keep every k-means cost right
    in expectation; all points as they are when there are no more than ``size``.

    points    (n, d)
    weights   (n,) > 0

    Half of a point's probability is its weight's, half its part of the cost of one centre.
    Source: Bachem, Lucic, Krause, "Scalable k-Means Clustering via Lightweight Coresets", KDD
    2018, Algorithm 1, with weights.
    """
    if len(points) <= size:
        return points, weights
    share = weights / weights.sum()
    cost = share * ((points - share @ points) ** 2).sum(axis=1)
    total = cost.sum()
    chance = share if total == 0 else (share + cost / total) / 2
    drawn = np.searchsorted(np.cumsum(chance), rng.random(size) * chance.sum(), side="right")
    drawn = np.minimum(drawn, len(points) - 1)
    return points[drawn], weights[drawn] / (size * chance[drawn])
