"""Buying quality numbers: how good a release is on the true rows is a question about rows.

Each is bought with an ε of its own, reserved together with the release's.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np

from dp_pipeline.gate.counts import MOST_GRID_CELLS
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.release.budget import split
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.measurement import NoisyNumber
from dp_pipeline.release.product import ProductTable
from dp_pipeline.schema.encoding import COORDINATE_BITS, FloatArray, IntArray

ROWS_SHARE = Fraction(1, 4)
"""Share of an evaluation's ε that counts the rows; the rest goes to the sum divided by them."""

CLIP_QUANTILE = 0.98
"""Share of a synopsis' weight that lies within the distance at which rows are clipped."""

MOST_PAIRS = 2000
"""Pairs of attributes that a table's error is averaged over; the first ones, in file order."""


def buy_quality(
    curator: Curator, released: Clusters | ProductTable, *, epsilon: Fraction
) -> dict[str, NoisyNumber]:
    """Private quality numbers of one release; spends exactly ``epsilon``."""
    if isinstance(released, Clusters):
        return {"nicv": _buy_nicv(curator, released, epsilon)}
    return {"mean_tvd": _buy_pair_error(curator, released, epsilon)}


def _buy_nicv(curator: Curator, clusters: Clusters, epsilon: Fraction) -> NoisyNumber:
    """Normalised intra-cluster variance, in squared data units: Σ min(d², B)/n.

    B is a quantile of the squared distances that the released synopsis itself has: a
    function of released values, and far below the box's diagonal, so the noise is small. A
    row farther from every centre counts as that far, so the number is biased downwards (by up
    to 8 % on trips).
    """
    rule, unit = nearest_centre(clusters, curator)
    clip = max(1, int(_clip(clusters) / unit))
    # The sum keeps 20 bits a row: finer would be noise, and the total stays far below 2^63.
    shift = max(0, clip.bit_length() - 20)
    of_total, of_rows = split(epsilon, [1 - ROWS_SHARE, ROWS_SHARE])
    total = curator.measure_distance(rule, clip=clip, shift=shift, epsilon=of_total)
    rows = max(1, int(curator.measure((), epsilon=of_rows).table))
    in_units = unit * (1 << shift) / rows
    scale = float((clip >> shift) * curator.reach / of_total)
    value = max(0.0, int(total) * in_units)
    return NoisyNumber(value, scale * in_units, "squared data units")


def _clip(clusters: Clusters) -> float:
    """Squared distance, in data units, that the synopsis says few rows pass."""
    middles, weights = clusters.synopsis.middles, clusters.synopsis.weights.clip(min=0)
    distances = np.full(len(middles), np.inf)
    for centre in clusters.centres:
        distances = np.minimum(distances, ((middles - centre) ** 2).sum(axis=1))
    boxes = ((clusters.synopsis.upper - clusters.synopsis.lower) ** 2).sum(axis=1) / 4
    order = np.argsort(distances)
    passed = np.cumsum(weights[order])
    last = np.searchsorted(passed, CLIP_QUANTILE * passed[-1])
    # A box's rows are up to half its diagonal from its middle.
    return float(distances[order][last] + boxes[order][last])


def nearest_centre(clusters: Clusters, curator: Curator) -> tuple[NearestCentre, float]:
    """The released centres as whole numbers, and the squared data units of one distance unit."""
    box = curator.domain.box(clusters.columns)
    widest = max(interval.half_width for interval in box)
    # Half-widths in whole parts of the largest; coarser where so many axes would pass 2^63.
    parts = 1024 if len(box) < 512 else 32
    weights = tuple(max(1, round(parts * one.half_width / widest)) for one in box)
    coordinates = [interval.encode(clusters.centres[:, axis]) for axis, interval in enumerate(box)]
    centres = tuple(tuple(int(q) for q in row) for row in np.stack(coordinates, axis=1))
    unit = (widest / parts / (1 << COORDINATE_BITS)) ** 2
    return NearestCentre(clusters.columns, centres, weights), unit


def _buy_pair_error(curator: Curator, table: ProductTable, epsilon: Fraction) -> NoisyNumber:
    """Total variation distance to the true table, averaged over pairs of attributes:
    ½Σ|c − n·q|/n. One row moves the average of ½Σ|c − n·q| by at most 1.
    """
    attributes = [marginal.attributes[0] for marginal in table.marginals]
    pairs: list[tuple[str, ...]] = [
        tuple(pair)
        for pair in combinations(attributes, 2)
        if curator.domain.cell_count(pair) <= MOST_GRID_CELLS
    ]
    pairs = pairs[:MOST_PAIRS] or [(attributes[0],)]
    released = {pair: whole_parts(table.probabilities(pair)) for pair in pairs}
    of_error = epsilon * (1 - ROWS_SHARE)
    error = curator.measure_marginal_error(released, epsilon=of_error)
    rows = max(1, int(curator.measure((), epsilon=epsilon * ROWS_SHARE).table))
    value = int(error) / (len(pairs) << 17) / rows
    return NoisyNumber(min(1.0, max(0.0, value)), float(curator.reach / of_error) / rows, "share")


def whole_parts(probabilities: FloatArray) -> IntArray:
    """Probabilities as whole numbers of 2^-16 that add up to 2^16: the largest remainders get
    what rounding down has left.
    """
    scaled = probabilities * (1 << 16)
    parts = np.floor(scaled).astype(np.int64)
    missing = (1 << 16) - int(parts.sum())
    order = np.argsort((parts - scaled).ravel(), kind="stable")
    flat = parts.ravel()
    flat[order[:missing]] += 1
    return flat.reshape(probabilities.shape)
