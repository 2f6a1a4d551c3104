"""Tables of overlapping views without negative cells that agree on what they share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_pipeline.release.consistency import make_consistent
from dp_pipeline.release.measurement import NoisyMarginal
from dp_pipeline.release.ripple import ripple
from dp_pipeline.schema.encoding import FloatArray

Names = tuple[str, ...]

SETTLED = 1e-3
"""Negative cells that are left alone, in mean absolute deviations of the noise."""

ROUNDS = 3
"""Rippled tables disagree again, less and less."""


def view_tables(measured: Sequence[NoisyMarginal]) -> dict[Names, FloatArray]:
    """Cells ≥ 0 of one total for every view, nearly consistent; all 0 where no total is above 0.

    measured   views with noise of one scale, at least one

    Consistency and Ripple in turn (PriView: Qardaji, Yang, Li, SIGMOD 2014, Sections 4.4, 4.5).

    >>> from fractions import Fraction
    >>> tall = NoisyMarginal(("a", "b"), np.array([[9, 0], [1, -2]]), Fraction(2))
    >>> wide = NoisyMarginal(("b", "c"), np.array([[6, 4], [-2, 0]]), Fraction(2))
    >>> [round(float(table.min()), 3) for table in view_tables([tall, wide]).values()]
    [0.0, 0.0]
    """
    tables: dict[Names, FloatArray] = {
        one.attributes: one.table.astype(np.float64) for one in measured
    }
    tolerance = SETTLED * max(1.0, measured[0].deviation)
    for _ in range(ROUNDS):
        tables = {
            names: ripple(table, tolerance=tolerance)
            for names, table in make_consistent(tables).items()
        }
    return tables
