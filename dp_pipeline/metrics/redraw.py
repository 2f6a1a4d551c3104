"""How far noise moves a number made of a noisy table, judged by drawing the noise again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dp_pipeline.schema.encoding import FloatArray

REDRAWS = 200
"""New draws: a standard deviation of Laplace noise is then known to within √(5/800) = 8 %."""


def redraw_error(
    estimate: Callable[[FloatArray], float], believed: FloatArray, *, scale: float
) -> float:
    """Root mean squared error of ``estimate`` if ``believed`` were the true table.

    estimate   of a table with noise in every cell
    believed   the table that is left when the noise is taken off as well as can be
    scale      Laplace scale of the noise in one cell

    New noise is put on the believed table and the estimate compared with that without it, so
    spread and bias both count. What is not known is how far the believed table is from
    the true one: the error is right in size, not in its digits. Uses released values only.
    The draws are the same ones every time, so one table has one error.

    Source: the parametric bootstrap, Efron, Tibshirani, "An Introduction to the Bootstrap", 1993.

    >>> round(redraw_error(lambda table: float(table.sum()), np.array([50.0]), scale=2.0), 1)
    3.1
    """
    rng = np.random.default_rng(0)
    value = estimate(believed)
    noise = (rng.laplace(0.0, scale, believed.shape) for _ in range(REDRAWS))
    squares = [(estimate(believed + one) - value) ** 2 for one in noise]
    return float(np.sqrt(np.mean(squares)))
