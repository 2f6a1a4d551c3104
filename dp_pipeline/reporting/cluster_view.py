"""ClusterView: the two axes on which one clustering is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, radians

import numpy as np

from dp_pipeline.reporting.cluster_sizes import Tables, cluster_sizes
from dp_pipeline.schema.encoding import Coordinate, FloatArray
from dp_pipeline.schema.point import (
    MetresPerUnit,
    Point,
    is_degrees,
    metres_per_unit,
    point_of,
)

WIDEST_RATIO = 3.0
"""Sides within this ratio are drawn true to scale."""

_FLATTEST = 0.1
"""Near a pole no picture with straight axes is true."""


@dataclass(frozen=True)
class ClusterView:
    """The two columns that are a place, else those with the widest declared intervals, or the only
    one and an axis without meaning.

    name       heading of the panel
    columns    the one that runs to the right, then the one that runs upwards: those of
               ``point_of``, else in the order in which they were released
    centres    float (k, 2), data units
    sizes      float (k,), noisy rows of each centre, or None
    table      sides of the synopsis' boxes on both columns, and their weight; no rows without one
    is_strip   whether the second axis means nothing
    others     columns that are not shown
    degrees    whether the axes are longitude and latitude
    metres     metres a degree, or None where it is none, or not one for the whole box
    """

    name: str
    columns: tuple[str, str]
    centres: FloatArray
    sizes: FloatArray | None
    table: Mapping[str, np.ndarray]
    box: tuple[Coordinate, Coordinate]
    is_strip: bool
    others: int
    degrees: bool = False
    metres: MetresPerUnit | None = None

    @property
    def sides(self) -> tuple[float, float]:
        """Widths of the declared intervals."""
        return 2 * self.box[0].half_width, 2 * self.box[1].half_width

    @property
    def aspect(self) -> float:
        """Length of one unit upwards, in units to the right: degrees of longitude are shorter."""
        if not self.degrees:
            return 1.0
        return 1 / max(_FLATTEST, cos(radians(self.box[1].middle)))

    @property
    def ratio(self) -> float:
        """Height of the box beside its width, as it is."""
        return self.sides[1] * self.aspect / self.sides[0]

    @property
    def is_true_to_scale(self) -> bool:
        """Whether a step along one axis is as long as along the other."""
        return not self.is_strip and 1 / WIDEST_RATIO <= self.ratio <= WIDEST_RATIO

    @property
    def axes(self) -> tuple[object, ...]:
        """What two panels with the same axes have in common."""
        return self.columns, self.box, self.others

    @classmethod
    def of(
        cls,
        name: str,
        tables: Tables,
        box: Sequence[Coordinate],
        declared: Point | None = None,
    ) -> ClusterView:
        """The view of a clustering with any number of columns, at least one.

        tables     ``Clusters.tables()``
        box        declared interval of every column of ``centres``
        declared   ``point`` of the data set file
        """
        columns = tuple(tables["centres"])
        centres = np.stack(list(tables["centres"].values()), axis=1)
        sizes = cluster_sizes(tables)
        table = tables.get("synopsis", _no_boxes(columns))
        if len(columns) == 1:
            middle = np.column_stack([centres[:, 0], np.full(len(centres), 0.5)])
            intervals = (box[0], Coordinate(0.0, 1.0))
            strip = _strip(table)
            return cls(name, (columns[0], ""), middle, sizes, strip, intervals, True, 0)
        point = point_of(columns, declared)
        x, y = _widest(box) if point is None else map(columns.index, point)
        shown = (box[x], box[y])
        return cls(
            name=name,
            columns=(columns[x], columns[y]),
            centres=centres[:, [x, y]],
            sizes=sizes,
            table=table,
            box=shown,
            is_strip=False,
            others=len(columns) - 2,
            degrees=point is not None and is_degrees(point, shown),
            metres=None if point is None else metres_per_unit(point, shown),
        )


def _widest(box: Sequence[Coordinate]) -> tuple[int, int]:
    """The two columns with the widest intervals, in their order."""
    widest = sorted(range(len(box)), key=lambda axis: (-box[axis].half_width, axis))[:2]
    return min(widest), max(widest)


def _no_boxes(columns: tuple[str, ...]) -> dict[str, np.ndarray]:
    names = [f"{name}_{side}" for name in columns for side in ("lower", "upper")]
    return {name: np.zeros(0) for name in (*names, "weight")}


def _strip(table: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The table with a second axis on which every box is as high as the strip."""
    boxes = len(table["weight"])
    return {**table, "_lower": np.zeros(boxes), "_upper": np.ones(boxes)}
