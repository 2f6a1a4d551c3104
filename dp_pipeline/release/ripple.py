"""Ripple: negative cells are paid for by their neighbours, so a table's marginals stay near."""

from __future__ import annotations

import numpy as np

from dp_pipeline.schema.encoding import FloatArray, IntArray

SWEEPS = 1000
"""Most of them: the negative part shrinks geometrically, but slowly where little is above 0."""


def ripple(table: FloatArray | IntArray, *, tolerance: float = 1e-3) -> FloatArray:
    """A table ≥ 0 of the same shape and total; all 0 where the total is not above 0.

    tolerance   in rows: cells above −tolerance count as settled and are cut at 0 in the end,
                where the others are scaled back to the total

    Every negative cell becomes 0 and takes what it lacked from its neighbours, the cells that
    differ from it in one attribute, in equal parts; all negative cells at once, until none is
    left (PriView: Qardaji, Yang, Li, SIGMOD 2014; there attributes are binary, and a cell of ℓ
    attributes has ℓ neighbours). Unlike a projection to the simplex it moves
    counts along the table's axes, which leaves marginals alone as far as it can.

    >>> ripple(np.array([[-2.0, 5.0], [5.0, 9.0]])).tolist()
    [[0.0, 4.0], [4.0, 9.0]]
    """
    total = float(table.sum())
    if total <= 0:
        return np.zeros(table.shape)
    cells = table.astype(np.float64)
    neighbours = sum(size - 1 for size in table.shape)
    for _ in range(SWEEPS):
        lacking = np.minimum(cells, 0.0)
        if lacking.min() > -tolerance:
            break
        share = lacking / neighbours
        cells -= lacking
        for axis in range(cells.ndim):
            cells += share.sum(axis=axis, keepdims=True) - share
    settled = np.maximum(cells, 0.0)
    return np.asarray(settled * (total / settled.sum()))
