"""Encodings of values as cell codes and fixed-point coordinates, by declared levels and bounds;
and the two attributes of a place on a map.

No encoding is fitted, since one that looked at the rows would release them. Invalid values get
``INVALID``: ``raw.prepare`` clips, renames or drops them.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import cos, radians, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Names = tuple[str, ...]
"""Names of attributes, in the order of a table's axes."""
Codes = Mapping[str, NDArray[Any]]
"""Attribute → codes (rows,), integers below the attribute's size."""

COORDINATE_BITS = 16
"""Coordinates are integers in [−2^16, 2^16], in units of half-width / 2^16."""

MAX_BOUND = 1e15
SMALLEST_WIDTH = 1e-100
MAX_CELLS = 65_536

INVALID = -1
"""The code of a value outside the declared levels or bounds."""


def code_type(sizes: Iterable[int]) -> np.dtype[np.signedinteger]:
    """Return the smallest signed integer type that holds −1 and every code below the sizes.

    >>> [code_type([2, size]).name for size in (128, 129, MAX_CELLS)]
    ['int8', 'int16', 'int32']
    """
    return np.min_scalar_type(-max(sizes, default=1))


@dataclass(frozen=True)
class Levels:
    """The declared levels of a nominal attribute, where the code of a level is its position.

    >>> Levels(("no", "yes")).encode(np.array(["yes", "maybe"], dtype=object))
    array([ 1, -1])
    """

    values: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.values)

    @cached_property
    def _codes(self) -> dict[str, int]:
        exact = {value: code for code, value in enumerate(self.values)}
        texts = {normal_text(value): code for value, code in reversed(exact.items())}
        spelt = {_spelling(text): code for text, code in texts.items()} | texts
        if exact.keys() <= {"0", "1"}:
            # A column of truth values is one of zeros and ones.
            spelt |= {_TRUTHS[text]: code for text, code in exact.items()}
        elif {text.lower() for text in exact} <= {*_TRUTHS.values()}:
            truths = {text.lower(): code for text, code in exact.items()}
            spelt |= {text: truths[word] for text, word in _TRUTHS.items() if word in truths}
        return spelt | exact

    def encode(self, texts: NDArray[np.object_]) -> IntArray:
        """Return the codes of ``texts`` (n,); ``INVALID`` for None, and a text that is no level.

        Other spellings of a level have its code, such as 16.0 for 16, or True for true.
        """
        # Computed for no texts too: a pickle must not show whether there were rows.
        codes_of_levels = self._codes
        codes = (
            INVALID
            if text is None
            else codes_of_levels.get(text, codes_of_levels.get(_spelling(text), INVALID))
            for text in texts
        )
        return np.fromiter(codes, dtype=np.int64, count=len(texts))

    def labels(self) -> tuple[str, ...]:
        return self.values


_WHOLE = re.compile(r"([-+]?[0-9]+)\.0+", re.ASCII)
_TRUTHS = {"0": "false", "1": "true"}


def normal_text(text: str) -> str:
    """Return a text for comparison: without white space around it, in Unicode form NFC.

    >>> normal_text(" e\u0301 ") == "\u00e9"
    True
    """
    text = text.strip()
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def number_of(text: str) -> int | float | None:
    """Return the finite number that a text spells, exact for integers; None for any other text.

    >>> number_of("01"), number_of("1.10"), number_of("no")
    (1, 1.1, None)
    """
    try:
        number = int(text) if text.lstrip("+-").isdigit() else float(text)
        is_number = math.isfinite(number) and "_" not in text
    except (ValueError, OverflowError):
        # OverflowError: an integer of more than 308 digits.
        return None
    if not is_number:
        return None
    return int(number) if number == int(number) else number


def _spelling(text: str) -> str:
    """Return the common form of equal values, such as 16.0 and 16, or True and true."""
    match = _WHOLE.fullmatch(text)
    if match is not None:
        return match[1]
    return text.lower() if text in ("True", "TRUE", "False", "FALSE") else text


@dataclass(frozen=True)
class Bins:
    """Half-open bins [edge_i, edge_i+1) of a number; the last one includes its upper edge.

    edges   strictly increasing, from the lower to the upper bound
    """

    edges: tuple[float, ...]

    @classmethod
    def equal_width(cls, lower: float, upper: float, count: int) -> Self:
        """Return ``count`` bins of equal width between the declared bounds.

        >>> Bins.equal_width(0.0, 1.0, 4).edges
        (0.0, 0.25, 0.5, 0.75, 1.0)
        """
        return cls(tuple(float(edge) for edge in np.linspace(lower, upper, count + 1)))

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    def encode(self, values: FloatArray) -> IntArray:
        """Return the codes of ``values`` (n,); ``INVALID`` for NaN and outside the bounds."""
        codes = np.searchsorted(np.asarray(self.edges), values, side="right") - 1
        codes = np.where(values == self.edges[-1], self.size - 1, codes)
        inside = (values >= self.edges[0]) & (values <= self.edges[-1])
        return np.where(inside, codes, INVALID).astype(np.int64)

    def labels(self) -> tuple[str, ...]:
        """Return the intervals of the bins as texts, with six digits, or all digits if needed.

        >>> Bins((0.0, 1 / 3, 1.0)).labels()
        ('[0, 0.333333)', '[0.333333, 1]')
        >>> Bins((20200100.0, 20200101.0, 20200102.5)).labels()
        ('[20200100.0, 20200101.0)', '[20200101.0, 20200102.5]')
        """
        edges = [f"{edge:g}" for edge in self.edges]
        if len(set(edges)) < len(edges):
            edges = [repr(float(edge)) for edge in self.edges]
        return interval_labels(edges)


def interval_labels(edges: Sequence[str]) -> tuple[str, ...]:
    """Return the half-open intervals between edges as texts; the last interval is closed.

    >>> interval_labels(["0", "1", "2"])
    ('[0, 1)', '[1, 2]')
    """
    cells = [f"[{low}, {high})" for low, high in pairwise(edges)]
    return (*cells[:-1], f"{cells[-1][:-1]}]")


@dataclass(frozen=True)
class Coordinate:
    """The encoding of numbers between bounds as fixed-point integers.

    q = clamp(rint((x − mid) / half_width · 2^16), −2^16, 2^16)
    """

    lower: float
    upper: float

    @property
    def middle(self) -> float:
        """The centre of the declared interval, in data units."""
        return self.lower + (self.upper - self.lower) / 2

    @property
    def half_width(self) -> float:
        """Half the width of the declared interval, in data units, which is encoded as 2^16."""
        return (self.upper - self.lower) / 2

    def encode(self, values: FloatArray) -> IntArray:
        """Return finite ``values`` as integers in [−2^16, 2^16], clipped to the bounds.

        >>> Coordinate(0.0, 10.0).encode(np.array([0.0, 5.0, 7.5, 99.0]))
        array([-65536,      0,  32768,  65536])
        """
        unit = float(1 << COORDINATE_BITS)
        clipped = np.clip(values, self.lower, self.upper)
        scaled = np.rint((clipped - self.middle) / self.half_width * unit)
        return np.clip(scaled, -unit, unit).astype(np.int64)

    def decode(self, coordinates: NDArray[np.float64] | IntArray) -> FloatArray:
        """Return fixed-point ``coordinates`` in data units, clipped to the bounds."""
        values = self.middle + coordinates / float(1 << COORDINATE_BITS) * self.half_width
        return np.clip(values, self.lower, self.upper)


def is_interval(lower: float, upper: float) -> bool:
    """Return whether bounds are ascending, within ±1e15, and at least 2^17 floats apart.

    Between narrower ones a coordinate would move values from the middle to the ends.

    >>> is_interval(0.0, 1.0), is_interval(1.0, 0.0), is_interval(1e15, 1e15 + 1)
    (True, False, False)
    """
    largest = max(abs(lower), abs(upper))
    if not largest <= MAX_BOUND:
        return False
    finest = float(np.spacing(largest)) * (1 << (COORDINATE_BITS + 1))
    return upper - lower >= max(finest, SMALLEST_WIDTH)


def one_hot(codes: IntArray, size: int) -> NDArray[np.uint8]:
    """Return codes 0..size−1 as a bit matrix (n, size), with a single 1 in each row.

    >>> one_hot(np.array([1, 0]), 2).tolist()
    [[0, 1], [1, 0]]
    """
    bits = np.zeros((len(codes), size), dtype=np.uint8)
    bits[np.arange(len(codes)), codes] = 1
    return bits


Point = tuple[str, str]
"""The attributes of a map's axes, to the right and upwards."""

LONGITUDE, LATITUDE = frozenset({"longitude", "lon", "lng", "long"}), frozenset({"latitude", "lat"})
_RIGHT = LONGITUDE | {"x", "easting"}
_UP = LATITUDE | {"y", "northing"}

_METRES = frozenset({"m", "metre", "metres", "meter", "meters"})
"""Words in names that give metres as the unit, as in x_m; an easting alone may be in feet."""

METRES_PER_DEGREE = 111_195.0
"""One degree of latitude on a sphere of the Earth's mean radius, 6,371,009 m."""

TOLERANCE = 0.1
"""Share by which a degree of longitude may differ between edges and middle of a box: reached at 47°
in a box 10° high, at 80° in one 2° high."""


@dataclass(frozen=True)
class MetresPerUnit:
    """The length in metres of one unit along each axis of a map.

    For degrees it is an approximation: equirectangular on a sphere, with the cosine of the latitude
    in the middle of the box.
    """

    x: float
    y: float

    @property
    def together(self) -> float:
        """The length in metres of one unit of distance, the root mean square of both axes.

        >>> MetresPerUnit(3.0, 5.0).together ** 2
        17.0
        """
        return sqrt((self.x**2 + self.y**2) / 2)


def point_of(columns: Sequence[str], declared: Point | None = None) -> Point | None:
    """Return the columns (to the right, upwards) of the coordinates of a place, or None.

    columns    names of numeric columns
    declared   ``point`` of the data set file, which is returned if the columns have both

    Else it is a pair of names that differ only in the words for coordinates.

    >>> point_of(["lat", "lon"]), point_of(["pickup_lat", "fare", "pickup_lng"])
    (('lon', 'lat'), ('pickup_lng', 'pickup_lat'))
    >>> point_of(["height", "width"]) is None
    True
    """
    if declared is not None and set(declared) <= set(columns):
        return declared
    upward = {stem: name for name in reversed(columns) if (stem := _stem(name, _UP)) is not None}
    for name in columns:
        stem = _stem(name, _RIGHT)
        if stem is not None and stem in upward:
            return name, upward[stem]
    return None


def metres_per_unit(point: Point, box: tuple[Coordinate, Coordinate]) -> MetresPerUnit | None:
    """Return the length in metres of one unit along each axis of a map; None if it is unknown.

    Also None for a box at whose edges a degree of longitude differs by more than ``TOLERANCE``.

    >>> box = (Coordinate(0.0, 900.0), Coordinate(0.0, 900.0))
    >>> metres_per_unit(("x_m", "y_m"), box), metres_per_unit(("x", "y"), box)
    (MetresPerUnit(x=1.0, y=1.0), None)
    """
    if is_metres(point):
        return MetresPerUnit(1.0, 1.0)
    if not is_degrees(point, box):
        return None
    latitudes = (box[1].lower, box[1].middle, box[1].upper)
    lower, middle, upper = (cos(radians(latitude)) for latitude in latitudes)
    if max(abs(lower - middle), abs(upper - middle)) > TOLERANCE * middle:
        return None
    return MetresPerUnit(METRES_PER_DEGREE * middle, METRES_PER_DEGREE)


def is_metres(point: Point) -> bool:
    """Return whether the names of both axes contain a word for metres, as in x_m."""
    return all(not _METRES.isdisjoint(_words(name)) for name in point)


def is_degrees(point: Point, box: tuple[Coordinate, Coordinate]) -> bool:
    """Return whether the axes are longitude and latitude, judged by their names and bounds."""
    has_names = _stem(point[0], LONGITUDE) is not None and _stem(point[1], LATITUDE) is not None
    ends = [max(-interval.lower, interval.upper) for interval in box]
    return has_names and ends[0] <= 360 and ends[1] <= 90


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.split(r"[\W_]+", name) if word]


def _stem(name: str, words: frozenset[str]) -> tuple[str, ...] | None:
    """Return a name's words but the one that is in ``words``; None unless exactly one is."""
    parts = _words(name)
    positions = [index for index, part in enumerate(parts) if part in words]
    return None if len(positions) != 1 else (*parts[: positions[0]], *parts[positions[0] + 1 :])
