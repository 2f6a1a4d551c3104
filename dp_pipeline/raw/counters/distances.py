"""Squared distances of fixed-point rows to their nearest centre, exact to the last digit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.schema.encoding import COORDINATE_BITS, FloatArray, IntArray

_BLOCK_CELLS = 1 << 17


def exact_distance_total(
    rule: NearestCentre, columns: Sequence[NDArray[Any]], *, rows: int, clip: int, shift: int
) -> int:
    """Σ over rows of min(D, clip) >> shift, D = min over centres of Σ (weight · (q − c))².

    columns   coordinates (rows,), in the order of the rule's
    """
    # A common factor g of the weights is taken out, D = g² · D': often all that is left is 1.
    factor = math.gcd(*rule.weights) or 1
    weights = np.array(rule.weights, dtype=np.int64) // factor
    centres = np.array(rule.centres, dtype=np.int64) * weights
    # Sums and products of the expanded square are at most 4 · Σ (weight · 2^16)².
    fits = 4 * int((weights**2).sum()) << 2 * COORDINATE_BITS < 1 << 53
    nearest = _nearest_in_floats if fits else _nearest_in_integers
    most = min(clip, rule.largest_distance)
    step = max(256, _BLOCK_CELLS // len(centres))
    total = 0
    for start in range(0, rows, step):
        block = np.stack([c[start : start + step].astype(np.int64) for c in columns], axis=1)
        exact = nearest(block * weights, centres) * factor**2
        total += int((np.minimum(exact, most) >> shift).sum())
    return total


def _nearest_in_floats(points: IntArray, centres: IntArray) -> IntArray:
    """By BLAS: every product and sum is a whole number below 2^53, so floats hold it exactly."""
    x: FloatArray = points.astype(np.float64)
    c: FloatArray = centres.astype(np.float64)
    table = x @ (-2.0 * c.T)
    table += (c * c).sum(axis=1)
    nearest: FloatArray = (x * x).sum(axis=1) + table.min(axis=1)
    return nearest.astype(np.int64)


def _nearest_in_integers(points: IntArray, centres: IntArray) -> IntArray:
    """By differences, in int64: no sum is above the largest distance, which was checked."""
    table = np.zeros((len(points), len(centres)), dtype=np.int64)
    for axis in range(points.shape[1]):
        difference = points[:, axis, None] - centres[None, :, axis]
        difference *= difference
        table += difference
    nearest: IntArray = table.min(axis=1)
    return nearest
