"""birch3_like: a hundred Gaussian clusters of random sizes, places and widths.

unbalance_like: three dense clusters on the left, five sparse ones on the right.

pytest2d: five Gaussian clusters in a small box, the first data set of every clustering test.

mixture: eight equal Gaussian clusters in a box of any dimension, for clustering beyond the
plane.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dp_pipeline.raw.generators.drawing import random_numbers, shares

BIRCH3_CLUSTERS = 100
SIDE = 1e6
NARROWEST, WIDEST = 8_000.0, 30_000.0


def birch3_like(seed: int = 0, rows: int = 100_000) -> pa.Table:
    """Points x, y, whole numbers in the box [0, 1e6]², of 100 clusters.

    Centres are uniform in the box, standard deviations uniform from 8,000 to
    30,000, sizes a uniform random split of ``rows``. Points past the box are moved
    to its edge. The order of rows is random.
    """
    rng = random_numbers(seed)
    centres = rng.uniform(0.0, SIDE, size=(BIRCH3_CLUSTERS, 2))
    spreads = rng.uniform(NARROWEST, WIDEST, size=BIRCH3_CLUSTERS)
    sizes = rng.multinomial(rows, rng.dirichlet(np.ones(BIRCH3_CLUSTERS)))
    cluster = rng.permutation(np.repeat(np.arange(BIRCH3_CLUSTERS), sizes))
    points = centres[cluster] + spreads[cluster, None] * rng.standard_normal((rows, 2))
    points = np.rint(np.clip(points, 0.0, SIDE))
    return pa.table({"x": points[:, 0], "y": points[:, 1]})


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


def unbalance_like(seed: int = 0, rows: int = 6_500) -> pa.Table:
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


CENTRES = np.array([(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0), (0.0, 0.0)])
PYTEST2D_SPREAD = 0.2
BOX = 2.0


def pytest2d(seed: int = 0, rows: int = 10_000) -> pa.Table:
    """Points x, y (rows,) of five equal clusters at (±1, ±1) and (0, 0), standard deviation 0.2.

    Every point lies strictly inside the box (−2, 2)²: the rare one outside (five
    standard deviations) is moved to its edge. The order of rows is shuffled.
    """
    rng = random_numbers(seed)
    cluster = rng.permutation(np.repeat(np.arange(len(CENTRES)), shares(rows, [1] * len(CENTRES))))
    points = CENTRES[cluster] + PYTEST2D_SPREAD * rng.standard_normal((rows, 2))
    edge = np.nextafter(BOX, 0.0)
    points = np.clip(points, -edge, edge)
    return pa.table({"x": points[:, 0], "y": points[:, 1]})


MIXTURE_CLUSTERS = 8
MIXTURE_SPREAD = 0.08
REACH_OF_CENTRES = 0.7


def mixture(seed: int = 0, rows: int = 100_000, *, dimensions: int) -> pa.Table:
    """Points x1, …, xd in the box [−1, 1]^d and their cluster ``label``, the texts 1 to 8.

    Centres are uniform in [−0.7, 0.7]^d, every standard deviation is 0.08, clusters are equal
    in size up to one row. Points past the box are moved to its edge. The order of rows is
    shuffled.
    """
    rng = random_numbers(seed)
    centres = rng.uniform(-REACH_OF_CENTRES, REACH_OF_CENTRES, size=(MIXTURE_CLUSTERS, dimensions))
    cluster = rng.permutation(
        np.repeat(np.arange(MIXTURE_CLUSTERS), shares(rows, [1] * MIXTURE_CLUSTERS))
    )
    points = centres[cluster] + MIXTURE_SPREAD * rng.standard_normal((rows, dimensions))
    points = np.clip(points, -1.0, 1.0)
    columns: dict[str, pa.Array] = {f"x{a + 1}": pa.array(points[:, a]) for a in range(dimensions)}
    columns["label"] = pa.array((cluster + 1).astype(str).tolist(), pa.string())
    return pa.table(columns)
