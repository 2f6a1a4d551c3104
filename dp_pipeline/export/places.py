"""Released places as GeoJSON (RFC 7946): centres as points, the boxes of a map as polygons.

GeoJSON knows degrees of longitude and latitude alone. Where the columns are anything else, such as
kilometres, there is none: a file that every program would draw somewhere in the Gulf of Guinea says
something wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dp_pipeline.release.long_columns import Columns
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.encoding import Point, is_degrees, point_of

CENTRES, MAP = "centres", "synopsis"
"""The tables of a clustering that are places."""


def place_of(spec: DatasetSpec, tables: Mapping[str, Columns]) -> Point | None:
    """The columns of longitude and latitude; None where the released columns are no such place."""
    point = point_of(tuple(tables.get(CENTRES, ())), spec.point)
    if point is None:
        return None
    x, y = spec.domain.box(point)
    return point if is_degrees(point, (x, y)) else None


def geojson(name: str, table: Columns, place: Point) -> bytes:
    """The table ``centres`` or ``synopsis`` as a collection of features, one a row, in its order.

    Columns that are not the place are their properties.
    """
    shape, own = (_point, set(place)) if name == CENTRES else (_box, _sides(place))
    others = [column for column in table if column not in own]
    collection = {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "geometry": shape({column: row[column] for column in own}, place),
                "properties": {column: row[column] for column in others},
            }
            for row in _rows(table)
        ],
    }
    return f"{json.dumps(collection, ensure_ascii=False, allow_nan=False)}\n".encode()


def _rows(table: Columns) -> Iterator[dict[str, float]]:
    columns = [np.asarray(values).tolist() for values in table.values()]
    for row in zip(*columns, strict=True):
        yield dict(zip(table, row, strict=True))


def _point(row: Mapping[str, float], place: Point) -> dict[str, Any]:
    return {"type": "Point", "coordinates": [row[column] for column in place]}


def _sides(place: Sequence[str]) -> set[str]:
    return {f"{column}_{side}" for column in place for side in ("lower", "upper")}


def _box(row: Mapping[str, float], place: Point) -> dict[str, Any]:
    """Its corners against the clock, and the first one again."""
    x, y = place
    west, east = row[f"{x}_lower"], row[f"{x}_upper"]
    south, north = row[f"{y}_lower"], row[f"{y}_upper"]
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}
