"""mixture: eight equal Gaussian clusters in a box of any dimension, for clustering beyond the
plane.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dp_pipeline.raw.generators.drawing import random_numbers, shares

CLUSTERS = 8
SPREAD = 0.08
REACH_OF_CENTRES = 0.7


def generate(seed: int = 0, rows: int = 100_000, *, dimensions: int) -> pa.Table:
    """Points x1, …, xd in the box [−1, 1]^d and their cluster ``label``, the texts 1 to 8.

    Centres are uniform in [−0.7, 0.7]^d, every standard deviation is 0.08, clusters are equal
    in size up to one row. Points past the box are moved to its edge. The order of rows is
    shuffled.
    """
    rng = random_numbers(seed)
    centres = rng.uniform(-REACH_OF_CENTRES, REACH_OF_CENTRES, size=(CLUSTERS, dimensions))
    cluster = rng.permutation(np.repeat(np.arange(CLUSTERS), shares(rows, [1] * CLUSTERS)))
    points = centres[cluster] + SPREAD * rng.standard_normal((rows, dimensions))
    points = np.clip(points, -1.0, 1.0)
    columns: dict[str, pa.Array] = {f"x{a + 1}": pa.array(points[:, a]) for a in range(dimensions)}
    columns["label"] = pa.array((cluster + 1).astype(str).tolist(), pa.string())
    return pa.table(columns)
