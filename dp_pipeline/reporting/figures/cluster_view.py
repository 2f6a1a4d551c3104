"""The view of one clustering on two axes, with noisy sizes of its centres and errors in metres."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import cos, radians, sqrt

import numpy as np

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import (
    Coordinate,
    FloatArray,
    MetresPerUnit,
    Point,
    is_degrees,
    metres_per_unit,
    point_of,
)
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.reporting.text import number_text
from dp_pipeline.results.clusters import Synopsis, Tables, row_count

METRES = "rms_metres"
"""The metric: √NICV in metres."""


def metre_rows(
    spec: DatasetSpec, columns: Sequence[str], rows: Iterable[QualityRow]
) -> list[QualityRow]:
    """Return new quality rows of metric ``rms_metres`` alone, one for each of metric ``nicv``; []
    unless the centres' columns are two coordinates of a place in metres or degrees.

    For degrees the metres are approximate, as if errors along both axes were alike
    (``MetresPerUnit.together``).

    columns   names of the centres' columns
    """
    point = point_of(columns, spec.point)
    if point is None or set(point) != set(columns):
        return []
    x, y = spec.domain.box(point)
    metres = metres_per_unit(point, (x, y))
    if metres is None:
        return []
    converted = []
    for row in rows:
        if row.metric == "nicv":
            root, scale = sqrt(max(0.0, row.value)), row.scale
            if scale is not None:
                # To first order, if the value is above its noise; else the root of the noise alone.
                scale = scale / (2 * root) if row.value > scale else sqrt(scale)
                scale *= metres.together
            value = root * metres.together
            converted.append(replace(row, metric=METRES, value=value, scale=scale, unit="metres"))
    return converted


def cluster_sizes(tables: Tables) -> FloatArray | None:
    """Return the noisy number of rows of each centre (k,), which may be negative: as the method
    counted them, else of the boxes nearest to it; None if neither is stored.

    tables   ``Clusters.tables()``"""
    if "sizes" in tables:
        return np.asarray(tables["sizes"]["size"], dtype=np.float64)
    if "synopsis" not in tables:
        return None
    centres = np.stack(list(tables["centres"].values()), axis=1)
    boxes = Synopsis.of_table(tuple(tables["centres"]), tables["synopsis"])
    return np.asarray(boxes.fractions_nearest(centres) @ boxes.weights)


def rows_text(size: float) -> str:
    """Return a noisy number of rows as text: an integer below 100, else three significant digits,
    with a power of ten from a million on.

    >>> rows_text(1234.5), rows_text(-3.7), rows_text(-0.2)
    ('1,230', '-4', '0')
    """
    return number_text(size) if abs(size) >= 100 else f"{round(size)}"


MOST_CENTRES = 10
SIZE = "noisy rows"
"""The heading of the last column."""


DateFormats = Mapping[str, Callable[[float], str]]
"""Column of dates → the function that writes its numbers as text."""


def dates_of(domain: Domain) -> DateFormats:
    """Return attribute of dates or times → the function that writes its numbers as text."""
    return {each.name: each.number_text for each in domain if each.clock is not None}


def centre_table(
    tables: Tables, *, most_columns: int, dates: DateFormats | None = None
) -> tuple[list[str], list[list[str]]]:
    """Return the head and the lines of a table, as texts, of the first ``MOST_CENTRES`` centres;
    both empty without centres.

    The last column has the centres' noisy rows where these are known. A last line says how many
    centres more there are.

    tables         ``Clusters.tables()``
    most_columns   most columns of a centre that are shown
    dates          formats of columns of dates
    """
    columns = tables.get("centres", {})
    names = list(columns)
    formats = [(dates or {}).get(name, lambda value: f"{value:.6g}") for name in names]
    texts = [
        list(map(show, values[:MOST_CENTRES].tolist()))
        for show, values in zip(formats, columns.values(), strict=True)
    ]
    lines = [list(row) for row in zip(*texts, strict=True)]
    hidden_count = len(names) - most_columns
    if hidden_count > 0:
        names = [*names[:most_columns], f"+ {hidden_count} columns"]
        lines = [[*line[:most_columns], "…"] for line in lines]
    sizes = cluster_sizes(tables) if lines else None
    if sizes is not None:
        names = [*names, SIZE]
        counts = map(rows_text, sizes.tolist())
        lines = [[*line, size] for line, size in zip(lines, counts, strict=False)]
    hidden_count = row_count(columns) - len(lines)
    if hidden_count:
        lines.append([f"+ {hidden_count} centres", *["…"] * (len(names) - 1)])
    return names, lines


WIDEST_RATIO = 3.0
"""Ratio of the sides up to which a map is drawn true to scale."""

_FLATTEST = 0.1
"""Length of a degree of longitude in degrees of latitude, at least: near a pole no map is true."""


@dataclass(frozen=True)
class ClusterView:
    """The two columns on which a clustering is drawn, and their ranges.

    name             heading of the panel
    columns          horizontal, then vertical; the vertical one is empty in a strip
    centres          (k, 2) in data units
    sizes            (k,) noisy rows of each centre; None if unknown
    table            ``Synopsis.table()``, without boxes if there is no synopsis
    box              declared intervals of both columns
    is_strip         whether there is one column only, so that the second axis has no meaning
    hidden_columns   number of columns that are not shown
    degrees          whether the axes are longitude and latitude in degrees
    metres           metres in a unit of either axis; None where the names of the columns imply no
                     unit, or where it differs inside the box
    dates            formats of columns of dates
    """

    name: str
    columns: tuple[str, str]
    centres: FloatArray
    sizes: FloatArray | None
    table: Mapping[str, np.ndarray]
    box: tuple[Coordinate, Coordinate]
    is_strip: bool
    hidden_columns: int
    degrees: bool = False
    metres: MetresPerUnit | None = None
    dates: DateFormats = field(default_factory=dict)

    @property
    def sides(self) -> tuple[float, float]:
        """The lengths of the declared intervals of both columns, in data units."""
        return 2 * self.box[0].half_width, 2 * self.box[1].half_width

    @property
    def aspect(self) -> float:
        """The true length of a vertical unit in horizontal ones: for degrees that of a degree of
        latitude in degrees of longitude, at least 1; else 1."""
        if not self.degrees:
            return 1.0
        return 1 / max(_FLATTEST, cos(radians(self.box[1].middle)))

    @property
    def ratio(self) -> float:
        """The true height of the box divided by its width."""
        return self.sides[1] * self.aspect / self.sides[0]

    @property
    def is_true_to_scale(self) -> bool:
        """Whether both axes are drawn at the same scale: not for a strip, nor for a box that is
        more than ``WIDEST_RATIO`` times as long as wide."""
        return not self.is_strip and 1 / WIDEST_RATIO <= self.ratio <= WIDEST_RATIO

    @property
    def axes(self) -> tuple[object, ...]:
        """A key for comparing views: equal for those with the same axes."""
        return self.columns, self.box, self.hidden_columns

    @classmethod
    def of(
        cls,
        name: str,
        tables: Tables,
        box: Sequence[Coordinate],
        declared: Point | None = None,
        dates: DateFormats | None = None,
    ) -> ClusterView:
        """Return the view of a clustering on two of its columns, or as a strip on a single one.

        They are the coordinates of a place, such as longitude and latitude, if it has these, else
        the two columns with the longest declared intervals.

        name       heading of the panel
        tables     ``Clusters.tables()``
        box        declared interval of every column of the centres
        declared   names of the two coordinates of a place, ``point`` of the data set file, or None
        dates      formats of columns of dates
        """
        dates = dates or {}
        columns = tuple(tables["centres"])
        centres = np.stack(list(tables["centres"].values()), axis=1)
        sizes = cluster_sizes(tables)
        sides = [f"{name}_{side}" for name in columns for side in ("lower", "upper")]
        table = tables.get("synopsis", dict.fromkeys([*sides, "weight"], np.zeros(0)))
        if len(columns) == 1:
            middle = np.column_stack([centres[:, 0], np.full(len(centres), 0.5)])
            intervals = (box[0], Coordinate(0.0, 1.0))
            boxes = len(table["weight"])
            strip = {**table, "_lower": np.zeros(boxes), "_upper": np.ones(boxes)}
            return cls(
                name, (columns[0], ""), middle, sizes, strip, intervals, True, 0, dates=dates
            )
        point = point_of(columns, declared)
        widest = sorted(range(len(box)), key=lambda axis: (-box[axis].half_width, axis))[:2]
        x, y = sorted(widest) if point is None else map(columns.index, point)
        intervals = (box[x], box[y])
        return cls(
            name=name,
            columns=(columns[x], columns[y]),
            centres=centres[:, [x, y]],
            sizes=sizes,
            table=table,
            box=intervals,
            is_strip=False,
            hidden_columns=len(columns) - 2,
            degrees=point is not None and is_degrees(point, intervals),
            metres=None if point is None else metres_per_unit(point, intervals),
            dates=dates,
        )
