"""Which two attributes are a place, and how many metres a degree is."""

from __future__ import annotations

import pytest

from dp_pipeline.config.encoding import Coordinate, is_degrees, metres_per_unit, point_of

LON, LAT = Coordinate(8.4, 8.6), Coordinate(47.3, 47.5)


@pytest.mark.parametrize(
    ("columns", "point"),
    [
        (["lat", "lon"], ("lon", "lat")),
        (["Latitude", "Longitude"], ("Longitude", "Latitude")),
        (["lat", "lng"], ("lng", "lat")),
        (["y", "x"], ("x", "y")),
        (["northing", "easting"], ("easting", "northing")),
        (["pickup_lat", "drop_lat", "drop_lon", "pickup_lon"], ("drop_lon", "drop_lat")),
        (["lat_deg", "lon_deg", "fare"], ("lon_deg", "lat_deg")),
        (["pickup_lat", "drop_lon"], None),
        (["height", "width"], None),
        (["x1", "x2"], None),
        (["lat"], None),
        (["lat_lon", "lon_lat"], None),
    ],
)
def test_names_of_coordinates_say_what_runs_to_the_right(
    columns: list[str], point: tuple[str, str] | None
):
    assert point_of(columns) == point


def test_a_declared_point_decides_where_both_of_it_are_there():
    assert point_of(["lat", "lon"], ("lat", "lon")) == ("lat", "lon")
    assert point_of(["lat", "lon"], ("easting", "northing")) == ("lon", "lat")


def test_a_degree_of_longitude_is_shorter_than_one_of_latitude():
    metres = metres_per_unit(("lon", "lat"), (LON, LAT))
    assert metres is not None
    assert metres.y == pytest.approx(111_195, abs=1)
    assert metres.x == pytest.approx(75_265, abs=1)
    assert metres.x < metres.together < metres.y


@pytest.mark.parametrize(
    ("point", "box"),
    [
        (("x", "y"), (LON, LAT)),
        (("lon", "lat"), (Coordinate(0, 600_000), Coordinate(0, 200_000))),
        (("lon", "lat"), (Coordinate(-180, 180), Coordinate(-90, 90))),
        (("lon", "lat"), (LON, Coordinate(80, 89))),
        (("lon", "lat"), (LON, Coordinate(-90, -88))),
        (("lon", "lat"), (LON, Coordinate(41.5, 52.5))),
    ],
    ids=["no names of degrees", "bounds of metres", "the earth", "north", "the pole", "too high"],
)
def test_a_high_box_has_no_metres_per_degree(
    point: tuple[str, str], box: tuple[Coordinate, Coordinate]
):
    assert metres_per_unit(point, box) is None


def test_a_box_may_be_as_high_as_one_length_of_a_degree_holds():
    for latitude in (
        Coordinate(42, 52),
        Coordinate(-52, -42),
        Coordinate(79, 81),
        Coordinate(-25, 25),
    ):
        assert metres_per_unit(("lon", "lat"), (LON, latitude)) is not None


def test_bounds_of_all_the_earth_are_degrees():
    assert is_degrees(("lon", "lat"), (Coordinate(-180, 180), Coordinate(-90, 90)))
    assert not is_degrees(("lon", "lat"), (LON, Coordinate(0, 91)))
