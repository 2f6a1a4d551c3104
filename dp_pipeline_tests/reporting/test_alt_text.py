"""What a picture shows, in words; the layout of a graph; charts over K."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.windows import Windows
from dp_pipeline.reporting.figures.budget import window_costs
from dp_pipeline.reporting.figures.cluster_map import cluster_maps
from dp_pipeline.reporting.figures.cluster_view import ClusterView
from dp_pipeline.reporting.figures.curves import (
    utility_panels,
    window_panel,
)
from dp_pipeline.reporting.figures.lines import Panel, VerticalAxis, line_chart
from dp_pipeline.reporting.figures.marginals import MOST_PANELS, marginal_bars
from dp_pipeline.reporting.figures.model_graph import (
    MOST_CLIQUES,
    Node,
    lay_out_cliques,
    model_graph,
)
from dp_pipeline.reporting.figures.picture import MOST_ITEMS, Picture
from dp_pipeline_tests.reporting.samples import (
    FIGURES,
    HALF,
    ONE,
    SQUARE,
    cliques,
    exact,
    marginals,
    over_k,
)
from dp_pipeline_tests.reporting.test_charts import line_styles, pixels

WEEKS = Windows("day", "week", Clock("date"), "2026-W01")


def words(*panels: Panel) -> str:
    return line_chart(panels, title="t", footnote="f").alt_text


def test_lines_are_described_by_where_they_begin_and_end():
    rows = [exact("a", HALF, 3.0), exact("a", ONE, 1.0), exact("a", ONE, 2.0), exact("b", ONE, 5.0)]
    assert words(*utility_panels(rows, ["nicv"])) == (
        "NICV over ε (square metres; lower is better). "
        "a: from 3.00 at ε = 0.5 to 1.50 at ε = 1; b: 5.00 at ε = 1."
    )
    rows = over_k({"kjig": {5: 0.5, 2: 0.75}}, "auc")
    assert words(*utility_panels(rows, ["auc"], "K")) == (
        "AUC over K (0.5 = guessing; higher is better). "
        "kjig: from 0.750 at K = 2 to 0.500 at K = 5."
    )
    rows = over_k({"kjig": {3_000_000: 0.5}}, "auc")
    assert words(*utility_panels(rows, ["auc"], "K")).endswith("kjig: 0.500 at K = 3000000.")
    assert words() == "Nothing to show yet."


def test_lines_over_windows_name_their_first_and_last_window():
    numbers = [(f"2026-W0{index}", 10.0 * index, 1.0) for index in (1, 2)]
    panel = window_panel({"a": numbers, "b": []}, WEEKS, VerticalAxis("rows"))
    assert words(panel) == "rows over time. a: from 10.0 at 2026-W01 to 20.0 at 2026-W02."
    picture = window_costs({"2026-W02": ONE, "2026-W01": HALF}, WEEKS, ceiling=ONE, symbol="ε")
    assert picture.alt_text == "ε over time. 2026-W01: 0.500; 2026-W02: 1.00."
    assert len(picture.figure.axes[0].collections) == 2
    rows = [exact(f"m{index}", ONE, 1.0) for index in range(MOST_ITEMS + 2)]
    text = words(*utility_panels(rows, ["nicv"]))
    assert text.endswith("m7: 1.00 at ε = 1; and 2 more.")


def test_marginals_are_described_by_the_most_frequent_levels():
    tables = {"a": marginals(x=[1, 3], y=[9, 1]), "b": marginals(z=[1, 0])}
    assert marginal_bars(tables, title="t").alt_text == (
        "Shares of levels of 2 releases. x: most often 1, 75 %; y: most often 0, 90 %; "
        "z: most often 0, 100 %."
    )
    many = {"a": marginals(**{f"x{index}": [1, 3] for index in range(MOST_PANELS + 1)})}
    remaining = marginal_bars(many, first=MOST_PANELS, title="t").alt_text
    assert remaining.endswith(f". x{MOST_PANELS}: most often 1, 75 %.")


def test_shares_with_errors_have_a_line_each():
    errors = {"error": np.array([0.1, 0.5])}
    picture = marginal_bars({"a": marginals(x=[1, 3]) | errors}, title="t")
    (lines,) = picture.figure.axes[0].collections
    ends = [path.vertices[:, 0].tolist() for path in lines.get_paths()]
    assert ends == [pytest.approx([0.15, 0.35]), pytest.approx([0.25, 1.0])]


def test_cliques_are_described_with_the_largest_table_first():
    table = cliques(("a, b", -1, ""), ("b, c", 0, "b"))
    table["cells"] = np.array([4, 6000])
    expected = "2 cliques of attributes. b, c: 6,000 cells; a, b: 4 cells."
    assert model_graph(table, title="t").alt_text == expected


def test_a_map_is_described_by_its_axes_and_its_largest_centre():
    centres = {"x": np.array([1.0, 3.0]), "y": np.array([2.0, 2.5])}
    sized = {"centres": centres, "sizes": {"size": np.array([7.0, 1234.0])}}
    views = [ClusterView.of("a", sized, SQUARE), ClusterView.of("b", {"centres": centres}, SQUARE)]
    assert cluster_maps(views, title="t").alt_text == (
        "Map of released centres: x runs to the right, y upwards. "
        "a: 2 centres, the largest at x = 3.00, y = 2.50 with 1,230 noisy rows; b: 2 centres."
    )
    strip = ClusterView.of("c", {"centres": {"x": np.array([1.0])}}, SQUARE[:1])
    expected = "Map of released centres: x runs to the right. c: 1 centres."
    assert cluster_maps([strip], title="t").alt_text == expected


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    """Parent of every clique, −1 for a root; parents may come later than children."""
    many = draw(st.integers(1, 60))
    parents = [-1] + [draw(st.integers(-1, index - 1)) for index in range(1, many)]
    order = draw(st.permutations(range(many)))
    place = {old: new for new, old in enumerate(order)}
    return [place.get(parents[old], -1) for old in order]


def graph_of(parents: list[int], *, most: int = 1000) -> list[Node]:
    """Clique i has attribute ``own i`` and one that it shares with its parent."""
    lines = [
        (f"own {index}, with {index}" if parent >= 0 else f"own {index}", parent, f"with {index}")
        for index, parent in enumerate(parents)
    ]
    table = cliques(*[(text, up, shared if up >= 0 else "") for text, up, shared in lines])
    return lay_out_cliques(table, most=most)


@pytest.mark.chain
@given(trees())
def test_every_clique_stands_once_below_the_one_it_hangs_on(parents: list[int]):
    nodes = graph_of(parents)
    places = [int(node.own[0].removeprefix("own ")) for node in nodes]
    assert sorted(places) == list(range(len(parents)))
    # Lanes grow with the logarithm of the cliques.
    assert max(node.lane for node in nodes) <= math.log2(len(nodes))
    for index, node in enumerate(nodes):
        if node.parent is None:
            assert (parents[places[index]], node.lane) == (-1, 0)
            continue
        assert node.parent < index
        assert places[node.parent] == parents[places[index]]
        # No link runs through a clique that it does not join.
        between = nodes[node.parent + 1 : index]
        assert all(item.lane > nodes[node.parent].lane for item in between)


@pytest.mark.chain
@given(trees(), st.integers(1, 20))
def test_graph_has_the_cliques_nearest_to_a_root(parents: list[int], most: int):
    nodes = graph_of(parents, most=most)
    assert len(nodes) == min(most, len(parents))

    def depth(index: int) -> int:
        return 0 if parents[index] < 0 else 1 + depth(parents[index])

    displayed = {int(node.own[0].removeprefix("own ")) for node in nodes}
    hidden = set(range(len(parents))) - displayed
    assert max(map(depth, displayed)) <= min(map(depth, hidden), default=len(parents))


def test_a_chain_is_one_lane_and_light_branches_come_first():
    assert [node.lane for node in graph_of([-1, 0, 1, 2])] == [0, 0, 0, 0]
    branched = [(node.own[0], node.lane) for node in graph_of([-1, 0, 0, 1])]
    assert branched == [("own 0", 0), ("own 2", 1), ("own 1", 0), ("own 3", 0)]


def test_cliques_that_share_nothing_have_no_link():
    nodes = lay_out_cliques(cliques(("a, b", -1, ""), ("c", 0, ""), ("b, d", 0, "b")), most=9)
    linked = {node.own: node.parent for node in nodes}
    assert linked == {("a", "b"): None, ("c",): None, ("d",): 0}
    assert [node.separator for node in nodes] == [(), ("b",), ()]
    assert lay_out_cliques(cliques(), most=9) == []


def test_a_footnote_counts_the_cliques_that_are_hidden():
    shared = [f"a{index}" for index in range(MOST_CLIQUES + 2)]
    lines = [
        (", ".join(pair), row - 1, pair[0] * (row > 0)) for row, pair in enumerate(pairwise(shared))
    ]
    footnote = model_graph(cliques(*lines), title="t").figure.get_supxlabel()
    assert footnote.endswith("their separator.\n1 more are not shown.")
    alone = model_graph(cliques(("a, b", -1, "")), title="t").figure.get_supxlabel()
    assert alone == "No two cliques share an attribute."


NAN = math.nan


def plot(values: dict[str, dict[int, float]], metric: str = "auc") -> Picture:
    panels = utility_panels(over_k(values, metric), [metric], "K")
    return line_chart(panels, title="t", footnote="")


def auc(**values: dict[int, float]) -> Picture:
    return plot(values)


@pytest.mark.chain
def test_a_plot_shows_its_numbers():
    flat, steep = {2: 0.9, 50: 0.9}, {2: 0.9, 50: 0.8}
    plots = [auc(a=flat, b=steep), auc(a=steep, b=steep), auc(b=flat, a=steep)]
    assert line_styles(*plots) == 3
    assert line_styles(plots[0], auc(a=flat, b=steep)) == 1
    # K = 0 has a place of its own.
    assert line_styles(auc(a={0: 0.9, 2: 0.8}), auc(a={1: 0.9, 2: 0.8}), auc(a={2: 0.8})) == 3
    # A method keeps its look when another one has no numbers.
    lines = {"b": {2: 0.9, 5: 0.8}}
    assert line_styles(auc(a={2: NAN}, **lines), auc(**lines)) == 2


@pytest.mark.chain
def test_a_k_without_a_number_breaks_the_line():
    broken, absent, unbroken = (
        auc(a={0: 0.9, 2: 0.85, 5: 0.8}, b={0: 0.9, **middle, 5: 0.8})
        for middle in ({2: NAN}, {}, {2: 0.85})
    )
    assert line_styles(broken, absent) == 1
    assert line_styles(unbroken, absent) == 2


MANY = {f"a_long_name_{index}": {k: index + k for k in range(30)} for index in range(30)}
FAR = {"a": {2: 0.001}, "b": {5: 900.0}}


@pytest.mark.chain
@pytest.mark.parametrize("metric", FIGURES)
@pytest.mark.parametrize("values", [{}, {"a": {}}, {"a": {2: NAN, 5: math.inf}}, FAR, MANY])
@pytest.mark.usefixtures("coarse")
def test_chart_over_k_takes_awkward_numbers(values, metric: str):
    pixels(plot(values, metric))
