"""Codes and coordinates of values by their declaration alone; what two coordinates are a place."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.encoding import (
    COORDINATE_BITS,
    INVALID,
    MAX_BOUND,
    Bins,
    Coordinate,
    Levels,
    _spelling,
    is_degrees,
    is_interval,
    metres_per_unit,
    normal_text,
    one_hot,
    point_of,
)

ONE = 1 << COORDINATE_BITS
fuzz = settings(max_examples=80)


@st.composite
def intervals(draw: st.DrawFn) -> tuple[float, float]:
    """Bounds that a declaration may have."""
    numbers = st.floats(-MAX_BOUND, MAX_BOUND) | st.integers(-100, 100).map(float)
    low, high = sorted((draw(numbers), draw(numbers)))
    assume(is_interval(low, high))
    return low, high


@st.composite
def with_values(draw: st.DrawFn) -> tuple[tuple[float, float], np.ndarray]:
    """Bounds, and values inside them in order, with both ends."""
    low, high = draw(intervals())
    inside = draw(st.lists(st.floats(low, high), max_size=8))
    return (low, high), np.array([low, *sorted(inside), high])


@st.composite
def bins(draw: st.DrawFn) -> Bins:
    """Equal or free cells between bounds."""
    low, high = draw(intervals())
    if draw(st.booleans()):
        equal = Bins.equal_width(low, high, draw(st.integers(1, 20)))
        assume(len(set(equal.edges)) == len(equal.edges))
        return equal
    inner = draw(st.lists(st.floats(low, high), max_size=6, unique=True))
    return Bins((low, *sorted(x for x in inner if low < x < high), high))


@fuzz
@given(values=st.lists(st.text(max_size=5), min_size=2, unique=True), other=st.text(max_size=5))
def test_the_code_of_a_level_is_its_position(values, other):
    # White space around a text and the way a number is spelt make no other level.
    forms = {_spelling(normal_text(value)) for value in values}
    assume(other in values or _spelling(normal_text(other)) not in forms)
    levels = Levels(tuple(values))
    codes = levels.encode(np.array([*values, other], dtype=object))
    assert codes[:-1].tolist() == list(range(levels.size))
    assert codes[-1] == (values.index(other) if other in values else INVALID)
    assert levels.encode(np.array([], dtype=object)).shape == (0,)
    assert levels.labels() == tuple(values)


@fuzz
@given(cells=bins(), shares=st.lists(st.floats(0, 1), max_size=8))
def test_a_value_has_the_code_of_its_half_open_cell(cells, shares):
    low, high = cells.edges[0], cells.edges[-1]
    values = np.array([*cells.edges, *(np.clip(low + s * (high - low), low, high) for s in shares)])
    codes = cells.encode(values)
    for value, code in zip(values, codes, strict=True):
        assert 0 <= code < cells.size
        assert cells.edges[code] <= value <= cells.edges[code + 1]
        assert value < cells.edges[code + 1] or (value == high and code == cells.size - 1)
    outside = [np.nextafter(low, -np.inf), np.nextafter(high, np.inf), -np.inf, np.inf, np.nan]
    assert (cells.encode(np.array(outside)) == INVALID).all()


@fuzz
@given(cells=bins())
def test_labels_have_edges_of_six_digits_or_exact_ones(cells):
    labels = cells.labels()
    assert len(labels) == len(set(labels)) == cells.size
    assert [label[-1] for label in labels] == [*")" * (cells.size - 1), "]"]
    ends = [label[1:-1].split(", ") for label in labels]
    assert all(float(low) < float(high) for low, high in ends)
    edges, texts = [f"{edge:g}" for edge in cells.edges], [*(low for low, _ in ends), ends[-1][1]]
    if len(set(edges)) == len(edges):
        assert texts == edges
    else:
        assert [float(text) for text in texts] == list(cells.edges)


@fuzz
@given(interval=intervals(), count=st.integers(1, 1000))
def test_bins_of_equal_width_end_exactly_at_the_bounds(interval, count):
    edges = Bins.equal_width(*interval, count).edges
    assert (edges[0], edges[-1], len(edges)) == (*interval, count + 1)
    for bounds in ((0.0, 0.0), (1.0, 0.0), (0.0, 1e16), (0.0, 1e-200), (1e15, 1e15 + 1024)):
        assert not is_interval(*bounds)


@fuzz
@given(case=with_values())
def test_coordinates_are_monotone_and_decoded_within_half_a_unit(case):
    (low, high), values = case
    coordinate = Coordinate(low, high)
    codes = coordinate.encode(values)
    assert codes.dtype == np.int64
    assert (np.diff(codes) >= 0).all()
    assert (codes[0], codes[-1]) == (-ONE, ONE)
    back = coordinate.decode(codes)
    # The last places of the value itself, where one unit is hardly more than that.
    rounding = 4 * np.spacing(max(abs(low), abs(high)))
    assert (np.abs(back - values) <= coordinate.half_width / ONE / 2 + rounding).all()
    assert ((back >= low) & (back <= high)).all()


@fuzz
@given(interval=intervals(), value=st.floats(allow_nan=False), far=st.floats(-1e9, 1e9))
def test_outside_the_box_means_on_its_edge(interval, value, far):
    low, high = interval
    coordinate = Coordinate(low, high)
    code = int(coordinate.encode(np.array([value]))[0])
    assert -ONE <= code <= ONE
    assert code == -ONE or value > low
    assert code == ONE or value < high
    assert low <= coordinate.decode(np.array([far]))[0] <= high


@fuzz
@given(codes=st.lists(st.integers(0, 6), max_size=9))
def test_a_one_hot_row_has_one_bit_at_its_code(codes):
    bits = one_hot(np.array(codes, dtype=np.int64), 7)
    assert bits.shape == (len(codes), 7)
    assert (bits.sum(axis=1) == 1).all()
    assert bits.argmax(axis=1).tolist() == codes


LON, LAT = Coordinate(8.4, 8.6), Coordinate(47.3, 47.5)


POINTS = [
    *((f"{y} {x}", (x, y)) for x, y in (("lon", "lat"), ("Longitude", "Latitude"), ("lng", "lat"))),
    *((f"{y} {x}", (x, y)) for x, y in (("x", "y"), ("easting", "northing"))),
    ("pickup_lat drop_lat drop_lon pickup_lon", ("drop_lon", "drop_lat")),
    ("lat_deg lon_deg fare", ("lon_deg", "lat_deg")),
    *((names, None) for names in ("pickup_lat drop_lon", "height width", "x1 x2")),
    *((names, None) for names in ("lat", "lat_lon lon_lat")),
]


@pytest.mark.parametrize(("names", "point"), POINTS)
def test_names_of_coordinates_say_what_runs_to_the_right(names, point):
    assert point_of(names.split()) == point
    # A declared point decides where both of it are there.
    assert point_of(["lat", "lon"], ("lat", "lon")) == ("lat", "lon")
    assert point_of(["lat", "lon"], ("easting", "northing")) == ("lon", "lat")


def test_a_degree_of_longitude_is_shorter_than_one_of_latitude():
    metres = metres_per_unit(("lon", "lat"), (LON, LAT))
    assert metres.y == pytest.approx(111_195, abs=1)
    assert metres.x == pytest.approx(75_265, abs=1)
    assert metres.x < metres.together < metres.y


EARTH = (Coordinate(-180, 180), Coordinate(-90, 90))
PLACE = ("lon", "lat")


NO_METRES = [
    (("x", "y"), (LON, LAT)),
    (PLACE, (Coordinate(0, 600_000), Coordinate(0, 200_000))),
    *((PLACE, (LON, Coordinate(*bounds))) for bounds in ((80, 89), (-90, -88), (41.5, 52.5))),
]


def test_a_high_box_has_no_metres_per_degree():
    for point, box in (*NO_METRES, (PLACE, EARTH)):
        assert metres_per_unit(point, box) is None
    # One as high as one length of a degree holds has.
    for bounds in ((42, 52), (-52, -42), (79, 81), (-25, 25)):
        assert metres_per_unit(PLACE, (LON, Coordinate(*bounds))) is not None
    assert is_degrees(PLACE, EARTH)
    assert not is_degrees(PLACE, (LON, Coordinate(0, 91)))
