"""The residual step: released centres move to the noisy means of what a tree left over.

A tree's boxes grow long with the dimension, and a mean of box middles is off by a
part of a box. The rows' own distances from the released centres, clipped, are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.metrics.clustering import nearest_centres
from dp_pipeline.release.one_thread import one_thread
from dp_pipeline.release.synopsis import Synopsis
from dp_pipeline.schema.encoding import COORDINATE_BITS, FloatArray

QUANTILE = 0.8
"""Part of a cluster's weight within the distance at which its rows are clipped."""

_ONE = 1 << COORDINATE_BITS


@dataclass(frozen=True)
class _Spread:
    """What a synopsis says about its clusters.

    sizes   float (k,), rows
    radii   float (k,), L1 distance in data units
    """

    sizes: FloatArray
    radii: FloatArray

    @classmethod
    def of(cls, centres: FloatArray, synopsis: Synopsis) -> _Spread:
        weights = synopsis.weights.clip(min=0)
        middles, k = synopsis.middles, len(centres)
        nearest = nearest_centres(middles, centres)
        away = np.abs(middles - centres[nearest]).sum(axis=1)
        # A row is a quarter of a side from its box's middle, on average.
        away += (synopsis.upper - synopsis.lower).sum(axis=1) / 4
        radii = [_quantile(away[nearest == j], weights[nearest == j]) for j in range(k)]
        sizes = np.bincount(nearest, weights, minlength=k).astype(np.float64)
        return cls(sizes, np.array(radii))


def move_by_residuals(
    curator: Curator, centres: FloatArray, synopsis: Synopsis, *, epsilon: Fraction
) -> FloatArray:
    """Centres (k, d) of a synopsis, moved by the noisy clipped means of their rows' residuals.

    *Proof.* Radii are functions of the released synopsis. A row is in one cluster and adds at
    most one radius in L1, 2^16 in whole numbers rounded towards zero: one measure with
    Δ1 = 2^16. Division by released sizes, shrinkage and clipping are post-processing. ∎

    A centre stays when the noise of its mean is half its radius or more. All moves of one
    centre are shrunk by the part of them that noise explains, judged over all centres.
    """
    # The question depends on these floats, whose last digits depend on the number of threads.
    with one_thread():
        spread = _Spread.of(centres, synopsis)
    box = curator.domain.box(synopsis.columns)
    rule = NearestCentre.of(synopsis.columns, centres, box)
    steps = np.maximum(1, np.ceil(spread.radii / rule.unit_in(box))).astype(np.int64)
    noisy = curator.measure_residuals(rule, tuple(steps.tolist()), epsilon=epsilon)
    sizes = np.maximum(1.0, spread.sizes)
    # One whole step of axis a is unit / weight_a of its own fixed-point digits.
    digits = np.array([one.half_width / _ONE for one in box]) / np.array(rule.weights)
    means = noisy * (steps / _ONE / sizes)[:, None] * digits
    rate = float(epsilon) / curator.reach
    deviations = np.sqrt(2) * steps[:, None] * digits / (rate * sizes)[:, None]
    far = np.sqrt(2) / (rate * sizes) >= 0.5
    means[far | (spread.sizes < 1)] = 0.0
    low, high = ([getattr(one, end) for one in box] for end in ("lower", "upper"))
    return np.asarray(np.clip(centres + _shrunk(means, deviations), low, high))


def _shrunk(means: FloatArray, deviations: FloatArray) -> FloatArray:
    """Means (k, d) times signal / (signal + noise), the signal's variance pooled by axis."""
    moved = (means != 0).any(axis=1)
    if not moved.any():
        return means
    signal = (means[moved] ** 2 - deviations[moved] ** 2).mean(axis=0).clip(min=0)
    return np.asarray(means * (signal / (signal + deviations**2)))


def _quantile(distances: FloatArray, weights: FloatArray) -> float:
    """The distance within which QUANTILE of the weight lies; 0 of no weight."""
    order = np.argsort(distances, kind="stable")
    passed = np.cumsum(weights[order])
    if not passed.size or passed[-1] <= 0:
        return 0.0
    return float(distances[order][np.searchsorted(passed, QUANTILE * passed[-1])])
