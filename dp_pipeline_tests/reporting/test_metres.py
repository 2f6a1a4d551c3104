"""Noisy rows of centres, tables of them, and errors in metres."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.reporting.figures.cluster_view import (
    MOST_CENTRES,
    ClusterView,
    centre_table,
    cluster_sizes,
    dates_of,
    metre_rows,
)
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline_tests.reporting.samples import HALF, exact, spec, synopsis

LAT, LON = Coordinate(47.3, 47.5), Coordinate(8.4, 8.6)
TWO = {"centres": {"x": np.array([1.0, 3.0]), "y": np.array([2.0, 2.0])}}


def places(**intervals: Coordinate) -> DatasetSpec:
    attributes = tuple(Attribute(name, name, "clip", item) for name, item in intervals.items())
    return spec(domain=Domain(attributes))


def test_cluster_sizes_are_counted_or_weights_of_nearest_boxes():
    counted = {**TWO, "sizes": {"size": np.array([1234.0, -2.0])}}
    assert cluster_sizes({**counted, "synopsis": synopsis(1, 1, 1, 1)}).tolist() == [1234.0, -2.0]
    boxes = synopsis(6, 2, -5, 1)
    sizes = cluster_sizes({**TWO, "synopsis": boxes})
    assert sizes.sum() == pytest.approx(4)
    assert sizes[0] == pytest.approx(boxes["weight"][boxes["x_upper"] <= 2].sum())
    head, lines = centre_table(counted, most_columns=5)
    assert head == ["x", "y", "noisy rows"]
    assert lines == [["1", "2", "1,230"], ["3", "2", "-2"]]
    # A release without counts has no sizes.
    assert cluster_sizes(TWO) is None
    assert centre_table(TWO, most_columns=5) == (["x", "y"], [["1", "2"], ["3", "2"]])
    assert centre_table({}, most_columns=5) == ([], [])


def test_of_many_columns_and_centres_the_first_are_listed():
    columns = {f"x{index}": np.arange(30.0) for index in range(9)}
    many = {"centres": columns, "sizes": {"size": np.arange(30.0)}}
    head, lines = centre_table(many, most_columns=3)
    assert head == ["x0", "x1", "x2", "+ 6 columns", "noisy rows"]
    assert len(lines) == MOST_CENTRES + 1
    assert lines[4] == ["4", "4", "4", "…", "4"]
    assert lines[-1] == [f"+ {30 - MOST_CENTRES} centres", "…", "…", "…", "…"]


@pytest.mark.parametrize("columns", [("lat", "lon"), ("lon", "lat")])
def test_error_in_degrees_is_converted_to_metres(columns: Any):
    (row,) = metre_rows(places(lat=LAT, lon=LON), columns, [exact("m", HALF, 0.0001)])
    assert (row.metric, row.unit, row.scale) == ("rms_metres", "metres", None)
    # A hundredth of a degree: 1,112 m to the north, 753 m to the east.
    assert row.value == pytest.approx(949.5, abs=0.5)


@pytest.mark.parametrize(
    ("columns", "unit"), [(("x_m", "y_m"), "metres"), (("easting", "northing"), None)]
)
def test_error_in_metres_needs_both_names(columns: Any, unit: str | None):
    side = Coordinate(0.0, 5000.0)
    declared = places(**dict.fromkeys(columns, side))
    rows = [QualityRow("m", HALF, "nicv", 90_000.0, 600.0, "squared data units")]
    displayed = metre_rows(declared, columns, rows)
    assert [row.unit for row in displayed] == ([unit] if unit else [])
    assert [(row.value, row.scale) for row in displayed] == ([(300.0, 1.0)] if unit else [])


def test_the_noise_of_an_error_is_in_metres_too():
    rows = [
        QualityRow("m", HALF, "nicv", value, scale, "squared data units")
        for value, scale in ((0.0004, 0.00001), (0.0, 1e-6))
    ]
    row, nothing = metre_rows(places(lat=LAT, lon=LON), ("lat", "lon"), rows)
    step = (0.0004 + 0.00001) ** 0.5 - 0.0004**0.5
    assert row.scale == pytest.approx(step * 94_949, rel=0.02)
    assert nothing.value == 0
    assert nothing.scale == pytest.approx(0.001 * 94_949, rel=0.01)


def test_noise_in_metres_stays_finite():
    values = [-1e-4, 0.0, 1e-12, 1e-6, 0.99e-4, 1.01e-4, 2e-4, 1e-2]
    rows = [QualityRow("m", HALF, "nicv", value, 1e-4, "u") for value in values]
    scales = [row.scale for row in metre_rows(places(lat=LAT, lon=LON), ("lat", "lon"), rows)]
    # It falls with the value, by half where the first order begins to hold.
    assert scales == sorted(scales, reverse=True)
    assert len(scales) == len(values)
    assert max(scales) == pytest.approx(0.01 * 94_949, rel=0.01)
    assert scales[4] < 2.1 * scales[5]


@pytest.mark.parametrize(
    ("intervals", "columns"),
    [
        ({"x": LON, "y": LAT}, ("x", "y")),
        ({"lat": LAT, "lon": LON, "fare": LON}, ("lat", "lon", "fare")),
        ({"lat": Coordinate(-90, 90), "lon": Coordinate(-180, 180)}, ("lat", "lon")),
        ({"lat": LAT, "lon": LON}, ()),
    ],
    ids=["no degrees", "money among them", "the whole earth", "no centres"],
)
def test_what_is_no_place_in_degrees_has_no_error_in_metres(intervals: Any, columns: Any):
    assert metre_rows(places(**intervals), columns, [exact("m", Fraction(1), 0.5)]) == []
    other = [exact("m", HALF, 1.0, metric="nicv_ratio")]
    assert metre_rows(places(lat=LAT, lon=LON), ("lat", "lon"), other) == []


def test_centres_along_dates_are_written_as_dates():
    from matplotlib.figure import Figure

    from dp_pipeline.reporting.figures.cluster_map import _name_axes

    day = Attribute("x", "x", "clip", coordinate=Coordinate(20727, 20757), clock=Clock("date"))
    dates = dates_of(Domain((day,)))
    centres = {"x": np.array([20731.0, 20740.5]), "y": np.array([1.0, 2.0])}
    _, lines = centre_table({"centres": centres}, most_columns=5, dates=dates)
    assert lines == [["2026-10-05", "1"], ["2026-10-14", "2"]]
    box = (Coordinate(20727, 20757), Coordinate(0, 3))
    view = ClusterView.of("model", {"centres": centres}, box, None, dates)
    axes = Figure().subplots()
    _name_axes(axes, view, is_named=(True, True))
    displayed = [axes.xaxis.get_major_formatter()(tick, 0) for tick in axes.get_xticks()]
    assert all(text.startswith("2026-") and len(text) == 10 for text in displayed)
    assert 2 <= len(displayed) <= 8
