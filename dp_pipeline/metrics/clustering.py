"""How good released centres are for given points. Arrays in, numbers out."""

from __future__ import annotations

from dp_pipeline.schema.encoding import FloatArray
from dp_pipeline.schema.errors import DeclarationError

_BLOCK_CELLS = 1 << 20


def nicv(points: FloatArray, centres: FloatArray) -> float:
    """Normalised intra-cluster variance: the mean squared distance to the nearest centre.

    NICV = (1/N) Σ_i min_j ‖x_i − c_j‖², in squared units of the data.

    points    (N, d); NaN is returned for N = 0, where the mean is of nothing
    centres   (k, d) with k ≥ 1

    DeclarationError for shapes that do not fit. Source: Su, Cao, Li, Bertino,
    Jin, "Differentially Private k-Means Clustering", CODASPY 2016.

    >>> import numpy as np
    >>> nicv(np.array([[0.0, 0.0], [4.0, 3.0]]), np.array([[0.0, 0.0], [4.0, 2.0]]))
    0.5
    """
    if points.ndim != 2 or centres.ndim != 2 or points.shape[1] != centres.shape[1]:
        raise DeclarationError(
            f"nicv: expected points (N, d) and centres (k, d), got d of {points.shape[1:]} "
            f"and centres of {centres.shape}"
        )
    if len(centres) == 0:
        raise DeclarationError("nicv: expected at least one centre, got none")
    if len(points) == 0:
        return float("nan")
    step = max(1, _BLOCK_CELLS // len(centres))
    blocks = (points[start : start + step] for start in range(0, len(points), step))
    return sum(_squared_distances(block, centres) for block in blocks) / len(points)


def _squared_distances(points: FloatArray, centres: FloatArray) -> float:
    """Σ over points of the squared distance to the nearest centre."""
    # The expanded square is fast but loses digits far from zero: it only finds the nearest
    # centre, after moving the origin into the data; the distance itself is a difference.
    origin = centres.mean(axis=0)
    near, c = points - origin, centres - origin
    nearest = ((c * c).sum(axis=1) - 2.0 * (near @ c.T)).argmin(axis=1)
    return float(((near - c[nearest]) ** 2).sum())


def rcp(*, reference: float, candidate: float) -> float:
    """Relative clustering performance: by how many percent the candidate's NICV is lower.

    RCP = 100 · (NICV_reference − NICV_candidate) / NICV_reference; NaN where the
    reference is 0 or NaN. Source: Zhang, Cheng, "Differential privacy clustering
    based on dynamic spatial partition", 2021: reference EUGkM, candidate DPQTk-means.

    >>> rcp(reference=8.0, candidate=6.0)
    25.0
    """
    if not abs(reference) > 0:
        return float("nan")
    return 100.0 * (reference - candidate) / reference
