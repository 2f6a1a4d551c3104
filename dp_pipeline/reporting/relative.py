"""Numbers that need two models: how much better than another one a model is."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dp_pipeline.metrics.clustering import rcp
from dp_pipeline.reporting.rows import QualityRow, pivot

REFERENCE = "eug_kmeans"
"""The model that RCP compares with."""


def relative_rows(rows: Iterable[QualityRow]) -> tuple[QualityRow, ...]:
    """``rcp`` of every other clustering model, at every ε at which EUGkM was evaluated too.

    Of exact numbers only. Bought ones hold noise that a quotient would hide, and each
    is clipped at a distance of its own model's: both NICVs, each with its noise, say more.
    """
    table = pivot([row for row in rows if row.scale is None], "nicv")
    found = []
    for (model, epsilon), cell in table.cells.items():
        against = [row.value for row in table.cells.get((REFERENCE, epsilon), ())]
        if model != REFERENCE and against:
            reference = float(np.mean(against))
            values = [rcp(reference=reference, candidate=row.value) for row in cell]
            found += [QualityRow(model, epsilon, "rcp", one, None, "percent") for one in values]
    return tuple(found)
