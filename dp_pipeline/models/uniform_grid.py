"""The noisy uniform grid of EUGkM: what the models that begin with one share."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dp_pipeline.gate.counts import MOST_GRID_CELLS
from dp_pipeline.gate.curator import Curator
from dp_pipeline.release.synopsis import Synopsis


def noisy_grid(
    curator: Curator, columns: tuple[str, ...], *, units: float, epsilon: Fraction
) -> Synopsis:
    """Boxes of a grid with as many cells as ``units`` rows at this ε deserve.

    *Proof.* All cells of the declared box are measured, empty ones included; one row is
    in one cell, so Δ1 = 1 under add/remove, times the reach: it costs ε. ∎
    """
    cells = cells_per_axis(units, float(epsilon), len(columns))
    grid = curator.measure_grid(columns, cells=cells, epsilon=epsilon)
    box = curator.domain.box(columns)
    return Synopsis.of_grid(grid.table.astype(np.float64), columns, box)


def cells_per_axis(units: float, epsilon: float, dimensions: int) -> int:
    """⌊M^{1/d}⌋ with M = (units·ε/10)^{2d/(2+d)}; at least 1, within the gate's cap.

    >>> cells_per_axis(100_000, 1.0, 2)
    100
    """
    wanted = (units * epsilon / 10) ** (2 / (2 + dimensions))
    most = MOST_GRID_CELLS ** (1 / dimensions)
    # A root that floats put a hair below a whole number is that number.
    return max(1, int(min(wanted, most) + 1e-9))
