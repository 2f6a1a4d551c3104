"""Nodes of a tree over the box, and boxes with noisy weights: of a tree, of a grid."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.results.clusters import Synopsis
from dp_pipeline.results.trees import BitTree, Nodes, Prefixes


@st.composite
def grown_trees(draw: st.DrawFn) -> tuple[int, Nodes]:
    """Dimensions, and the leaves of a tree whose splits are drawn."""
    dimensions = draw(st.integers(1, 3))
    live, leaves = Nodes.root(), []
    for _ in range(draw(st.integers(0, 3))):
        splits = np.array([draw(st.booleans()) for _ in range(len(live))], dtype=bool)
        leaves.append(live.where(~splits))
        live = live.where(splits).children(dimensions)
    return dimensions, Nodes.concatenate([*leaves, live])


DEPTH = 4


def nodes_of(*pairs: tuple[int, int]) -> Nodes:
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Nodes(array[:, 0], array[:, 1])


@st.composite
def any_nodes(draw: st.DrawFn, most: int = 6) -> tuple[int, Nodes]:
    """Dimensions, and nodes of several depths that may overlap."""
    dimensions = draw(st.integers(1, 3))
    depths = draw(st.lists(st.integers(0, DEPTH), max_size=most))
    cells = [draw(st.integers(0, (1 << depth * dimensions) - 1)) for depth in depths]
    return dimensions, nodes_of(*zip(depths, cells, strict=True))


def finest_cells(nodes: Nodes, dimensions: int, depth: int = DEPTH) -> list[set[tuple[int, ...]]]:
    """For each node the cells of depth ``depth`` in it, by a loop."""
    result = []
    for node_depth, position in zip(nodes.depths, nodes.positions(dimensions), strict=True):
        width = 1 << (depth - int(node_depth))
        axes = [range(int(p) * width, (int(p) + 1) * width) for p in position]
        result.append(set(itertools.product(*axes)))
    return result


def overlap(sets: list[set[tuple[int, ...]]]) -> bool:
    return any(a & b for a, b in itertools.combinations(sets, 2))


@given(case=any_nodes())
def test_children_partition_their_parent_exactly(case: tuple[int, Nodes]):
    dimensions, nodes = case
    positions, many = nodes.positions(dimensions), 1 << dimensions
    for depth, cell, position in zip(nodes.depths, nodes.cells, positions, strict=True):
        assert tuple(position) == np.unravel_index(cell, (1 << depth,) * dimensions)
    children = nodes.children(dimensions)
    assert children.depths.tolist() == [depth + 1 for depth in nodes.depths for _ in range(many)]
    parts = finest_cells(children, dimensions, DEPTH + 1)
    for index, cells in enumerate(finest_cells(nodes, dimensions, DEPTH + 1)):
        family = parts[index * many : (index + 1) * many]
        assert not overlap(family)
        assert set().union(*family) == cells


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_child_j_is_in_the_half_that_its_bits_say(dimensions: int):
    positions = Nodes.root().children(dimensions).positions(dimensions)
    expected = [[j >> t & 1 for t in range(dimensions)] for j in range(1 << dimensions)]
    assert positions.tolist() == expected


@given(case=any_nodes() | grown_trees())
def test_disjointness_is_what_brute_force_says(case: tuple[int, Nodes]):
    dimensions, nodes = case
    expected = not overlap(finest_cells(nodes, dimensions))
    assert nodes.are_disjoint(dimensions, DEPTH) is expected


ALONE = [(3, 0), (-1, 0), (1, 4), (0, 1), (2, 16), (1, -1)]
TOGETHER = [((1, 1), (2, 99)), ((0, 0), (2, 5)), ((2, 5), (2, 5))]


@pytest.mark.parametrize("pairs", [*((pair,) for pair in ALONE), *TOGETHER])
def test_nodes_that_overlap_or_do_not_exist_are_not_disjoint(pairs: tuple[tuple[int, int], ...]):
    assert nodes_of(*pairs).are_disjoint(2, 2) is False


def test_no_nodes_at_all_are_disjoint_and_have_no_children():
    nothing = Nodes.root().where(np.array([False]))
    assert nothing.are_disjoint(2, 3)
    assert len(nothing.children(2)) == 0
    assert nothing.positions(2).shape == (0, 2)


BOX = (Coordinate(0.0, 8.0), Coordinate(-1.0, 1.0), Coordinate(10.0, 20.0))
NAMES = ("x", "y", "z")
weights_of_boxes = st.lists(st.integers(-3, 9).map(float), min_size=8, max_size=8)


def eighths(weights: list[float]) -> Synopsis:
    """The box halved on three axes."""
    return Synopsis.of_grid(np.reshape(weights, (2, 2, 2)), NAMES, BOX)


def volume(synopsis: Synopsis) -> float:
    return float((synopsis.upper - synopsis.lower).prod(axis=1).sum())


@given(case=grown_trees())
def test_the_boxes_of_leaves_tile_the_declared_box(case: tuple[int, Nodes]):
    dimensions, leaves = case
    box = BOX[:dimensions]
    synopsis = Synopsis.of_nodes(leaves, np.ones(len(leaves)), ("x", "y", "z")[:dimensions], box)
    volumes = (synopsis.upper - synopsis.lower).prod(axis=1)
    assert np.isclose(volumes.sum(), np.prod([side.upper - side.lower for side in box]))
    assert synopsis.lower.min(axis=0).tolist() == [side.lower for side in box]
    assert synopsis.upper.max(axis=0).tolist() == [side.upper for side in box]


def test_the_boxes_of_a_grid_are_those_of_its_cells():
    synopsis = Synopsis.of_grid(np.array([[1, 2], [3, -4]]), ("x", "y"), BOX[:2])
    assert synopsis.lower.tolist() == [[0, -1], [0, 0], [4, -1], [4, 0]]
    assert synopsis.upper.tolist() == [[4, 0], [4, 1], [8, 0], [8, 1]]
    assert synopsis.weights.tolist() == [1, 2, 3, -4]
    assert synopsis.middles.tolist() == [[2, -0.5], [2, 0.5], [6, -0.5], [6, 0.5]]


def test_a_grid_and_a_tree_of_equal_cells_are_the_same():
    level = Nodes.root().children(2).children(2)
    order = np.argsort(level.cells)
    nodes = Nodes(level.depths[order], level.cells[order])
    of_tree = Synopsis.of_nodes(nodes, np.arange(16.0), ("x", "y"), BOX[:2]).table()
    of_grid = Synopsis.of_grid(np.arange(16).reshape(4, 4), ("x", "y"), BOX[:2]).table()
    assert list(of_grid) == ["x_lower", "x_upper", "y_lower", "y_upper", "weight"]
    assert {name: v.tolist() for name, v in of_tree.items()} == {
        name: v.tolist() for name, v in of_grid.items()
    }


@given(weights=weights_of_boxes, enough=st.integers(0, 5000), most=st.integers(1, 5))
def test_parts_have_the_weight_of_their_boxes(weights: list[float], enough: int, most: int):
    synopsis = eighths(weights)
    cut = synopsis.weights > 0
    parts = synopsis.refined(target=enough, most=most)
    if len(parts.weights) == 8:
        assert parts is synopsis or not cut.any()
        return
    assert parts.weights[: (~cut).sum()].tolist() == synopsis.weights[~cut].tolist()
    cuts, remainder = divmod(len(parts.weights) - (~cut).sum(), cut.sum())
    assert remainder == 0
    for index, box in enumerate(np.flatnonzero(cut)):
        family = slice((~cut).sum() + index * cuts, (~cut).sum() + (index + 1) * cuts)
        assert parts.weights[family] == pytest.approx(np.full(cuts, synopsis.weights[box] / cuts))
        assert (parts.lower[family].min(axis=0) == synopsis.lower[box]).all()
        assert parts.upper[family].max(axis=0) == pytest.approx(synopsis.upper[box])
        assert len(np.unique(parts.lower[family], axis=0)) == cuts
    assert parts.weights.sum() == pytest.approx(synopsis.weights.sum())
    assert volume(parts) == pytest.approx(8 * 2 * 10)


@pytest.mark.parametrize(
    ("boxes", "enough", "parts"),
    [
        # One box in three dimensions: ⌊3000^(1/3)⌋ = 14 parts an axis, but no more than 4.
        (1, 3000, 64),
        # ⌊(3000/8)^(1/3)⌋ = 7, no more than 4; 27 = 3³ exactly; 26 is too few for that.
        (8, 3000, 512),
        (8, 8 * 27, 8 * 27),
        (8, 8 * 27 - 1, 8 * 8),
        (8, 8 * 8 - 1, 8),
        (8, 0, 8),
        (0, 3000, 0),
    ],
)
def test_few_boxes_are_cut_and_many_are_not(boxes: int, enough: int, parts: int):
    refined = eighths([5.0] * boxes + [-1.0] * (8 - boxes)).refined(target=enough)
    assert (refined.weights > 0).sum() == parts
    assert (refined.weights == -1).sum() == 8 - boxes


SIDES = st.tuples(st.integers(-99, 99), st.integers(1, 99)).map(
    lambda one: Coordinate(one[0] / 10, (one[0] + one[1]) / 10)
)


@given(sides=st.lists(SIDES, min_size=1, max_size=3), cells=st.integers(1, 9))
def test_no_box_ends_beyond_the_declared_one(sides: list[Coordinate], cells: int):
    # Bounds in tenths, which floats do not hold: a lower bound plus a width may be more.
    box, names = tuple(sides), NAMES[: len(sides)]
    leaves, children = Prefixes.root().children(4), Nodes.root().children(len(box))
    for synopsis in (
        Synopsis(names, *BitTree.over(names, box).boxes(leaves, box), np.ones(16)),
        Synopsis.of_grid(np.ones((cells,) * len(box)), names, box),
        Synopsis.of_nodes(children, np.ones(len(children)), names, box),
    ):
        for boxes in (synopsis, synopsis.refined()):
            assert (boxes.upper <= [side.upper for side in box]).all()
            assert (boxes.lower >= [side.lower for side in box]).all()
