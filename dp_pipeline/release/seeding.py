"""Starts of Lloyd's algorithm, from public draws and noisy grids: no row is read."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from dp_pipeline.release.synopsis import Synopsis
from dp_pipeline.schema.encoding import Coordinate, FloatArray, IntArray


def uniform_places(k: int, box: Sequence[Coordinate], rng: np.random.Generator) -> FloatArray:
    """k independent uniform places in the box, float (k, d) in data units."""
    low, high = ([getattr(one, end) for one in box] for end in ("lower", "upper"))
    return rng.uniform(low, high, size=(k, len(box)))


def spread_seeds(
    synopsis: Synopsis, *, k: int, box: Sequence[Coordinate], rng: np.random.Generator
) -> FloatArray:
    """k middles of boxes of positive weight by greedy D² sampling, float (k, d).

    Each time 2 + ⌊ln k⌋ boxes are drawn with probability ∝ weight · squared distance to the
    nearest seed so far, and the one that leaves the least of that sum becomes a seed
    (k-means++, Arthur and Vassilvitskii, SODA 2007). Fewer such boxes than k: all of
    them, and uniform places.
    """
    positive = synopsis.weights > 0
    points, weights = synopsis.middles[positive], synopsis.weights[positive]
    if len(points) <= k:
        return np.concatenate([points, uniform_places(k - len(points), box, rng)])
    trials = 2 + int(log(k))
    seeds = [int(rng.choice(len(points), p=weights / weights.sum()))]
    costs = weights * _squares(points, seeds)[0]
    while len(seeds) < k:
        drawn = rng.choice(len(points), size=trials, p=costs / costs.sum())
        left = np.minimum(costs, weights * _squares(points, drawn))
        best = int(left.sum(axis=1).argmin())
        seeds.append(int(drawn[best]))
        costs = left[best]
    return np.asarray(points[seeds])


def _squares(points: FloatArray, chosen: Sequence[int] | IntArray) -> FloatArray:
    """Squared distances of chosen points to all, (chosen, points)."""
    return np.asarray(((points[chosen][:, None] - points) ** 2).sum(axis=2))


def dense_seeds(
    synopsis: Synopsis, *, k: int, box: Sequence[Coordinate], rng: np.random.Generator
) -> FloatArray:
    """k middles of the heaviest boxes of a grid with equally many cells an axis, float (k, d).

    A cell beside a chosen one comes after all others; cells without positive weight are
    no places, and uniform ones stand in for them.
    """
    order = np.argsort(-synopsis.weights, kind="stable")
    order = order[: int((synopsis.weights > 0).sum())]
    cells = round(len(synopsis.weights) ** (1 / len(box)))
    free = np.ones((cells,) * len(box), dtype=bool)
    peaks: list[int] = []
    for cell in order.tolist():
        if len(peaks) == k:
            break
        place = np.unravel_index(cell, free.shape)
        if free[place]:
            peaks.append(cell)
            free[tuple(slice(max(0, int(one) - 1), int(one) + 2) for one in place)] = False
    taken = set(peaks)
    chosen = [*peaks, *(cell for cell in order.tolist() if cell not in taken)][:k]
    missing = uniform_places(k - len(chosen), box, rng)
    return np.concatenate([synopsis.middles[chosen], missing])
