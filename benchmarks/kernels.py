# ruff: noqa: T201
"""Counting kernels against NumPy's own histograms, as ratios measured in one run.

    .venv/bin/python benchmarks/kernels.py [rows of the pairs, default 1000000]

Both sides of a ratio run in the same process on the same data, and the two
answers are compared. Wall times of a busy machine mean little; ratios mean more.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import combinations
from typing import TypeVar

import numpy as np

from dp_pipeline.gate.pyramid import pyramid
from dp_pipeline.raw.counters.grids import grid_counts
from dp_pipeline.raw.counters.marginals import exact_marginals

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


def report(what: str, ours: float, theirs: float, *, target: str) -> None:
    """One line."""
    print(f"{what}: {ours:.3f} s against {theirs:.3f} s, {theirs / ours:.0f}x (target {target})")


def all_pairs(rows: int) -> None:
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
    report(f"all {len(pairs)} pairs of mix14, N={rows:.0e}", ours, theirs, target="40x")


def quadtree(rows: int) -> None:
    """Levels 0 to 10 of a quadtree, against one histogram2d of the finest level alone."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(-EDGE, EDGE, size=(2, rows)).astype(np.int32)
    cells = 1 << HEIGHT

    def histogram() -> np.ndarray:
        return np.histogram2d(x, y, bins=cells, range=[[-EDGE, EDGE], [-EDGE, EDGE]])[0]

    ours, levels = timed(lambda: pyramid(grid_counts([x, y], cells, rows=rows)), repeats=3)
    theirs, expected = timed(histogram, repeats=1)
    assert np.array_equal(levels[-1], expected)
    report(f"quadtree of {HEIGHT + 1} levels, N={rows:.0e}", ours, theirs, target="10x")


if __name__ == "__main__":
    all_pairs(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    quadtree(10_000_000)
