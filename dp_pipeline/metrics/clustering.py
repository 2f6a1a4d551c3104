"""Quality of released centres on given points."""

from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.results.clusters import nearest_centres

_BLOCK_CELLS = 1 << 20


def nicv(points: FloatArray, centres: FloatArray, nearest: IntArray | None = None) -> float:
    """Return the mean squared distance to the nearest centre (normalised intra-cluster variance).

    NICV = (1/N) Σ_i min_j ‖x_i − c_j‖², in squared units of the data.

    points    (N, d); the result is NaN for N = 0
    centres   (k, d) with k ≥ 1
    nearest   result of ``nearest_centres``, if it is known

    DeclarationError for shapes that do not fit. Source: Su, Cao, Li, Bertino,
    Jin, "Differentially Private k-Means Clustering", CODASPY 2016.

    >>> import numpy as np
    >>> nicv(np.array([[0.0, 0.0], [4.0, 3.0]]), np.array([[0.0, 0.0], [4.0, 2.0]]))
    0.5
    """
    if nearest is None:
        nearest = nearest_centres(points, centres)
    if len(points) == 0:
        return float("nan")
    # In blocks, since the differences would need as much memory as the points.
    blocks = (slice(start, start + _BLOCK_CELLS) for start in range(0, len(points), _BLOCK_CELLS))
    squares = (((points[rows] - centres[nearest[rows]]) ** 2).sum() for rows in blocks)
    return float(sum(squares)) / len(points)


def rcp(*, reference: float, candidate: float) -> float:
    """Return the relative clustering performance: by how many percent the NICV ``candidate`` is
    below the NICV ``reference``, negative if it is above.

    RCP = 100 · (NICV_reference − NICV_candidate) / NICV_reference; NaN if the
    reference is 0 or NaN. Source: Zhang, Cheng, "Differential privacy clustering
    based on dynamic spatial partition", 2021: reference EUGkM, candidate DPQTk-means.

    >>> rcp(reference=8.0, candidate=6.0)
    25.0
    """
    if not abs(reference) > 0:
        return float("nan")
    return 100.0 * (reference - candidate) / reference
