"""unbalance_like: three dense clusters on the left, five sparse ones on the right."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dp_pipeline.raw.generators.drawing import random_numbers, shares

DENSE = [(140_000.0, 350_000.0), (180_000.0, 400_000.0), (210_000.0, 350_000.0)]
SPARSE = [
    (440_000.0, 300_000.0),
    (440_000.0, 400_000.0),
    (490_000.0, 350_000.0),
    (540_000.0, 300_000.0),
    (540_000.0, 400_000.0),
]
SPREADS = [8_000.0] * len(DENSE) + [6_000.0] * len(SPARSE)
WEIGHTS = [20] * len(DENSE) + [1] * len(SPARSE)


def generate(seed: int = 0, rows: int = 6_500) -> pa.Table:
    """Points x, y in the box [0, 1e6]² and their cluster ``label``, the texts 1 to 8.

    With 6,500 rows 3 × 2,000 points are dense (labels 1 to 3) and 5 × 100 sparse;
    other numbers of rows keep the proportion 20 : 1. The order of rows is shuffled.
    """
    rng = random_numbers(seed)
    cluster = rng.permutation(np.repeat(np.arange(len(WEIGHTS)), shares(rows, WEIGHTS)))
    centres, spreads = np.array(DENSE + SPARSE), np.array(SPREADS)
    points = centres[cluster] + spreads[cluster, None] * rng.standard_normal((rows, 2))
    points = np.rint(np.clip(points, 0.0, 1e6))
    labels = pa.array((cluster + 1).astype(str).tolist(), pa.string())
    return pa.table({"x": points[:, 0], "y": points[:, 1], "label": labels})
