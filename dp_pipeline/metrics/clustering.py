"""Quality of released centres on given points."""

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.errors import DeclarationError

_BLOCK_CELLS = 1 << 20


def nicv(points: FloatArray, centres: FloatArray, nearest: IntArray | None = None) -> float:
    """Return the mean squared distance to the nearest centre (normalised intra-cluster variance).

    NICV = (1/N) Σ_i min_j ‖x_i − c_j‖², in squared units of the data.

    points    (N, d); the result is NaN for N = 0
    centres   (k, d) with k ≥ 1
    nearest   result of ``nearest_centres``, if it is known

    DeclarationError for shapes that do not fit. Source: Su, Cao, Li, Bertino,
    Jin, "Differentially Private k-Means Clustering", CODASPY 2016.

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


def nearest_centres(points: FloatArray, centres: FloatArray) -> IntArray:
    """Return the index of the centre (k, d) nearest to each point (N, d), as (N,).

    DeclarationError for other shapes and for no centre."""
    if points.ndim != 2 or centres.ndim != 2 or points.shape[1] != centres.shape[1]:
        raise DeclarationError(
            "The points and centres must be tables with equal numbers of columns, not of "
            f"shapes {points.shape} and {centres.shape}"
        )
    if len(centres) == 0:
        raise DeclarationError("A clustering needs one or more centres, but it has none")
    # The expanded square is fast but loses digits far from zero, so the origin is moved into the
    # data.
    origin = centres.mean(axis=0)
    c = centres - origin
    squares = (c * c).sum(axis=1)
    nearest = np.empty(len(points), dtype=np.int64)
    step = max(1, _BLOCK_CELLS // len(centres))
    for start in range(0, len(points), step):
        block = points[start : start + step] - origin
        nearest[start : start + step] = (squares - 2.0 * (block @ c.T)).argmin(axis=1)
    return nearest


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
