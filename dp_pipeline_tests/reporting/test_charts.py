"""Charts: valid, small, and different for different data."""

import io
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any
from xml.etree.ElementTree import fromstring

import matplotlib as mpl
import matplotlib.image
import numpy as np
import pytest

from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.reporting.figures.cluster_map import (
    MOST_EDGES,
    MOST_NUMBERS,
    Density,
    _draw_scale,
    cluster_maps,
)
from dp_pipeline.reporting.figures.cluster_view import ClusterView
from dp_pipeline.reporting.figures.curves import utility_footnote, utility_panels
from dp_pipeline.reporting.figures.lines import (
    HorizontalAxis,
    Line,
    Panel,
    Point,
    VerticalAxis,
    line_chart,
)
from dp_pipeline.reporting.figures.marginals import (
    MOST_LEVELS,
    MOST_PANELS,
    _select_levels,
    marginal_bars,
)
from dp_pipeline.reporting.figures.model_graph import model_graph
from dp_pipeline.reporting.figures.picture import MOST_BYTES, WIDTH, Picture, encode_png
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline_tests.reporting.samples import (
    HALF,
    ONE,
    SQUARE,
    TEN,
    bought,
    cliques,
    exact,
    marginals,
    synopsis,
)

pytestmark = pytest.mark.chain

CENTRES = np.array([[1.0, 1.0], [3.0, 3.0]])


def pixels(picture: Picture | bytes) -> np.ndarray:
    png = picture.png if isinstance(picture, Picture) else picture
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(png) < MOST_BYTES
    return matplotlib.image.imread(io.BytesIO(png))


def ink(picture: Picture) -> float:
    """How far a picture is from white paper."""
    return float((1 - pixels(picture)[:, :, :3]).mean())


def line_styles(*pictures: Picture) -> int:
    """How many pictures look different."""
    return len({picture.svg for picture in pictures})


def utility(rows: Sequence[QualityRow], *metrics: str, title: str = "t") -> Picture:
    panels = utility_panels(rows, metrics or ["nicv"])
    return line_chart(panels, title=title, footnote=utility_footnote(rows))


def view_of(
    centres: np.ndarray,
    *,
    boxes=None,
    sizes=None,
    box=SQUARE,
    name: str = "model",
    columns: Sequence[str] = "xyzuvw",
    point: tuple[str, str] | None = None,
) -> ClusterView:
    tables = {"centres": dict(zip(columns, centres.T, strict=False))}
    tables |= {} if boxes is None else {"synopsis": boxes}
    tables |= {} if sizes is None else {"sizes": {"size": np.array(sizes)}}
    return ClusterView.of(name, tables, box, point)


def axes_of(view: ClusterView) -> Any:
    """The axes of the map of one view."""
    return cluster_maps([view], title="t").figure.axes[0]


def texts_of(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def a_map(*weights: float, centres: np.ndarray = CENTRES) -> Picture:
    return cluster_maps([view_of(centres, boxes=synopsis(*weights))], title="map")


def density_of(table: dict[str, np.ndarray]) -> Density:
    return Density.of_synopsis(("x", "y"), table, SQUARE)


def test_a_plot_shows_its_rows_of_its_metric_alone():
    flat = [exact("a", HALF, 1.0), exact("a", TEN, 1.0)]
    steep = [exact("a", HALF, 1.0), exact("a", TEN, 0.2)]
    noisy = [bought("a", HALF, 1.0, 0.2), bought("a", TEN, 1.0, 0.2)]
    plots = [utility(rows) for rows in (flat, steep, noisy)]
    assert len({pixels(plot).shape for plot in plots}) == 1
    assert line_styles(*plots) == 3
    both = [*flat, exact("a", HALF, 9.0, metric="avd_2")]
    assert line_styles(plots[0], utility(both)) == 1


def test_line_names_stand_inside_the_picture():
    names = [f"{letter}_model_with_a_very_long_name" for letter in "acd"]
    rows = [exact(name, item, 1.0) for name in names for item in (HALF, TEN)]
    rows += [bought("b", item, 1.0, 0.1) for item in (HALF, TEN)]  # with the longest footnote
    for metrics in ((), ("nicv", "nicv")):
        displayed = pixels(utility(rows, *metrics))[:, :, :3]
        assert displayed.shape[1] <= 900
        assert (displayed[:, -3:] == 1).all()


EPSILONS, CLOSE = (HALF, TEN, Fraction(10**6)), (HALF, Fraction("0.51"))
AWKWARD: dict[str, list[QualityRow]] = {
    "empty": [],
    "not a number": [exact("a", ONE, math.nan)],
    "zero": [exact("a", ONE, 0.0)],
    "all noise": [bought("a", Fraction(1, 3), 1e-9, 1e9)],
    "log": [exact("a", epsilon, float(10 / epsilon)) for epsilon in EPSILONS],
    "thirty models": [exact(f"m{i}", e, 1.0 + i) for i in range(30) for e in CLOSE],
    "another model each": [exact("a", ONE, 0.0, "avd_2"), bought("b", ONE, 0.5, 0.1)],
    "nine models in eight panels": [
        exact(f"m{i}", e, 1.0 + i, k) for i in range(9) for e in (HALF, TEN) for k in "abcdefgh"
    ],
}


@pytest.mark.parametrize("rows", AWKWARD.values(), ids=AWKWARD)
@pytest.mark.usefixtures("coarse")
def test_line_chart_takes_awkward_rows(rows):
    pixels(utility(rows))
    pixels(utility(rows, "nicv_ratio"))
    pixels(utility(rows, "avd_2", "nicv", *"abcdefgh"))


@pytest.mark.parametrize(
    "hostile", [r"$\frac{<script>$ \notacommand $x_{", "]]>&\x00\x1b\ud800\ufffe"]
)
@pytest.mark.usefixtures("coarse")
def test_a_title_is_text_and_never_a_formula_or_markup(hostile: str):
    table = marginals(a=[1, 2])
    table["level"] = np.array([hostile, "$"], dtype=object)
    rows = [exact(hostile, ONE, 1.0)]
    graph = cliques((hostile, -1, ""), (f"{hostile}, b", 0, hostile))
    for displayed in (
        utility(rows, title=hostile),
        utility(rows, "nicv", "nicv", title=hostile),
        cluster_maps([view_of(CENTRES, name=hostile)] * 2, title=hostile),
        marginal_bars({hostile: table, "b": table}, title=hostile),
        model_graph(graph, title=hostile),
    ):
        pixels(displayed)
        assert not any(item.tag.endswith("script") for item in fromstring(displayed.svg).iter())


def test_the_same_release_gives_the_same_bytes():
    before = dict(mpl.rcParams)
    first, again = a_map(1, 2, 3, 4), a_map(1, 2, 3, 4)
    assert (first.png, first.svg) == (again.png, again.svg)
    assert dict(mpl.rcParams) == before


def test_a_map_shows_weights_and_centres():
    moved = a_map(1, 2, 3, 4, centres=CENTRES / 2)
    assert line_styles(a_map(1, 2, 3, 4), a_map(4, 3, 2, 1), moved) == 3
    nothing, negative, something = a_map(0, 0, 0, 0), a_map(-1, -1, -1, -1), a_map(1, 1, 1, 1)
    assert ink(nothing) == pytest.approx(ink(negative), abs=1e-3)
    assert ink(something) > ink(nothing) + 0.02
    sized = [
        cluster_maps([view_of(CENTRES, sizes=sizes)], title="map")
        for sizes in (None, [5.0, 5.0], [9.0, 1.0], [5.0, -1.0])
    ]
    assert line_styles(*sized) == 4
    assert ink(sized[0]) < ink(something)


def test_maps_of_nothing_and_of_many_numbers_are_pictures():
    none = {name: values[:0] for name, values in synopsis(1, 1, 1, 1).items()}
    pixels(cluster_maps([view_of(np.zeros((0, 2)), boxes=none, sizes=[])], title="none"))
    pixels(cluster_maps([], title="none"))
    strip = view_of(np.array([[1.0]]), box=SQUARE[:1])
    pixels(cluster_maps([view_of(CENTRES), strip], title="t"))
    centres = np.random.default_rng(7).uniform(0, 4, (MOST_NUMBERS, 2))
    displayed = cluster_maps([view_of(centres, sizes=np.full(MOST_NUMBERS, 1234.0))], title="t")
    assert len(displayed.svg) < MOST_BYTES


def test_eleven_models_are_one_picture_of_eleven_panels():
    rng = np.random.default_rng(7)
    views = [view_of(rng.uniform(0, 4, (100, 2)), sizes=rng.normal(9, 9, 100)) for _ in range(6)]
    grid = {name: np.repeat(values, 500) for name, values in synopsis(1, 2, 3, 4).items()}
    views += [view_of(rng.uniform(0, 4, (100, 2)), boxes=grid, name=f"m{i}") for i in range(5)]
    height, width = pixels(cluster_maps(views, title="t")).shape[:2]
    assert height > width
    item = pixels(cluster_maps(views[:1], title="t"))
    assert item.shape[0] < height


def test_map_takes_a_place_or_the_two_widest_columns():
    narrow, wide = Coordinate(0.0, 1.0), Coordinate(0.0, 4.0)
    for box, columns in {
        (narrow, wide, wide, wide): ("b", "c"),
        (wide, narrow, narrow, narrow): ("a", "b"),
        (narrow, narrow, wide, narrow): ("a", "c"),
    }.items():
        view = view_of(np.arange(4.0)[None, :], box=box, columns="abcd")
        assert view.columns == columns
        assert view.centres.tolist() == [["abcd".index(name) for name in columns]]
        assert view.hidden_columns == 2
    centres = np.column_stack([[5.0, 900.0], SOMEWHERE])
    box = (Coordinate(0.0, 1000.0), *ZURICH)
    view = view_of(centres, box=box, columns=("fare", "lat", "lng"))
    assert (view.columns, view.hidden_columns) == (("lng", "lat"), 1)


ZURICH = (Coordinate(47.3, 47.5), Coordinate(8.4, 8.6))
SOMEWHERE = np.array([[47.35, 8.55], [47.45, 8.45]])


def test_longitude_runs_to_the_right_whatever_was_declared_first():
    view = view_of(SOMEWHERE, box=ZURICH, columns=("lat", "lon"))
    assert view.columns == ("lon", "lat")
    assert view.centres.tolist() == [[8.55, 47.35], [8.45, 47.45]]
    assert view.box == (ZURICH[1], ZURICH[0])
    axes = axes_of(view)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("lon (°)", "lat (°)")
    assert axes.get_xlim() == (8.4, 8.6)
    *_, full, hollow = axes.collections
    assert full.get_offsets().tolist() == view.centres.tolist()
    assert len(hollow.get_offsets()) == 0
    # Longitude is true to scale.
    assert view.aspect == pytest.approx(1 / math.cos(math.radians(47.4)))
    assert view.ratio == pytest.approx(1.477, abs=0.001)
    assert axes.get_aspect() == pytest.approx(view.aspect)
    assert view_of(CENTRES).aspect == 1.0

    # Boxes turn with the axes. Two halves of the box: the north has everything.
    sides = {"lat_lower": [47.3, 47.4], "lat_upper": [47.4, 47.5], "lon_lower": [8.4] * 2}
    sides |= {"lon_upper": [8.6] * 2, "weight": [0.0, 9.0]}
    halves = {name: np.array(values) for name, values in sides.items()}
    view = view_of(SOMEWHERE, box=ZURICH, columns=("lat", "lon"), boxes=halves)
    density = Density.of_synopsis(view.columns, view.table, view.box)
    assert density.cells.tolist() == [[0.0, 2.0]]
    assert view.sizes.sum() == 9.0


def test_a_declared_point_decides_before_names_do():
    view = view_of(SOMEWHERE, box=ZURICH, columns=("lat", "lon"), point=("lat", "lon"))
    assert view.columns == ("lat", "lon")
    plain = view_of(CENTRES, columns=("north", "east"), point=("east", "north"))
    assert plain.columns == ("east", "north")
    assert plain.metres is None
    other = view_of(CENTRES, columns=("height", "width"), point=("east", "north"))
    assert other.columns == ("height", "width")


def test_map_in_degrees_has_a_scale_in_metres():
    around_0 = (Coordinate(-0.2, 0.2), Coordinate(-0.2, 0.2))
    view = view_of(SOMEWHERE - [47.4, 8.5], box=around_0, columns=("lat", "lon"), sizes=[5, 7])
    axes = axes_of(view)
    axes.figure.canvas.draw()
    ticks = [text.get_text() for text in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    assert not any("m" in text for text in ticks)
    assert sorted(texts_of(axes)) == ["10 km", "5", "7"]
    (line,) = axes.lines
    assert np.ptp(line.get_xdata()) * 111.195 == pytest.approx(10, rel=1e-4)


def test_a_scale_a_float_below_a_power_of_ten_is_half_of_it():
    view = view_of(CENTRES)
    assert view.sides[0] == 4
    axes = axes_of(view)
    _draw_scale(axes, view, math.nextafter(1000, 0))
    assert "500 m" in texts_of(axes)


def test_centres_are_numbered_where_numbers_fit():
    assert texts_of(axes_of(view_of(CENTRES, sizes=[1203.4, -8.0]))) == ["1,200", "-8"]
    many = np.random.default_rng(3).uniform(0, 4, (MOST_NUMBERS + 1, 2))
    assert texts_of(axes_of(view_of(many, sizes=np.arange(len(many))))) == []


def test_density_is_weight_over_area_in_multiples_of_the_mean():
    density = density_of(synopsis(6, 2, -5, 0))
    assert density.cells.tolist() == [[3.0, 1.0], [0.0, 0.0]]
    assert density.x_edges.tolist() == [0.0, 0.5, 1.0]
    # Boxes over each other add up.
    doubled = {name: [*values, values[0]] for name, values in synopsis(1, 1, 1, 1).items()}
    cells = density_of({name: np.array(values) for name, values in doubled.items()}).cells
    assert cells.tolist() == [[1.6, 0.8], [0.8, 0.8]]
    # A few tiny boxes do not decide what is dark.
    lower, right = np.array([0.0, 2.0, 3.999]), np.array([2.0, 3.999, 4.0])
    table = {"x_lower": lower, "x_upper": right, "y_lower": lower * 0, "y_upper": lower * 0 + 4}
    assert density_of({**table, "weight": np.array([80, 10, 10])}).highest == pytest.approx(1.6)
    assert density_of({**table, "weight": np.zeros(3)}).highest == 0.0


def test_ten_thousand_ragged_boxes_fit_into_one_picture():
    rng = np.random.default_rng(7)
    low = rng.uniform(0, 3.9, size=(10_000, 3))
    table = {"weight": rng.laplace(0, 10, 10_000)}
    for axis, name in enumerate("xyz"):
        table |= {f"{name}_lower": low[:, axis], f"{name}_upper": low[:, axis] + 0.1}
    assert density_of(table).cells.shape[0] < MOST_EDGES
    view = view_of(low[:8], boxes=table, box=(*SQUARE, Coordinate(0.0, 4.0)))
    pixels(cluster_maps([view], title="t"))


def test_one_column_makes_a_strip():
    edges = np.arange(4.0)
    table = {"x_lower": edges, "x_upper": edges + 1, "weight": np.array([1.0, 0.0, 3.0, -1.0])}
    view = view_of(np.array([[0.5], [2.5]]), boxes=table, box=SQUARE[:1])
    height, width = pixels(cluster_maps([view], title="strip")).shape[:2]
    assert height < width / 2


def test_every_attribute_is_in_one_of_the_pictures():
    counts = {f"a{index}": [index, 100 - index] for index in range(MOST_PANELS + 1)}
    displayed = {
        axes.get_title(loc="left"): [100 * bar.get_width() for bar in axes.patches]
        for first in (0, MOST_PANELS)
        for axes in marginal_bars({"a": marginals(**counts)}, first=first, title="t").figure.axes
    }
    assert list(displayed) == list(counts)
    for name, widths in displayed.items():
        assert widths == pytest.approx(counts[name])


def test_ordered_levels_keep_their_order():
    many = [f"[{index}, {index + 1})" for index in range(MOST_LEVELS + 1)]
    shares = np.array([np.arange(len(many) + 1, dtype=float)])
    for levels in ([*many, "missing"], [str(index) for index in range(len(many) + 1)]):
        assert _select_levels(levels, shares).tolist() == list(range(len(levels)))
    towns = [chr(97 + index) for index in range(len(many) + 1)]
    assert _select_levels(towns, shares).tolist() == list(range(len(many), 1, -1))


def test_several_releases_are_dots_in_one_picture():
    same, other = marginals(a=[5, 1], b=[1, 1]), marginals(a=[1, 5], b=[1, 1])
    both = marginal_bars({"x": same, "y": other}, title="t")
    assert line_styles(both, marginal_bars({"x": same, "y": same}, title="t")) == 2
    assert ink(both) < ink(marginal_bars({"x": same}, title="t"))


@pytest.mark.parametrize(
    "table",
    [marginals(), marginals(a=[1, 0]), marginals(a=list(range(100)), b=[1]), marginals(a=[0])],
    ids=["nothing", "one empty level", "hundred levels", "no rows"],
)
@pytest.mark.usefixtures("coarse")
def test_marginal_bars_take_awkward_tables(table):
    for many in (1, 2, 12):
        pixels(marginal_bars({f"m{index}": table for index in range(many)}, title="t"))
    pixels(marginal_bars({}, title="t"))


@pytest.mark.usefixtures("coarse")
def test_panels_show_their_metrics_and_no_other():
    rows = [exact("a", e, 1.0, metric) for metric in ("avd_2", "avd_3") for e in (HALF, ONE)]
    extra = [*rows, exact("a", ONE, 9.0, "avd_5")]
    two = utility(rows, "avd_2", "avd_3")
    assert line_styles(two, utility(extra, "avd_2", "avd_3")) == 1
    assert pixels(utility(extra, "avd_2", "avd_3", "avd_5")).shape[0] > pixels(two).shape[0]
    # Only b has the second metric: its line there is not drawn as that of a.
    first = [exact(model, ONE, 1.0, "avd_2") for model in "ab"]
    both = [[*first, exact(model, ONE, 1.0, "avd_3")] for model in "ab"]
    assert line_styles(*(utility(rows, "avd_2", "avd_3") for rows in both)) == 2


def test_a_graph_shows_cliques_their_links_and_their_separators():
    single = cliques(("a, b", -1, ""), ("b, c", 0, ""))
    linked = cliques(("a, b", -1, ""), ("b, c", 0, "b"))
    larger = {**linked, "cells": np.array([4, 8])}
    synthetic = [model_graph(item, title="t") for item in (single, linked, larger)]
    assert line_styles(*synthetic) == 3
    assert len({pixels(item).shape for item in synthetic}) == 1


@pytest.mark.parametrize("many", [0, 1, 2, 40, 300])
def test_a_graph_of_any_size_is_a_small_picture_that_can_be_read(many: int):
    names = [f"an_attribute_with_a_long_name_{index}" for index in range(many + 1)]
    lines = [
        (f"{names[index]}, {names[index + 1]}", index // 3 - (index == 0), names[index])
        for index in range(many)
    ]
    assert pixels(model_graph(cliques(*lines), title="t")).shape[1] >= 100 * WIDTH


@pytest.mark.parametrize("kind", ["auto", "log", "linear", "signed log"])
@pytest.mark.parametrize("x_axis", ["log", "apart", "time"])
@pytest.mark.usefixtures("coarse")
def test_line_chart_takes_every_pair_of_axes(x_axis: Any, kind: Any):
    ticks = {} if x_axis == "time" else {1.0: "1", 2.0: "2", 50.0: "50"}
    axis = HorizontalAxis("x", x_axis, ticks, span=(1.0, 60.0))
    y_axis = VerticalAxis("y", kind, references=((0.9, "chance"),))
    values = (-500.0, 2.0, 7000.0) if kind in ("linear", "signed log") else (1.0, 2.0, 7000.0)
    points = [
        Point(index, value, 0.5) for index, value in zip((1.0, 2.0, 50.0), values, strict=True)
    ]
    styles: Any = ("marks", "steps", "dashed steps")
    lines = [Line(style, place, points[place:], style) for place, style in enumerate(styles)]
    pixels(line_chart([Panel(lines, axis, y_axis)], title="t", footnote="f", width=6.6))


def test_no_two_ticks_of_a_small_panel_have_the_same_text():
    rows = [exact("a", e, v, k) for k in "abcd" for e, v in ((HALF, 0.25), (ONE, 0.125))]
    figure = utility(rows, *"abcd").figure
    figure.canvas.draw()
    for axes in figure.axes[:4]:
        texts = [text.get_text() for text in axes.get_yticklabels()]
        assert len(texts) == len(set(texts)) > 2


def test_an_encoded_picture_keeps_its_frequent_colours_exactly():
    def decoded(picture: np.ndarray) -> np.ndarray:
        return np.rint(pixels(encode_png(picture))[:, :, :3] * 255).astype(int)

    picture = np.random.default_rng(7).integers(0, 256, size=(40, 60, 3)).astype(np.uint8)
    picture[:20] = (255, 255, 255)
    picture[20:25] = (0, 114, 178)
    assert (decoded(picture)[:25] == picture[:25]).all()
    assert np.abs(decoded(picture) - picture).max() < 64
    few = np.arange(240, dtype=np.uint8).reshape(8, 10, 3)
    assert (decoded(few) == few).all()


@pytest.mark.parametrize("values", [(0.031, 0.036), (1.1, 1.3), (0.95, 1.05), (0.0021,), (5, 5.2)])
def test_a_short_log_axis_has_texts(values: tuple[float, ...]):
    lines = [Line(f"m{index}", index, [Point(0.2, value)]) for index, value in enumerate(values)]
    panel = Panel(lines, HorizontalAxis("ε", "log", {0.2: "0.2"}), VerticalAxis("AVD", "log"))
    figure = line_chart([panel], title="t", footnote="f").figure
    figure.canvas.draw()
    (axes,) = figure.axes
    low, high = axes.get_ylim()
    ticks = zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
    displayed = {text.get_text() for index, text in ticks if low <= index <= high}
    assert len(displayed - {""}) >= 3
