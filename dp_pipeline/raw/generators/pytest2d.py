"""pytest2d: five Gaussian clusters in a small box, the first data set of every clustering test."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dp_pipeline.raw.generators.drawing import random_numbers, shares

CENTRES = np.array([(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0), (0.0, 0.0)])
SPREAD = 0.2
BOX = 2.0


def generate(seed: int = 0, rows: int = 10_000) -> pa.Table:
    """Points x, y (rows,) of five equal clusters at (±1, ±1) and (0, 0), standard deviation 0.2.

    Every point lies strictly inside the box (−2, 2)²: the rare one outside (five
    standard deviations) is moved to its edge. The order of rows is shuffled.
    """
    rng = random_numbers(seed)
    cluster = rng.permutation(np.repeat(np.arange(len(CENTRES)), shares(rows, [1] * len(CENTRES))))
    points = CENTRES[cluster] + SPREAD * rng.standard_normal((rows, 2))
    edge = np.nextafter(BOX, 0.0)
    points = np.clip(points, -edge, edge)
    return pa.table({"x": points[:, 0], "y": points[:, 1]})
