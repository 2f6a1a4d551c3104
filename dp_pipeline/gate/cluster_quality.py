"""Buying how good released centres are: their NICV, and how well they agree with a label."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import hypot, isnan, sqrt

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.metrics.class_tables import adjusted_rand, f_measure
from dp_pipeline.metrics.redraw import redraw_error
from dp_pipeline.release.budget import split
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.measurement import NoisyNumber
from dp_pipeline.release.simplex import project_to_simplex
from dp_pipeline.release.synopsis import Synopsis
from dp_pipeline.schema.encoding import Coordinate, FloatArray, IntArray

ROWS_SHARE = Fraction(1, 4)
"""Share of ε that counts the rows; the rest goes to the sum that is divided by them."""

CLASSES_SHARE = Fraction(1, 2)
"""Share that buys the class × cluster table; its total is the number of rows."""

CLIP_QUANTILE = 0.98
"""Share of a synopsis' weight that lies within the distance at which rows are clipped."""

SQUARED_UNITS = "squared data units"


def buy_cluster_quality(
    curator: Curator, clusters: Clusters, *, epsilon: Fraction, label: str | None
) -> dict[str, NoisyNumber]:
    """``nicv``; with a label ``f_label`` and ``ari_label`` too. Spends exactly ``epsilon``."""
    rule = NearestCentre.of(
        clusters.columns, clusters.centres, curator.domain.box(clusters.columns)
    )
    share = ROWS_SHARE if label is None else CLASSES_SHARE
    of_total, of_rest = split(epsilon, [1 - share, share])
    total = _buy_distance(curator, clusters, rule, of_total)
    scale = float(curator.reach / of_rest)
    if label is None:
        rows = int(curator.measure((), epsilon=of_rest).table)
        return {"nicv": _mean(total, NoisyNumber(rows, scale, "rows"))}
    table = curator.measure_classes(rule, label, epsilon=of_rest)
    # The total of m cells has √m times the noise of one; a separate count costs the sum more.
    rows = int(table.sum())
    return {
        "nicv": _mean(total, NoisyNumber(rows, scale * sqrt(table.size), "rows")),
        "f_label": _agreement(f_measure, table, scale),
        "ari_label": _agreement(adjusted_rand, table, scale),
    }


def _buy_distance(
    curator: Curator, clusters: Clusters, rule: NearestCentre, epsilon: Fraction
) -> NoisyNumber:
    """Σ over rows of min(d², B), in squared data units.

    B is far below the box's diagonal, so the noise is small. A row farther from every centre
    counts as that far, so the number is biased downwards (by up to 8 % on trips).
    """
    box = curator.domain.box(clusters.columns)
    unit = rule.unit_in(box) ** 2
    clip = max(1, int(_clip(clusters, box) / unit))
    # The sum keeps 20 bits a row: finer would be noise, and the total stays far below 2^63.
    shift = max(0, clip.bit_length() - 20)
    total = curator.measure_distance(rule, clip=clip, shift=shift, epsilon=epsilon)
    coarse = unit * (1 << shift)
    scale = float((clip >> shift) * curator.reach / epsilon)
    return NoisyNumber(int(total) * coarse, scale * coarse, SQUARED_UNITS)


def _clip(clusters: Clusters, box: tuple[Coordinate, ...]) -> float:
    """Squared distance, in data units, that few rows are thought to pass: of released values."""
    if clusters.synopsis is not None:
        return _quantile_of_synopsis(clusters.centres, clusters.synopsis)
    return _widest_gap(clusters.centres, box)


def _quantile_of_synopsis(centres: FloatArray, synopsis: Synopsis) -> float:
    """The distance that ``CLIP_QUANTILE`` of the synopsis' own weight does not pass."""
    middles, weights = synopsis.middles, synopsis.weights.clip(min=0)
    distances = np.full(len(middles), np.inf)
    for centre in centres:
        distances = np.minimum(distances, ((middles - centre) ** 2).sum(axis=1))
    boxes = ((synopsis.upper - synopsis.lower) ** 2).sum(axis=1) / 4
    order = np.argsort(distances)
    passed = np.cumsum(weights[order])
    last = np.searchsorted(passed, CLIP_QUANTILE * passed[-1])
    # A box's rows are up to half its diagonal from its middle.
    return float(distances[order][last] + boxes[order][last])


def _widest_gap(centres: FloatArray, box: tuple[Coordinate, ...]) -> float:
    """The largest distance from a centre to the nearest other place with a centre; half the
    box's diagonal where all are at one place: two equal centres say nothing about the rows.
    """
    places = np.unique(centres, axis=0)
    if len(places) == 1:
        return sum(interval.half_width**2 for interval in box)
    gaps = []
    for index, place in enumerate(places):
        distances = ((places - place) ** 2).sum(axis=1)
        gaps.append(np.delete(distances, index).min())
    return float(max(gaps))


def _mean(total: NoisyNumber, rows: NoisyNumber) -> NoisyNumber:
    """total/rows, at least 0, and the scale of Laplace noise of the same standard deviation.

    Var(S/n) ≈ (Var S + (S/n)² Var n)/n²: to first order, good while n is far above its noise.
    """
    n = max(1.0, rows.value)
    value = max(0.0, total.value / n)
    return NoisyNumber(value, hypot(total.scale, value * rows.scale) / n, total.unit)


def _agreement(
    metric: Callable[[FloatArray], float], noisy_table: IntArray, scale: float
) -> NoisyNumber:
    """A metric of the table that is left when the noise is taken off, and how sure it is.

    scale   of the noise in one cell

    Nearest to the noisy table among those of its own total without negative cells: cells set to
    0 alone would leave the positive half of the noise, and with it twice the error at ε = 0.1
    (unbalance). The scale is that of Laplace noise with the error that redrawing shows.
    """

    def estimate(table: FloatArray) -> float:
        value = metric(_without_noise(table))
        return 0.0 if isnan(value) else value

    believed = _without_noise(noisy_table)
    error = redraw_error(estimate, believed, scale=scale)
    return NoisyNumber(estimate(believed), error / sqrt(2), "share")


def _without_noise(table: FloatArray | IntArray) -> FloatArray:
    """Whole counts ≥ 0 of about the table's total; all 0 where that is not above 0."""
    total = float(table.sum())
    if total <= 0:
        return np.zeros(table.shape)
    return np.rint(project_to_simplex(table, total))
