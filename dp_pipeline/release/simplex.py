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


def project_rows(table: FloatArray, totals: FloatArray) -> FloatArray:
    """Each row of ``table`` (g, m) onto {x ≥ 0, Σx = its total}; totals (g,) ≥ 0.

    >>> project_rows(np.array([[3.0, 1.0], [1.0, -2.0]]), np.array([2.0, 0.0])).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    below = table - table.max(axis=1, keepdims=True)
    values = -np.sort(-below, axis=1)
    surplus = (np.cumsum(values, axis=1) - totals[:, None]) / np.arange(1, table.shape[1] + 1)
    # With a total above 0 the largest cell always stays; with 0 none does.
    kept = np.maximum((values > surplus).sum(axis=1) - 1, 0)
    return np.asarray(np.maximum(below - surplus[np.arange(len(table)), kept, None], 0.0))
