"""ClusterView: the two axes on which one clustering is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dp_pipeline.schema.encoding import Coordinate, FloatArray

WIDEST_RATIO = 3.0
"""Sides within this ratio are drawn true to scale."""


@dataclass(frozen=True)
class ClusterView:
    """The first two columns, or the only one and an axis without meaning.

    centres    float (k, 2), data units
    table      lower and upper sides of the boxes on both columns, and their weight
    is_strip   whether the second axis means nothing
    others     columns that are not shown
    """

    columns: tuple[str, str]
    centres: FloatArray
    table: Mapping[str, np.ndarray]
    box: tuple[Coordinate, Coordinate]
    is_strip: bool
    others: int

    @property
    def sides(self) -> tuple[float, float]:
        """Widths of the declared intervals."""
        return 2 * self.box[0].half_width, 2 * self.box[1].half_width

    @property
    def is_true_to_scale(self) -> bool:
        """Whether a step along one axis is as long as along the other."""
        return not self.is_strip and max(self.sides) <= WIDEST_RATIO * min(self.sides)

    @classmethod
    def of(
        cls,
        columns: Sequence[str],
        centres: FloatArray,
        table: Mapping[str, np.ndarray],
        box: Sequence[Coordinate],
    ) -> ClusterView:
        """The view of a release with any number of columns, at least one."""
        if len(columns) > 1:
            pair = (box[0], box[1])
            first, second, *rest = columns
            return cls((first, second), centres[:, :2], table, pair, False, len(rest))
        boxes = len(table["weight"])
        strip = {**table, "_lower": np.zeros(boxes), "_upper": np.ones(boxes)}
        middle = np.column_stack([centres[:, 0], np.full(len(centres), 0.5)])
        return cls((columns[0], ""), middle, strip, (box[0], Coordinate(0.0, 1.0)), True, 0)
