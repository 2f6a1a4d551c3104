"""Generators of invented populations; the same seed gives the same table.

Every generator is ``NAME(seed=…, rows=…) -> pyarrow.Table`` and draws from NumPy's PCG64 by the
functions below, so a table is the same on every machine with one NumPy version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.parameters import Registry

if TYPE_CHECKING:
    import pyarrow as pa

GENERATORS: Registry[Callable[..., pa.Table]] = Registry(
    "dp_pipeline.raw.generators",
    {
        "birch3_like": "places:birch3_like",
        "census_like": "tables:census_like",
        **{f"mixture{d}": f"places:mixture{d}" for d in (4, 6, 8)},
        "pytest2d": "places:pytest2d",
        "rides_stream": "places:rides_stream",
        "tic_like": "tables:tic_like",
        "trips_like": "places:trips_like",
        "unbalance_like": "places:unbalance_like",
    },
)
"""Name in a data set file → generator."""

STREAMS = ("rides_stream",)  # Their rows have a time; for a window they generate its rows alone


def random_numbers(seed: int) -> np.random.Generator:
    """Return a seeded PCG64 generator, which stays the same in later versions of NumPy."""
    return np.random.Generator(np.random.PCG64(seed))


def shares(rows: int, weights: Sequence[float]) -> IntArray:
    """Return ``rows`` divided into integers in proportion to ``weights``, by largest remainders.

    >>> shares(7, [1, 1, 1]).tolist()
    [3, 2, 2]
    """
    exact = np.asarray(weights, dtype=np.float64) / np.sum(weights) * rows
    counts: IntArray = np.floor(exact).astype(np.int64)
    order = np.argsort(-(exact - counts), kind="stable")
    counts[order[: rows - counts.sum()]] += 1
    return counts


def draw_category(
    rng: np.random.Generator, weights: FloatArray, parents: tuple[IntArray, ...], rows: int
) -> IntArray:
    """Return one of k categories for each row (rows,), drawn given the categories of its parents.

    weights   (…sizes of parents, k)
    parents   codes (rows,) of each parent
    """
    cumulative = np.cumsum(weights / weights.sum(axis=-1, keepdims=True), axis=-1)
    thresholds = np.broadcast_to(cumulative[parents], (rows, weights.shape[-1]))
    # The last threshold is 1 up to rounding, and is never exceeded.
    codes: IntArray = (rng.random((rows, 1)) >= thresholds[:, :-1]).sum(axis=1)
    return codes


def draw_one_of_many(rng: np.random.Generator, weights: FloatArray, rows: int) -> IntArray:
    """Return one of k categories for each row (rows,), drawn by weights (k,), also for large k."""
    cumulative = np.cumsum(weights)
    positions = np.searchsorted(cumulative, rng.random(rows) * cumulative[-1], side="right")
    codes: IntArray = np.minimum(positions, len(weights) - 1).astype(np.int64)
    return codes
