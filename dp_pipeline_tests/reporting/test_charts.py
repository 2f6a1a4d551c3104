"""Charts: valid, small, and different for different data."""

import io
import math
from fractions import Fraction

import matplotlib as mpl
import matplotlib.image
import numpy as np
import pytest

from dp_pipeline.reporting.charts import cluster_maps, marginal_bars, utility_plot
from dp_pipeline.reporting.cluster_chart import MOST_MAP_BYTES
from dp_pipeline.reporting.cluster_view import ClusterView
from dp_pipeline.reporting.density import MOST_EDGES, Density
from dp_pipeline.reporting.indexed_png import encode_png
from dp_pipeline.reporting.picture import MOST_BYTES
from dp_pipeline.schema.encoding import Coordinate
from dp_pipeline_tests.reporting.samples import (
    HALF,
    ONE,
    SQUARE,
    TEN,
    bought,
    exact,
    marginals,
    synopsis,
)

CENTRES = np.array([[1.0, 1.0], [3.0, 3.0]])


def pixels(png: bytes, *, most: int = MOST_BYTES) -> np.ndarray:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(png) < most
    return matplotlib.image.imread(io.BytesIO(png))


def ink(png: bytes) -> float:
    """How far a picture is from white paper."""
    return float((1 - pixels(png)[:, :, :3]).mean())


def view_of(
    centres: np.ndarray, *, boxes=None, sizes=None, box=SQUARE, name: str = "model"
) -> ClusterView:
    tables = {"centres": {column: centres[:, at] for at, column in enumerate("xyzuvw"[: len(box)])}}
    tables |= {} if boxes is None else {"synopsis": boxes}
    tables |= {} if sizes is None else {"sizes": {"size": np.array(sizes)}}
    return ClusterView.of(name, tables, box)


def a_map(*weights: float, centres: np.ndarray = CENTRES) -> bytes:
    return cluster_maps([view_of(centres, boxes=synopsis(*weights))], title="map")


def test_a_plot_shows_its_rows():
    flat = [exact("a", HALF, 1.0), exact("a", TEN, 1.0)]
    steep = [exact("a", HALF, 1.0), exact("a", TEN, 0.2)]
    noisy = [bought("a", HALF, 1.0, 0.2), bought("a", TEN, 1.0, 0.2)]
    plots = [utility_plot(rows, metric="nicv", title="t") for rows in (flat, steep, noisy)]
    assert all(pixels(plot).shape == pixels(plots[0]).shape for plot in plots)
    assert len(set(plots)) == 3


def test_a_plot_shows_only_its_metric():
    one = [exact("a", HALF, 1.0)]
    both = [*one, exact("a", HALF, 9.0, metric="mean_tvd")]
    assert utility_plot(one, metric="nicv", title="t") == utility_plot(
        both, metric="nicv", title="t"
    )


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [exact("a", ONE, math.nan)],
        [exact("a", ONE, 0.0)],
        [bought("a", Fraction(1, 3), 1e-9, 1e9)],
        [exact("a", epsilon, float(10 / epsilon)) for epsilon in (HALF, TEN, Fraction(10**6))],
        [exact(f"m{i}", e, 1.0 + i) for i in range(30) for e in (HALF, Fraction("0.51"))],
    ],
    ids=["empty", "not a number", "zero", "all noise", "log", "thirty models"],
)
def test_a_plot_is_drawn_for_awkward_rows(rows):
    pixels(utility_plot(rows, metric="nicv", title="t"))
    pixels(utility_plot(rows, metric="nicv_ratio", title="t"))


def test_a_title_is_text_and_never_a_formula():
    hostile = r"$\frac{<script>$ \notacommand $x_{"
    pixels(utility_plot([exact(hostile, ONE, 1.0)], metric="nicv", title=hostile))
    pixels(cluster_maps([view_of(CENTRES, name=hostile)] * 2, title=hostile))
    table = marginals(a=[1, 2])
    table["level"] = np.array([hostile, "$"])
    pixels(marginal_bars(table, title=hostile))


def test_the_same_release_gives_the_same_bytes():
    assert a_map(1, 2, 3, 4) == a_map(1, 2, 3, 4)


def test_a_map_shows_weights_and_centres():
    moved = a_map(1, 2, 3, 4, centres=CENTRES / 2)
    assert len({a_map(1, 2, 3, 4), a_map(4, 3, 2, 1), moved}) == 3


def test_a_map_without_weight_is_white_paper():
    nothing, negative, something = a_map(0, 0, 0, 0), a_map(-1, -1, -1, -1), a_map(1, 1, 1, 1)
    assert ink(nothing) == pytest.approx(ink(negative), abs=1e-3)
    assert ink(something) > ink(nothing) + 0.02


def test_a_map_without_a_synopsis_shows_centres_and_their_sizes():
    alone, equal, unequal, hollow = (
        cluster_maps([view_of(CENTRES, sizes=sizes)], title="map")
        for sizes in (None, [5.0, 5.0], [9.0, 1.0], [5.0, -1.0])
    )
    assert len({alone, equal, unequal, hollow}) == 4
    assert ink(alone) < ink(a_map(1, 1, 1, 1))


def test_a_map_of_nothing_is_drawn():
    none = {name: values[:0] for name, values in synopsis(1, 1, 1, 1).items()}
    pixels(cluster_maps([view_of(np.zeros((0, 2)), boxes=none, sizes=[])], title="none"))
    pixels(cluster_maps([], title="none"))


def test_eleven_models_are_one_picture_of_eleven_panels():
    rng = np.random.default_rng(7)
    views = [view_of(rng.uniform(0, 4, (100, 2)), sizes=rng.normal(9, 9, 100)) for _ in range(6)]
    grid = {name: np.repeat(values, 500) for name, values in synopsis(1, 2, 3, 4).items()}
    views += [view_of(rng.uniform(0, 4, (100, 2)), boxes=grid, name=f"m{i}") for i in range(5)]
    height, width = pixels(cluster_maps(views, title="t"), most=MOST_MAP_BYTES).shape[:2]
    assert height > width
    one = pixels(cluster_maps(views[:1], title="t"), most=MOST_MAP_BYTES)
    assert one.shape[0] < height


def test_the_two_widest_columns_are_shown_and_the_first_of_equal_ones():
    narrow, wide = Coordinate(0.0, 1.0), Coordinate(0.0, 4.0)
    corner = np.arange(4.0)[None, :]
    for box, columns in {
        (narrow, wide, wide, wide): ("y", "z"),
        (wide, narrow, narrow, narrow): ("x", "y"),
        (narrow, narrow, wide, narrow): ("x", "z"),
    }.items():
        view = view_of(corner, box=box)
        assert view.columns == columns
        assert view.centres.tolist() == [["xyzu".index(name) for name in columns]]
        assert view.others == 2


def test_models_of_other_columns_stand_beside_each_other():
    strip = view_of(np.array([[1.0]]), box=SQUARE[:1])
    pixels(cluster_maps([view_of(CENTRES), strip], title="t"))


def test_density_is_weight_over_area_in_multiples_of_the_mean():
    density = Density.of_synopsis(("x", "y"), synopsis(6, 2, -5, 0), SQUARE)
    assert density.cells.tolist() == [[3.0, 1.0], [0.0, 0.0]]
    assert density.x_edges.tolist() == [0.0, 0.5, 1.0]


def test_a_few_tiny_boxes_do_not_decide_what_is_dark():
    left = np.array([0.0, 2.0, 3.999])
    right = np.array([2.0, 3.999, 4.0])
    table = {"x_lower": left, "x_upper": right, "y_lower": left * 0, "y_upper": left * 0 + 4}
    density = Density.of_synopsis(("x", "y"), {**table, "weight": np.array([80, 10, 10])}, SQUARE)
    assert density.highest == pytest.approx(1.6)
    nothing = Density.of_synopsis(("x", "y"), {**table, "weight": np.zeros(3)}, SQUARE)
    assert nothing.highest == 0.0


def test_boxes_over_each_other_add_up():
    table = synopsis(1, 1, 1, 1)
    doubled = {name: np.concatenate([values, values[:1]]) for name, values in table.items()}
    cells = Density.of_synopsis(("x", "y"), doubled, SQUARE).cells
    assert cells.tolist() == [[1.6, 0.8], [0.8, 0.8]]


def test_ten_thousand_ragged_boxes_fit_into_one_picture():
    rng = np.random.default_rng(7)
    low = rng.uniform(0, 3.9, size=(10_000, 3))
    table = {"weight": rng.laplace(0, 10, 10_000)}
    for axis, name in enumerate("xyz"):
        table |= {f"{name}_lower": low[:, axis], f"{name}_upper": low[:, axis] + 0.1}
    box = (*SQUARE, Coordinate(0.0, 4.0))
    assert Density.of_synopsis(("x", "y"), table, box[:2]).cells.shape[0] < MOST_EDGES
    pixels(cluster_maps([view_of(low[:8], boxes=table, box=box)], title="t"), most=MOST_MAP_BYTES)


def test_one_column_makes_a_strip():
    edges = np.arange(4.0)
    table = {"x_lower": edges, "x_upper": edges + 1, "weight": np.array([1.0, 0.0, 3.0, -1.0])}
    view = view_of(np.array([[0.5], [2.5]]), boxes=table, box=SQUARE[:1])
    strip = cluster_maps([view], title="strip")
    height, width = pixels(strip).shape[:2]
    assert height < width / 2


def test_bars_show_the_counts_of_the_first_attributes():
    six = {name: [5, 1] for name in "abcdef"}
    first = marginal_bars(marginals(**six), title="t")
    assert first != marginal_bars(marginals(**{**six, "f": [1, 5]}), title="t")
    seven = marginals(**six, g=[5, 1])
    assert marginal_bars(seven, title="t") == marginal_bars(marginals(**six, g=[1, 5]), title="t")
    assert pixels(first).shape == pixels(marginal_bars(seven, title="t")).shape


@pytest.mark.parametrize(
    "table",
    [marginals(), marginals(a=[-3, 0]), marginals(a=list(range(100)), b=[1]), marginals(a=[0])],
    ids=["nothing", "negative", "hundred levels", "zero"],
)
def test_bars_are_drawn_for_awkward_tables(table):
    pixels(marginal_bars(table, title="t"))


def test_charts_leave_matplotlib_as_it_was():
    before = dict(mpl.rcParams)
    a_map(1, 2, 3, 4)
    assert dict(mpl.rcParams) == before


def test_an_encoded_picture_keeps_its_frequent_colours_exactly():
    rng = np.random.default_rng(7)
    picture = rng.integers(0, 256, size=(40, 60, 3)).astype(np.uint8)
    picture[:20] = (255, 255, 255)
    picture[20:25] = (0, 114, 178)
    decoded = np.rint(pixels(encode_png(picture))[:, :, :3] * 255).astype(int)
    assert (decoded[:25] == picture[:25]).all()
    assert np.abs(decoded - picture).max() < 64


def test_an_encoded_picture_of_few_colours_loses_nothing():
    picture = np.arange(240, dtype=np.uint8).reshape(8, 10, 3)
    decoded = np.rint(pixels(encode_png(picture))[:, :, :3] * 255).astype(int)
    assert (decoded == picture).all()
