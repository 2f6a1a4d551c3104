"""ClusterView: the two axes on which one clustering is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dp_pipeline.schema.encoding import Coordinate, FloatArray

WIDEST_RATIO = 3.0
"""Sides within this ratio are drawn true to scale."""

Tables = Mapping[str, Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class ClusterView:
    """The two columns with the widest declared intervals, or the only one and an axis without
    meaning.

    name       heading of the panel
    columns    in the order in which they were released
    centres    float (k, 2), data units
    sizes      float (k,), noisy rows of each centre, or None
    table      sides of the synopsis' boxes on both columns, and their weight; no rows without one
    is_strip   whether the second axis means nothing
    others     columns that are not shown
    """

    name: str
    columns: tuple[str, str]
    centres: FloatArray
    sizes: FloatArray | None
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

    @property
    def axes(self) -> tuple[object, ...]:
        """What two panels with the same axes have in common."""
        return self.columns, self.box, self.others

    @classmethod
    def of(cls, name: str, tables: Tables, box: Sequence[Coordinate]) -> ClusterView:
        """The view of a clustering with any number of columns, at least one.

        tables   ``Clusters.tables()``
        box      declared interval of every column of ``centres``
        """
        columns = tuple(tables["centres"])
        centres = np.stack(list(tables["centres"].values()), axis=1)
        sizes = tables["sizes"]["size"] if "sizes" in tables else None
        table = tables.get("synopsis", _no_boxes(columns))
        if len(columns) == 1:
            middle = np.column_stack([centres[:, 0], np.full(len(centres), 0.5)])
            intervals = (box[0], Coordinate(0.0, 1.0))
            strip = _strip(table)
            return cls(name, (columns[0], ""), middle, sizes, strip, intervals, True, 0)
        widest = sorted(range(len(box)), key=lambda axis: (-box[axis].half_width, axis))[:2]
        x, y = sorted(widest)
        return cls(
            name=name,
            columns=(columns[x], columns[y]),
            centres=centres[:, [x, y]],
            sizes=sizes,
            table=table,
            box=(box[x], box[y]),
            is_strip=False,
            others=len(columns) - 2,
        )


def _no_boxes(columns: tuple[str, ...]) -> dict[str, np.ndarray]:
    names = [f"{name}_{side}" for name in columns for side in ("lower", "upper")]
    return {name: np.zeros(0) for name in (*names, "weight")}


def _strip(table: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The table with a second axis on which every box is as high as the strip."""
    boxes = len(table["weight"])
    return {**table, "_lower": np.zeros(boxes), "_upper": np.ones(boxes)}
