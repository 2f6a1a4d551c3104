"""The nearest table without negative cells and with a given total."""

from __future__ import annotations

import numpy as np

from dp_pipeline.schema.encoding import FloatArray, IntArray


def project_to_simplex(table: FloatArray | IntArray, total: float = 1.0) -> FloatArray:
    """Euclidean projection of ``table`` onto {x ≥ 0, Σx = total}, of the same shape;
    total > 0.

    A noisy table keeps its large cells' differences and loses its small cells' noise.

    >>> project_to_simplex(np.array([3.0, 1.0, -2.0]), total=2.0).tolist()
    [2.0, 0.0, 0.0]
    """
    # A constant on all cells changes nothing; below the largest, sums of huge cells stay exact.
    below = table.astype(np.float64) - float(table.max())
    values = np.sort(below.ravel())[::-1]
    surplus = (np.cumsum(values) - total) / np.arange(1, values.size + 1)
    kept = np.nonzero(values > surplus)[0][-1]
    return np.asarray(np.maximum(below - surplus[kept], 0.0))
