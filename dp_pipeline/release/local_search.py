"""Swaps that k-means' own steps cannot make: one centre moves to where points are far."""

from __future__ import annotations

import numpy as np

from dp_pipeline.schema.encoding import FloatArray, IntArray

_BLOCK_CELLS = 1 << 21


class _Nearest:
    """The two nearest centres of every point: indices and squared distances."""

    def __init__(self, points: FloatArray, centres: FloatArray) -> None:
        self.first = np.empty(len(points), dtype=np.int64)
        self.second = np.empty(len(points), dtype=np.int64)
        self.near = np.empty(len(points))
        self.next = np.empty(len(points))
        self.look(np.arange(len(points)), points, centres)

    def look(self, at: IntArray, points: FloatArray, centres: FloatArray) -> None:
        """Search again for the points ``at``."""
        step = max(1, _BLOCK_CELLS // len(centres))
        for start in range(0, len(at), step):
            here = at[start : start + step]
            squares = (centres * centres).sum(axis=1) - 2.0 * (points[here] @ centres.T)
            best = np.argpartition(squares, 1, axis=1)[:, :2]
            pair = np.take_along_axis(squares, best, axis=1)
            order = np.argsort(pair, axis=1, kind="stable")
            best = np.take_along_axis(best, order, axis=1)
            pair = (
                np.take_along_axis(pair, order, axis=1) + (points[here] ** 2).sum(axis=1)[:, None]
            )
            self.first[here], self.second[here] = best.T
            self.near[here], self.next[here] = np.maximum(pair, 0.0).T

    def swap(self, j: int, distances: FloatArray, points: FloatArray, centres: FloatArray) -> None:
        """Centre j has moved; ``distances`` are squared ones to its new place."""
        lost = (self.first == j) | (self.second == j)
        closest = ~lost & (distances < self.near)
        closer = ~lost & ~closest & (distances < self.next)
        self.second[closest], self.next[closest] = self.first[closest], self.near[closest]
        self.first[closest], self.near[closest] = j, distances[closest]
        self.second[closer], self.next[closer] = j, distances[closer]
        self.look(np.flatnonzero(lost), points, centres)


def swapped(
    points: FloatArray,
    weights: FloatArray,
    centres: FloatArray,
    *,
    steps: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, bool]:
    """Centres after ``steps`` trials of a swap, and whether any was made.

    points    (n, d), near the origin
    weights   (n,) ≥ 0
    centres   (k, d), k ≥ 2

    A trial draws a point with probability ∝ weight · squared distance, and moves there the
    centre whose absence costs least, if the total cost falls.

    Source: Lattanzi, Sohler, "A Better k-means++ Algorithm via Local Search", ICML 2019.
    """
    centres, nearest, any_made = centres.copy(), _Nearest(points, centres), False
    for _ in range(steps):
        costs = np.cumsum(weights * nearest.near)
        if not costs[-1] > 0:
            break
        drawn = np.searchsorted(costs, rng.random() * costs[-1], side="right")
        place = points[min(drawn, len(points) - 1)]
        distances = ((points - place) ** 2).sum(axis=1)
        with_it = np.minimum(distances, nearest.near)
        without = weights * (np.minimum(distances, nearest.next) - with_it)
        price = np.bincount(nearest.first, without, minlength=len(centres))
        j = int(np.argmin(price))
        if float((weights * with_it).sum() + price[j]) < costs[-1] * (1 - 1e-9):
            centres[j], any_made = place, True
            nearest.swap(j, distances, points, centres)
    return centres, any_made
