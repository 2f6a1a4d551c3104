"""Buying quality numbers: how good a release is on the true rows is a question about rows.

Each is bought with an ε of its own, reserved together with the release's.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np

from dp_pipeline.gate.cluster_quality import ROWS_SHARE, buy_cluster_quality
from dp_pipeline.gate.counts import MOST_GRID_CELLS
from dp_pipeline.gate.curator import Curator
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.measurement import NoisyNumber
from dp_pipeline.release.product import ProductTable
from dp_pipeline.schema.encoding import FloatArray, IntArray

MOST_PAIRS = 2000
"""Pairs of attributes that a table's error is averaged over; the first ones, in file order."""


def buy_quality(
    curator: Curator,
    released: Clusters | ProductTable,
    *,
    epsilon: Fraction,
    label: str | None = None,
) -> dict[str, NoisyNumber]:
    """Private quality numbers of one release; spends exactly ``epsilon``.

    label   the attribute with levels that clusters are compared with, or None
    """
    if isinstance(released, Clusters):
        return buy_cluster_quality(curator, released, epsilon=epsilon, label=label)
    return {"mean_tvd": _buy_pair_error(curator, released, epsilon)}


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
