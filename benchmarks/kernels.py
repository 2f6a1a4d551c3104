"""Counting kernels against NumPy's and scikit-learn's own, as ratios measured in one run.

    .venv/bin/python benchmarks/kernels.py [rows of the pairs, default 1000000]

Both sides of a ratio run in the same process on the same data, and the two
answers are compared. Wall times of a busy machine mean little; ratios mean more.
"""

import sys
import time
from collections.abc import Callable
from itertools import combinations
from typing import TypeVar

import numpy as np

from dp_pipeline.gate.rules import NearestCentre
from dp_pipeline.gate.trees import path_sums
from dp_pipeline.raw.counters.geometry import (
    grid_counts,
    prefix_counts,
    sorted_keys,
    sums_by_centre,
)
from dp_pipeline.raw.counters.tables import exact_marginals
from dp_pipeline.results.trees import BitTree, Prefixes

# ruff: noqa: T201


Result = TypeVar("Result")

MIX14 = (2, 3, 42, 16, 7, 15, 6, 5, 2, 20, 10, 9, 8, 41)
EDGE = 1 << 16
HEIGHT = 10


def timed(work: Callable[[], Result], *, repeats: int) -> tuple[float, Result]:
    """Best of ``repeats`` wall times in seconds, and the last result."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def report(what: str, ours: float, theirs: float, *, target: str) -> float:
    """One line; the ratio in it."""
    print(f"{what}: {ours:.3f} s against {theirs:.3f} s, {theirs / ours:.1f}x (target {target})")
    return theirs / ours


def all_pairs(rows: int) -> float:
    """91 contingency tables of 14 columns, against histogramdd per pair."""
    rng = np.random.default_rng(0)
    names = tuple(f"a{at}" for at in range(len(MIX14)))
    sizes = dict(zip(names, MIX14, strict=True))
    codes = {name: rng.integers(0, size, rows).astype(np.uint8) for name, size in sizes.items()}
    pairs = list(combinations(names, 2))

    def histograms() -> list[np.ndarray]:
        return [
            np.histogramdd(
                np.stack([codes[a], codes[b]], axis=1),
                bins=[np.arange(sizes[a] + 1), np.arange(sizes[b] + 1)],
            )[0]
            for a, b in pairs
        ]

    ours, exact = timed(lambda: exact_marginals(codes, sizes, pairs, rows=rows), repeats=5)
    theirs, expected = timed(histograms, repeats=1)
    assert all(np.array_equal(one, other) for one, other in zip(exact, expected, strict=True))
    return report(f"all {len(pairs)} pairs of mix14, N={rows:.0e}", ours, theirs, target="40x")


def quadtree(rows: int) -> float:
    """All levels of a quadtree, against one histogram2d of the finest level alone."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(-EDGE, EDGE, size=(2, rows)).astype(np.int32)
    cells = 1 << HEIGHT

    def histogram() -> np.ndarray:
        return np.histogram2d(x, y, bins=cells, range=[[-EDGE, EDGE], [-EDGE, EDGE]])[0]

    tree = BitTree.quadtree(("x", "y"), HEIGHT)

    def counted() -> np.ndarray:
        return path_sums(grid_counts([x, y], cells, rows=rows), tree)

    ours, sums = timed(counted, repeats=3)
    theirs, expected = timed(histogram, repeats=1)
    places = Prefixes.root().children(tree.depth).grid_cells(2)[1]
    assert np.array_equal(np.diff(sums), expected.ravel()[places])
    return report(f"quadtree of {HEIGHT + 1} levels, N={rows:.0e}", ours, theirs, target="10x")


def clustered(rows: int) -> list[np.ndarray]:
    """Coordinates of 100 Gaussians in a plane."""
    rng = np.random.default_rng(0)
    middles = rng.uniform(-60_000, 60_000, size=(2, 100))[:, rng.integers(0, 100, rows)]
    return list(np.clip(middles + rng.normal(0, 1500, middles.shape), -EDGE, EDGE).astype(np.int32))


def tree_boxes(rows: int) -> None:
    """65,536 boxes of a tree with its keys, then 480,000 boxes 28 bits deep, each against one
    histogram2d of 256 × 256 cells.
    """
    columns = clustered(rows)
    squares = BitTree(("x", "y"), (0,) * 8 + (1,) * 8)
    deep = BitTree(("x", "y"), (0, 1) * 17)

    def keyed() -> np.ndarray:
        keys = sorted_keys(squares, columns, rows=rows)
        return prefix_counts(keys, squares.depth, Prefixes.root(), 16)

    def histogram() -> np.ndarray:
        return np.histogram2d(*columns, bins=256, range=[[-EDGE, EDGE], [-EDGE, EDGE]])[0]

    ours, boxes = timed(keyed, repeats=3)
    theirs, expected = timed(histogram, repeats=1)
    assert np.array_equal(boxes.reshape(256, 256), expected)
    report(f"65,536 boxes of a tree, N={rows:.0e}", ours, theirs, target="3x")
    ours, keys = timed(lambda: sorted_keys(deep, columns, rows=rows), repeats=3)
    report("keys of a tree of 34 bits", ours, theirs, target="2x")
    nodes = np.random.default_rng(1).choice(np.unique(keys >> 10), 30_000, replace=False)
    asked = Prefixes(np.full(30_000, 24), np.sort(nodes))
    ours, boxes = timed(lambda: prefix_counts(keys, deep.depth, asked, 4), repeats=3)
    assert boxes.sum() == np.isin(keys >> 10, nodes).sum()
    report("480,000 boxes of it", ours, theirs, target="5x")


def cluster_sums(rows: int) -> None:
    """Sizes and totals of 100 clusters, and of those of 10 subsets, against scikit-learn's labels
    alone and against one round of its KMeans.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import pairwise_distances_argmin
    from threadpoolctl import threadpool_limits

    columns, rng = clustered(rows), np.random.default_rng(1)
    centres = rng.integers(-EDGE, EDGE, size=(10, 100, 2))
    rules = [
        NearestCentre(("x", "y"), tuple(map(tuple, each.tolist())), (1, 1)) for each in centres
    ]
    x, start = np.stack(columns, axis=1).astype(float), centres[0].astype(float)
    with threadpool_limits(1):
        ours, sums = timed(lambda: sums_by_centre(rules[:1], columns, rows=rows, salt=0), repeats=3)
        split, _ = timed(lambda: sums_by_centre(rules, columns, rows=rows, salt=0), repeats=3)
        argmin, labels = timed(lambda: pairwise_distances_argmin(x, start), repeats=2)
        one = KMeans(100, init=start, n_init=1, max_iter=1)
        kmeans, _ = timed(lambda: one.fit(x), repeats=2)
    assert np.abs(sums[0, :, 0] - np.bincount(labels, minlength=100)).sum() < rows / 1e4
    report(f"sums of 100 clusters against labels, N={rows:.0e}", ours, argmin, target="2x")
    report("sums of 100 clusters against KMeans(max_iter=1)", ours, kmeans, target="3x")
    report("sums of 10 × 100 clusters against KMeans(max_iter=1)", split, kmeans, target="2x")


if __name__ == "__main__":
    all_pairs(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    quadtree(10_000_000)
    tree_boxes(1_000_000)
    cluster_sums(1_000_000)
