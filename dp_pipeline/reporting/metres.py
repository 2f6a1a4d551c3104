"""Errors in metres where places are in degrees: one number more beside each NICV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import sqrt

from dp_pipeline.reporting.rows import QualityRow
from dp_pipeline.schema.point import metres_per_unit, point_of
from dp_pipeline.schema.spec import DatasetSpec

METRES = "rms_metres"
"""The metric: √NICV in metres."""


def metre_rows(
    spec: DatasetSpec, columns: Sequence[str], rows: Iterable[QualityRow]
) -> list[QualityRow]:
    """``rms_metres`` of every ``nicv``; none where ``columns`` are not a place in degrees alone, or
    their box is too high for one length of a degree.

    Approximate: as if errors along both axes were alike in degrees (``MetresPerUnit.together``).
    """
    point = point_of(columns, spec.point)
    if point is None or set(point) != set(columns):
        return []
    x, y = spec.domain.box(point)
    metres = metres_per_unit(point, (x, y))
    if metres is None:
        return []
    return [_in_metres(row, metres.together) for row in rows if row.metric == "nicv"]


def _in_metres(row: QualityRow, metres: float) -> QualityRow:
    root = sqrt(max(0.0, row.value))
    scale = row.scale
    if scale is not None:
        # To first order, which needs a value above its noise; below, the noise alone is left: the
        # root of a number that is 0 but for its noise.
        scale = scale / (2 * root) * metres if row.value > scale else sqrt(scale) * metres
    return replace(row, metric=METRES, value=root * metres, scale=scale, unit="metres")
