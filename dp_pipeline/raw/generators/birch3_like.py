"""birch3_like: a hundred Gaussian clusters of random sizes, places and widths."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dp_pipeline.raw.generators.drawing import random_numbers

CLUSTERS = 100
SIDE = 1e6
NARROWEST, WIDEST = 8_000.0, 30_000.0


def generate(seed: int = 0, rows: int = 100_000) -> pa.Table:
    """Points x, y, whole numbers in the box [0, 1e6]², of 100 clusters.

    Centres are uniform in the box, standard deviations uniform from 8,000 to
    30,000, sizes a uniform random split of ``rows``. Points past the box are moved
    to its edge. The order of rows is random.
    """
    rng = random_numbers(seed)
    centres = rng.uniform(0.0, SIDE, size=(CLUSTERS, 2))
    spreads = rng.uniform(NARROWEST, WIDEST, size=CLUSTERS)
    sizes = rng.multinomial(rows, rng.dirichlet(np.ones(CLUSTERS)))
    cluster = rng.permutation(np.repeat(np.arange(CLUSTERS), sizes))
    points = centres[cluster] + spreads[cluster, None] * rng.standard_normal((rows, 2))
    points = np.rint(np.clip(points, 0.0, SIDE))
    return pa.table({"x": points[:, 0], "y": points[:, 1]})
