"""The residual step: released centres move by the noisy means of their rows' clipped residuals.

A tree's boxes grow long with the dimension, and a mean of box middles is off by a part of a box.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from dp_pipeline.config.encoding import COORDINATE_BITS, FloatArray
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.rules import NearestCentre
from dp_pipeline.results.clusters import Synopsis, nearest_centres
from dp_pipeline.threads import one_thread

QUANTILE = 0.8  # part of a cluster's weight within the distance at which its rows are clipped
_ONE = 1 << COORDINATE_BITS  # fixed-point digits of half a side of the box


@dataclass(frozen=True)
class _Spread:
    """The sizes and radii of the clusters of a synopsis.

    sizes   float (k,), rows
    radii   float (k,), L1 distance in data units within which ``QUANTILE`` of the rows are
    """

    sizes: FloatArray
    radii: FloatArray

    @classmethod
    def of(cls, centres: FloatArray, synopsis: Synopsis) -> Self:
        weights = synopsis.weights.clip(min=0)
        middles, k = synopsis.middles, len(centres)
        nearest = nearest_centres(middles, centres)
        away = np.abs(middles - centres[nearest]).sum(axis=1)
        # A row is a quarter of a side from its box's middle, on average.
        away += (synopsis.upper - synopsis.lower).sum(axis=1) / 4
        radii = np.zeros(k)
        for cluster in range(k):
            distances = away[nearest == cluster]
            order = np.argsort(distances, kind="stable")
            passed = np.cumsum(weights[nearest == cluster][order])
            if passed.size and passed[-1] > 0:
                place = np.searchsorted(passed, QUANTILE * passed[-1])
                radii[cluster] = distances[order][place]
        sizes = np.bincount(nearest, weights, minlength=k).astype(np.float64)
        return cls(sizes, radii)


def move_by_residuals(
    curator: Curator, centres: FloatArray, synopsis: Synopsis, *, epsilon: Fraction
) -> FloatArray:
    """Spend ``epsilon`` on the residuals of rows from their centres; return the centres (k, d),
    moved by noisy clipped means of these.

    *Proof.* Radii are functions of the released synopsis. A row is in one cluster and adds at
    most one radius in L1, 2^16 in whole numbers rounded towards zero: one measure with
    Δ1 = 2^16. Division by released sizes, shrinkage and clipping are post-processing. ∎

    A centre stays when the noise of its mean is half its radius or more, and when its size in the
    synopsis is below one row. On each axis, moves are shrunk by the part of them that noise
    explains, judged over all centres. Moved centres are clipped to the declared box.
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
    digits = np.array([side.half_width / _ONE for side in box]) / np.array(rule.weights)
    mean_residuals = noisy * (steps / _ONE / sizes)[:, None] * digits
    rate = float(epsilon) / curator.distance
    deviations = np.sqrt(2) * steps[:, None] * digits / (rate * sizes)[:, None]
    is_noise = np.sqrt(2) / (rate * sizes) >= 0.5
    mean_residuals[is_noise | (spread.sizes < 1)] = 0.0
    moved = (mean_residuals != 0).any(axis=1)
    if moved.any():
        signal = (mean_residuals[moved] ** 2 - deviations[moved] ** 2).mean(axis=0).clip(min=0)
        mean_residuals = mean_residuals * (signal / (signal + deviations**2))
    low, high = ([getattr(side, end) for side in box] for end in ("lower", "upper"))
    return np.asarray(np.clip(centres + mean_residuals, low, high))


FAR = 1.5  # squared distance at which rows are clipped, relative to the mean of evenly filled boxes


def measure_relative_spread(curator: Curator, synopsis: Synopsis, *, epsilon: Fraction) -> float:
    """Spend ``epsilon`` on the mean squared distance of rows from the middle of all, clipped for
    far rows; return its ratio to that of rows which fill the synopsis' boxes evenly.

    The ratio is noisy, so it may be negative. It is 1 if all boxes with rows are one point.

    *Proof.* The middle, the clip and the number of rows are functions of the released synopsis: one
    distance question at ``epsilon``, and a division. ∎
    """
    weights = synopsis.weights.clip(min=0).astype(np.float64)
    box = curator.domain.box(synopsis.columns)
    rows = max(1.0, float(weights.sum()))
    with one_thread():
        middle = weights @ synopsis.middles / rows
        away = ((synopsis.middles - middle) ** 2).sum(axis=1)
        away += ((synopsis.upper - synopsis.lower) ** 2).sum(axis=1) / 12
        even = float(weights @ away) / rows
    rule = NearestCentre.of(synopsis.columns, middle[None], box)
    unit = rule.unit_in(box) ** 2
    clip = max(1, int(FAR * even / unit))
    # Twenty bits a row: finer would be noise.
    shift = max(0, clip.bit_length() - 20)
    total = curator.measure_distance(rule, clip=clip, shift=shift, epsilon=epsilon)
    return float(total) * unit * (1 << shift) / rows / even if even > 0 else 1.0


A_CENTRE = 12.0  # rows for each moved centre and column, in scales of the noise

USUAL_PART, ENOUGH_MOVED, LEAST_PART = 0.5, 3, 0.1
"""Slope by which other centres are shifted if fewer than ``ENOUGH_MOVED`` were moved, and the least
slope otherwise."""


def move_as_many_as_can(
    curator: Curator,
    centres: FloatArray,
    synopsis: Synopsis,
    *,
    fewer: Callable[[int], FloatArray],
    epsilon: Fraction,
) -> FloatArray:
    """Spend ``epsilon`` on moving as many centres as the noise allows; return k centres (k, d).

    fewer   function from a number to that many centres of the same synopsis

    With more columns fewer are moved. The others are placed by ``fill_up``: more centres cannot
    raise the cost.
    """
    rows = float(synopsis.weights.clip(min=0).sum()) * float(epsilon) / curator.distance
    few = max(1, min(len(centres), int(rows / (A_CENTRE * len(synopsis.columns)))))
    if few == len(centres):
        return move_by_residuals(curator, centres, synopsis, epsilon=epsilon)
    start = fewer(few)
    moved = move_by_residuals(curator, start, synopsis, epsilon=epsilon)
    return fill_up(moved, start, centres, synopsis)


def fill_up(
    moved: FloatArray, start: FloatArray, centres: FloatArray, synopsis: Synopsis
) -> FloatArray:
    """Return k centres: the moved ones, and the k − m of ``centres`` with most rows, shifted alike.

    moved, start   m centres after and before they were moved, (m, d) with m ≤ k
    centres        k centres of the synopsis (k, d), none of them moved

    Rows of a long box are nearer to the middle of all rows than the box's middle is. The others are
    shifted by the regression of moved centres on their starts, both relative to their means; with
    fewer than three moved centres by ``USUAL_PART``.

    >>> ends = np.array([[0.0], [4]])
    >>> synopsis = Synopsis(("x",), ends, ends + 4, np.array([3.0, 5]))
    >>> fill_up(np.array([[5.0]]), np.array([[4.0]]), np.array([[2.0], [6]]), synopsis).tolist()
    [[5.0], [6.0]]
    """
    sizes = _Spread.of(start, synopsis).sizes + 1e-9
    before, after = start - np.average(start, 0, sizes), moved - np.average(moved, 0, sizes)
    square = float(sizes @ (before * before).sum(axis=1))
    product = float(sizes @ (before * after).sum(axis=1))
    is_measured = len(start) >= ENOUGH_MOVED and square > 0
    part = min(1.0, max(LEAST_PART, product / square)) if is_measured else USUAL_PART
    order = np.argsort(-_Spread.of(centres, synopsis).sizes, kind="stable")
    largest = centres[order[: len(centres) - len(moved)]]
    nearest = nearest_centres(largest, start)
    shifted_centres = moved[nearest] + part * (largest - start[nearest])
    low, high = synopsis.lower.min(axis=0), synopsis.upper.max(axis=0)
    return np.concatenate([moved, np.clip(shifted_centres, low, high)])
