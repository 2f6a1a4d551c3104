"""k-means on the weighted boxes of a synopsis, which reads no row, and centres to start from."""

import warnings
from collections.abc import Sequence
from math import log

import numpy as np
from numpy.random import Generator

from dp_pipeline.config.encoding import COORDINATE_BITS, Coordinate, FloatArray, IntArray
from dp_pipeline.results.clusters import Synopsis
from dp_pipeline.threads import one_thread

_BLOCK_CELLS = 1 << 21
"""Distances of points from centres that are held in memory together."""


class _NearestPairs:
    """The two nearest centres of every point, with their squared distances."""

    def __init__(self, points: FloatArray, centres: FloatArray) -> None:
        self.first, self.second = (np.empty(len(points), dtype=np.int64) for _ in range(2))
        self.to_first, self.to_second = np.empty(len(points)), np.empty(len(points))
        self.search(np.arange(len(points)), points, centres)

    def search(self, indices: IntArray, points: FloatArray, centres: FloatArray) -> None:
        step = max(1, _BLOCK_CELLS // len(centres))
        for start in range(0, len(indices), step):
            block = indices[start : start + step]
            squares = (centres * centres).sum(axis=1) - 2.0 * (points[block] @ centres.T)
            best = np.argpartition(squares, 1, axis=1)[:, :2]
            pair = np.take_along_axis(squares, best, axis=1)
            order = np.argsort(pair, axis=1, kind="stable")
            best, pair = (np.take_along_axis(values, order, axis=1) for values in (best, pair))
            pair = pair + (points[block] ** 2).sum(axis=1)[:, None]
            self.first[block], self.second[block] = best.T
            self.to_first[block], self.to_second[block] = np.maximum(pair, 0.0).T

    def move(self, j: int, distances: FloatArray, points: FloatArray, centres: FloatArray) -> None:
        """Update the nearest pairs after centre j has moved, given its new squared distances."""
        lost = (self.first == j) | (self.second == j)
        closest = ~lost & (distances < self.to_first)
        closer = ~lost & ~closest & (distances < self.to_second)
        self.second[closest] = self.first[closest]
        self.to_second[closest] = self.to_first[closest]
        self.first[closest], self.to_first[closest] = j, distances[closest]
        self.second[closer], self.to_second[closer] = j, distances[closer]
        self.search(np.flatnonzero(lost), points, centres)


def swap_centres(
    points: FloatArray, weights: FloatArray, centres: FloatArray, *, steps: int, rng: Generator
) -> tuple[FloatArray, bool]:
    """Return the centres (k, d) after up to ``steps`` attempts to move one to a point, and whether
    any was moved.

    points    (n, d), near the origin
    weights   (n,) ≥ 0
    centres   (k, d), k ≥ 2, left unchanged

    An attempt draws a point with probability ∝ weight · squared distance to its nearest centre, and
    moves there the centre whose absence costs least, if Σ weight · squared distance falls.

    Source: Lattanzi, Sohler, "A Better k-means++ Algorithm via Local Search", ICML 2019.
    """
    centres, nearest, has_swapped = centres.copy(), _NearestPairs(points, centres), False
    for _ in range(steps):
        costs = np.cumsum(weights * nearest.to_first)
        if not costs[-1] > 0:
            break
        index = np.searchsorted(costs, rng.random() * costs[-1], side="right")
        place = points[min(index, len(points) - 1)]
        distances = ((points - place) ** 2).sum(axis=1)
        with_place = np.minimum(distances, nearest.to_first)
        without_first = weights * (np.minimum(distances, nearest.to_second) - with_place)
        absence_costs = np.bincount(nearest.first, without_first, minlength=len(centres))
        j = int(np.argmin(absence_costs))
        if float((weights * with_place).sum() + absence_costs[j]) < costs[-1] * (1 - 1e-9):
            centres[j], has_swapped = place, True
            nearest.move(j, distances, points, centres)
    return centres, has_swapped


def lightweight_coreset(
    points: FloatArray, weights: FloatArray, *, size: int, rng: Generator
) -> tuple[FloatArray, FloatArray]:
    """Return ``size`` points, drawn with replacement, and weights for them that keep every k-means
    cost right in expectation; all points and their weights where there are no more than ``size``.

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
    indices = np.searchsorted(np.cumsum(chance), rng.random(size) * chance.sum(), side="right")
    indices = np.minimum(indices, len(points) - 1)
    return points[indices], weights[indices] / (size * chance[indices])


MOST_SEARCHED = 1 << 14
"""Most points that starts and swaps work on; the last iterations work on all."""

MOST_STEPS = 200
ROUNDS = 3
"""Most attempted swaps in a round, and rounds."""


def cluster_synopsis(synopsis: Synopsis, *, k: int, starts: int, rng: Generator) -> FloatArray:
    """Return k centres (k, d), in data units, of k-means on the middles of the synopsis' boxes.

    starts   k-means++ starts, of which the best is improved by swaps

    Boxes whose weight is not above 0 count as empty. If k or fewer are left, each middle is a
    centre, and the other centres are drawn uniformly from the box around the synopsis.
    """
    positive = synopsis.weights > 0
    points, weights = synopsis.middles[positive], synopsis.weights[positive]
    if len(points) <= k:
        low, high = synopsis.lower.min(axis=0), synopsis.upper.max(axis=0)
        missing = rng.uniform(low, high, size=(k - len(points), len(low)))
        return np.concatenate([points, missing])
    with one_thread(with_sklearn=True):
        origin = np.average(points, axis=0, weights=weights)
        points = points - origin
        sample, sample_weights = lightweight_coreset(points, weights, size=MOST_SEARCHED, rng=rng)
        seed = int(rng.integers(2**31 - 1))
        centres, cost = _run_lloyd(sample, sample_weights, k=k, starts=starts, seed=seed)
        steps = min(max(50, k), MOST_STEPS)
        for _ in range(ROUNDS if k > 1 else 0):
            swapped, has_swap = swap_centres(sample, sample_weights, centres, steps=steps, rng=rng)
            if not has_swap:
                break
            candidate, candidate_cost = _run_lloyd(sample, sample_weights, start=swapped)
            if candidate_cost >= cost:
                break
            centres, cost = candidate, candidate_cost
        if sample is not points:
            centres = _run_lloyd(points, weights, start=centres)[0]
        return centres + origin


def _run_lloyd(
    points: FloatArray,
    weights: FloatArray,
    *,
    start: FloatArray | None = None,
    k: int = 0,
    starts: int = 1,
    seed: int = 0,
) -> tuple[FloatArray, float]:
    """Return the centres after Lloyd's iterations, from given ones or the best of several k-means++
    starts, and their k-means cost."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    kmeans = KMeans(n_clusters=k, n_init=starts, random_state=seed)
    if start is not None:
        kmeans = KMeans(n_clusters=len(start), init=start, n_init=1)
    with warnings.catch_warnings():
        # Fewer distinct middles than centres is no mistake here: the boxes are disjoint.
        warnings.simplefilter("ignore", ConvergenceWarning)
        kmeans.fit(points, sample_weight=weights)
    return np.asarray(kmeans.cluster_centers_, dtype=np.float64), float(kmeans.inertia_)


def uniform_places(k: int, box: Sequence[Coordinate], rng: Generator) -> FloatArray:
    """Return k independent uniform points (k, d) of the box, in data units."""
    low, high = ([getattr(side, end) for side in box] for end in ("lower", "upper"))
    return rng.uniform(low, high, size=(k, len(box)))


def spread_seeds(
    synopsis: Synopsis, *, k: int, box: Sequence[Coordinate], rng: Generator
) -> FloatArray:
    """Return k seeds (k, d), in data units: middles of boxes of the synopsis with weights above 0,
    far from each other; uniform points of the box in place of those that are missing.

    Each time 2 + ⌊ln k⌋ boxes are drawn with probability ∝ weight · squared distance to the nearest
    seed so far, and the one that leaves the least of that sum becomes a seed (greedy k-means++,
    Arthur and Vassilvitskii, SODA 2007).
    """
    positive = synopsis.weights > 0
    points, weights = synopsis.middles[positive], synopsis.weights[positive]
    if len(points) <= k:
        return np.concatenate([points, uniform_places(k - len(points), box, rng)])
    trials = 2 + int(log(k))
    seeds = [int(rng.choice(len(points), p=weights / weights.sum()))]
    costs = weights * _squares(points, seeds)[0]
    while len(seeds) < k:
        candidates = rng.choice(len(points), size=trials, p=costs / costs.sum())
        costs_after = np.minimum(costs, weights * _squares(points, candidates))
        best = int(costs_after.sum(axis=1).argmin())
        seeds.append(int(candidates[best]))
        costs = costs_after[best]
    return np.asarray(points[seeds])


def _squares(points: FloatArray, chosen: Sequence[int] | IntArray) -> FloatArray:
    return np.asarray(((points[chosen][:, None] - points) ** 2).sum(axis=2))


def dense_seeds(
    synopsis: Synopsis, *, k: int, box: Sequence[Coordinate], rng: Generator
) -> FloatArray:
    """Return k seeds (k, d), in data units: middles of the heaviest cells of the synopsis, which is
    a grid with equally many cells on each axis.

    Cells next to a chosen one come after all others. Where too few cells have a weight above 0, the
    rest are uniform points of the box.
    """
    order = np.argsort(-synopsis.weights, kind="stable")
    order = order[: int((synopsis.weights > 0).sum())]
    cells = round(len(synopsis.weights) ** (1 / len(box)))
    is_free = np.ones((cells,) * len(box), dtype=bool)
    peaks: dict[int, None] = {}
    for cell in order.tolist():
        if len(peaks) == k:
            break
        place = np.unravel_index(cell, is_free.shape)
        if is_free[place]:
            peaks[cell] = None
            is_free[tuple(slice(max(0, int(i) - 1), int(i) + 2) for i in place)] = False
    chosen = [*peaks, *(cell for cell in order.tolist() if cell not in peaks)][:k]
    missing = uniform_places(k - len(chosen), box, rng)
    return np.concatenate([synopsis.middles[chosen], missing])


_HALVINGS = 8
"""Steps of the bisection for the radius."""

_BATCHES, _BATCH = 20, 5
"""Most batches, and candidates in each, for the place of one sphere."""


def pack_spheres(k: int, box: Sequence[Coordinate], rng: Generator) -> FloatArray:
    """Return k points (k, d), in data units, that are far from each other and from the box's sides.

    In the box scaled to [−1, 1]^d they are the centres of k spheres that lie inside it and do not
    overlap; their common radius is the largest, by bisection, for which random insertion finds room
    for all. Source: Su et al., CODASPY 2016.
    """
    low, high = 0.0, min(1.0, 2 * k ** (-1 / len(box)))
    places = rng.uniform(-1, 1, size=(k, len(box)))
    for _ in range(_HALVINGS):
        radius = (low + high) / 2
        packed = _insert_spheres(places.shape, radius, rng)
        if packed is None:
            high = radius
        else:
            low, places = radius, packed
    digits = places * (1 << COORDINATE_BITS)
    return np.stack([side.decode(digits[:, axis]) for axis, side in enumerate(box)], axis=1)


def _insert_spheres(shape: tuple[int, ...], radius: float, rng: Generator) -> FloatArray | None:
    """Return random centres (k, d) of spheres in [−1, 1]^d without overlap; None if tries run out.

    shape   (k, d)
    """
    places = np.empty(shape)
    for i in range(len(places)):
        for _ in range(_BATCHES):
            candidates = rng.uniform(radius - 1, 1 - radius, size=(_BATCH, shape[1]))
            # Axis by axis, not by a matrix product, whose last digit depends on the machine: a
            # replay must find the same places.
            squares = np.zeros((_BATCH, i))
            for candidate, place in zip(candidates.T, places[:i].T, strict=True):
                squares += (candidate[:, None] - place) ** 2
            is_free = (squares >= 4 * radius**2).all(axis=1)
            if is_free.any():
                places[i] = candidates[is_free.argmax()]
                break
        else:
            return None
    return places
