"""Which two attributes are a place: what runs right on a map and what up, and metres a degree.

Longitude runs to the right whatever the order of declaration. Nothing here changes what is
measured.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, radians, sqrt

from dp_pipeline.schema.encoding import Coordinate

Point = tuple[str, str]
"""The attribute that runs to the right, and the one that runs upwards."""

LONGITUDE, LATITUDE = frozenset({"longitude", "lon", "lng", "long"}), frozenset({"latitude", "lat"})
_RIGHT = LONGITUDE | {"x", "easting"}
_UP = LATITUDE | {"y", "northing"}

METRES_A_DEGREE = 111_195.0
"""One degree of latitude on a sphere of the Earth's mean radius, 6,371,009 m."""

TOLERANCE = 0.1
"""Part by which a degree of longitude may be longer or shorter at the edges of a box than in its
middle, for one length to stand for all of them: at 47° in a box 10° high, at 80° in one 2° high."""


@dataclass(frozen=True)
class MetresPerUnit:
    """How many metres a degree is inside one box: equirectangular, with the cosine of the latitude
    in its middle. Approximate: a sphere, and one length for all of the box.
    """

    x: float
    y: float

    @property
    def together(self) -> float:
        """For a distance of which only the length in degrees is known, as if its parts along both
        axes were alike: between those of the two axes, never more than y.

        >>> MetresPerUnit(3.0, 5.0).together ** 2
        17.0
        """
        return sqrt((self.x**2 + self.y**2) / 2)


def point_of(columns: Sequence[str], declared: Point | None = None) -> Point | None:
    """The place among the numeric ``columns`` of a release; None where nothing says which it is.

    declared   ``point`` of the data set file, which decides where both are there

    Else names decide: of coordinates, in any case, that differ in nothing else.

    >>> point_of(["lat", "lon"]), point_of(["pickup_lat", "fare", "pickup_lng"])
    (('lon', 'lat'), ('pickup_lng', 'pickup_lat'))
    >>> point_of(["height", "width"]) is None
    True
    """
    if declared is not None and set(declared) <= set(columns):
        return declared
    upward = {rest: name for name in reversed(columns) if (rest := _rest(name, _UP)) is not None}
    for name in columns:
        rest = _rest(name, _RIGHT)
        if rest is not None and rest in upward:
            return name, upward[rest]
    return None


def metres_per_unit(point: Point, box: tuple[Coordinate, Coordinate]) -> MetresPerUnit | None:
    """Of a place in degrees, by its names and bounds; None of others, and of a box at whose edges a
    degree of longitude differs by more than ``TOLERANCE`` from one in its middle.
    """
    if not is_degrees(point, box):
        return None
    lower, middle, upper = (
        cos(radians(latitude)) for latitude in (box[1].lower, box[1].middle, box[1].upper)
    )
    if max(abs(lower - middle), abs(upper - middle)) > TOLERANCE * middle:
        return None
    return MetresPerUnit(METRES_A_DEGREE * middle, METRES_A_DEGREE)


def is_degrees(point: Point, box: tuple[Coordinate, Coordinate]) -> bool:
    """Whether names say longitude and latitude, and the bounds may be theirs."""
    named = _rest(point[0], LONGITUDE) is not None and _rest(point[1], LATITUDE) is not None
    return named and all(
        -most <= interval.lower and interval.upper <= most
        for interval, most in zip(box, (360.0, 90.0), strict=True)
    )


def _rest(name: str, words: frozenset[str]) -> tuple[str, ...] | None:
    """What is left of a name without the word for its coordinate; None where it has not one."""
    parts = [one.lower() for one in re.split(r"[\W_]+", name) if one]
    found = [at for at, part in enumerate(parts) if part in words]
    return None if len(found) != 1 else (*parts[: found[0]], *parts[found[0] + 1 :])
