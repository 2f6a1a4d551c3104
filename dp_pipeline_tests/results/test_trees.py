"""Trees over the box by bits and by axes: what a node is, what lies below it, boxes of leaves."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.results.clusters import Synopsis
from dp_pipeline.results.trees import AXIS_BITS, MOST_BITS, BitTree, Prefixes
from dp_pipeline_tests import loops

EDGE = 1 << 16
NAMES = ("v", "w", "x", "y", "z")
widths = st.lists(st.sampled_from([1.0, 2.0, 3.0, 10.0, 1000.0]), min_size=1, max_size=5)


def box_of(sides: list[float]) -> list[Coordinate]:
    return [Coordinate(-1.0, side - 1.0) for side in sides]


def tree_over(sides: list[float], most: int = MOST_BITS) -> BitTree:
    return BitTree.over(NAMES[: len(sides)], box_of(sides), most=most)


def nodes_of(*pairs: tuple[int, int]) -> Prefixes:
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Prefixes(table[:, 0], table[:, 1])


def pairs_of(nodes: Prefixes) -> list[tuple[int, int]]:
    return list(zip(nodes.depths.tolist(), nodes.bits.tolist(), strict=True))


def halved(tree: BitTree, node: tuple[int, int], box: list[Coordinate]) -> list[list[float]]:
    """Lower and upper corner of a node, by halving the box bit by bit."""
    depth, bits = node
    low, high = [side.lower for side in box], [side.upper for side in box]
    for axis, bit in zip(tree.axes, format(bits, f"0{depth}b") if depth else "", strict=False):
        middle = (low[axis] + high[axis]) / 2
        (low if bit == "1" else high)[axis] = middle
    return [low, high]


Case = tuple[list[float], BitTree, Prefixes]


@st.composite
def some_nodes(draw: st.DrawFn) -> Case:
    """Sides of a box, its tree, and nodes that may overlap."""
    sides = draw(widths)
    tree = tree_over(sides)
    depths = draw(st.lists(st.integers(0, tree.depth), max_size=6))
    return sides, tree, nodes_of(*((n, draw(st.integers(0, (1 << n) - 1))) for n in depths))


@st.composite
def grown_trees(draw: st.DrawFn) -> tuple[BitTree, Prefixes]:
    """A small tree, and the leaves that some splits leave."""
    tree = tree_over(draw(widths), most=8)
    live, leaves = Prefixes.root(), []
    while int(live.depths.max(initial=0)) < tree.depth and len(live):
        splits = np.array([draw(st.booleans()) for _ in range(len(live))], dtype=bool)
        leaves.append(live.where(~splits))
        live = live.where(splits).children(1)
    return tree, Prefixes.concatenate([*leaves, live])


@given(sides=widths, most=st.integers(0, MOST_BITS))
def test_the_first_longest_side_is_halved(sides: list[float], most: int):
    tree, lengths, halvings = tree_over(sides, most), list(sides), [0] * len(sides)
    assert tree.depth == min(most, AXIS_BITS * len(sides))
    for axis in tree.axes:
        live = [a for a in range(len(sides)) if halvings[a] < AXIS_BITS]
        assert axis == min(live, key=lambda a: (-lengths[a], a))
        lengths[axis] /= 2
        halvings[axis] += 1
    tree.require_axes()


@given(case=some_nodes())
def test_a_node_is_what_halving_leaves(case: Case):
    sides, tree, nodes = case
    low, high = tree.boxes(nodes, box_of(sides))
    assert low.shape == high.shape == (len(nodes), len(sides))
    for index, node in enumerate(pairs_of(nodes)):
        assert np.allclose([low[index], high[index]], halved(tree, node, box_of(sides)), rtol=1e-12)
    # A key is a 1 before the bits.
    bits = ["1" + (format(b, f"0{n}b") if n else "") for n, b in pairs_of(nodes)]
    assert [format(key, "b") for key in nodes.keys.tolist()] == bits


@given(sides=widths, seed=st.integers(0, 99))
def test_a_row_lies_in_the_box_of_every_prefix_of_its_path(sides: list[float], seed: int):
    rng = np.random.default_rng(seed)
    row = rng.integers(-EDGE, EDGE, len(sides), endpoint=True)
    row[rng.random(len(sides)) < 0.3] = EDGE
    tree, box = tree_over(sides), box_of(sides)
    path = loops.path(tree, tuple(row.tolist()))
    numbers = itertools.accumulate(path, lambda number, bit: 2 * number + bit, initial=0)
    low, high = tree.boxes(nodes_of(*enumerate(numbers)), box)
    place = np.array([side.decode(q) for side, q in zip(box, row, strict=True)])
    # Floats place a row that is on the border of two boxes a hair off it.
    assert (low - 1e-9 * np.array(sides) <= place).all()
    assert (place <= high + 1e-9 * np.array(sides)).all()


@given(case=some_nodes(), bits=st.integers(0, 4))
def test_children_come_bit_by_bit(case: Case, bits: int):
    nodes = step = case[2]
    for _ in range(bits):
        step = step.children(1)
    assert pairs_of(nodes.children(bits)) == pairs_of(step)
    assert len(step) == len(nodes) << bits
    assert (nodes.children(bits).bits >> bits).tolist() == np.repeat(nodes.bits, 1 << bits).tolist()


@given(case=some_nodes(), bits=st.integers(0, 16))
def test_children_below_the_tree_are_refused(case: Case, bits: int):
    _, tree, nodes = case
    if (nodes.depths + bits <= tree.depth).all():
        tree.require_nodes(nodes, bits)
    else:
        with pytest.raises(BoundaryViolation, match="depths of tree nodes"):
            tree.require_nodes(nodes, bits)


@given(case=grown_trees())
def test_the_leaves_of_any_tree_tile_the_box(case: tuple[BitTree, Prefixes]):
    tree, leaves = case
    tree.require_nodes(leaves, 0)
    finest: list[int] = []
    for depth, bits in pairs_of(leaves):
        width = 1 << (tree.depth - depth)
        finest += range(bits * width, (bits + 1) * width)
    assert sorted(finest) == list(range(1 << tree.depth))
    assert len(set(leaves.keys.tolist())) == len(leaves)


def test_no_nodes_at_all_are_nodes_and_have_no_children():
    nothing = Prefixes.root().where(np.array([False]))
    tree = tree_over([1.0, 1.0])
    tree.require_nodes(nothing, 3)
    assert len(nothing.children(3)) == len(Prefixes.concatenate([])) == 0
    assert [corner.shape for corner in tree.boxes(nothing, box_of([1.0, 1.0]))] == [(0, 2)] * 2


NO_TREES = {
    "no column": BitTree((), ()),
    "a column twice": BitTree(("x", "x"), (0, 1)),
    "an axis that is not there": BitTree(("x", "y"), (0, 2)),
    "an axis below zero": BitTree(("x", "y"), (0, -1)),
    "an axis halved too often": BitTree(("x", "y"), (0,) * 18),
    "more bits than a tree has": BitTree(("x", "y", "z"), (0, 1, 2) * 13 + (0, 1)),
}
FINE = tree_over([1.0, 1.0])
NO_NODES = {
    "bits below zero": (Prefixes.root(), -1),
    "too many bits": (Prefixes.root(), 17),
    "boxes below the tree": (nodes_of((0, 0), (31, 5)), 4),
    "a node below the tree": (nodes_of((35, 0)), 0),
    "a depth below zero": (nodes_of((0, 0), (-1, 0)), 0),
    "more bits than the depth": (nodes_of((3, 7), (3, 8)), 0),
    "a root with a bit": (nodes_of((0, 1)), 0),
    "bits that are below zero": (nodes_of((3, -1)), 0),
    "more depths than nodes": (Prefixes(np.zeros(2, np.int64), np.zeros(1, np.int64)), 0),
    "a table of nodes": (Prefixes(np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64)), 0),
}


@pytest.mark.parametrize("tree", NO_TREES.values(), ids=NO_TREES.keys())
def test_what_is_no_tree_is_refused(tree: BitTree):
    with pytest.raises(BoundaryViolation, match="most 40 times together"):
        tree.require_axes()


@pytest.mark.parametrize(("nodes", "bits"), NO_NODES.values(), ids=NO_NODES.keys())
def test_what_is_no_node_is_refused(nodes: Prefixes, bits: int):
    with pytest.raises(BoundaryViolation, match="tree node"):
        FINE.require_nodes(nodes, bits)


@st.composite
def grown_quadtrees(draw: st.DrawFn) -> tuple[int, Prefixes]:
    """Dimensions, and the leaves of a tree whose splits are drawn."""
    dimensions = draw(st.integers(1, 3))
    live, leaves = Prefixes.root(), []
    for _ in range(draw(st.integers(0, 3))):
        splits = np.array([draw(st.booleans()) for _ in range(len(live))], dtype=bool)
        leaves.append(live.where(~splits))
        live = live.where(splits).children(dimensions)
    return dimensions, Prefixes.concatenate([*leaves, live])


DEPTH = 4


@st.composite
def any_nodes(draw: st.DrawFn, most: int = 6) -> tuple[int, Prefixes]:
    """Dimensions, and nodes of a quadtree of several depths that may overlap."""
    dimensions = draw(st.integers(1, 3))
    depths = [dimensions * n for n in draw(st.lists(st.integers(0, DEPTH), max_size=most))]
    return dimensions, nodes_of(*((n, draw(st.integers(0, (1 << n) - 1))) for n in depths))


def finest_cells(nodes: Prefixes, dimensions: int) -> list[set[tuple[int, ...]]]:
    """For each node the cells of depth DEPTH in it, by a loop."""
    result = []
    for height, cell in zip(*nodes.grid_cells(dimensions), strict=True):
        width = 1 << (DEPTH - int(height))
        position = np.unravel_index(cell, (1 << height,) * dimensions)
        axes = [range(int(p) * width, (int(p) + 1) * width) for p in position]
        result.append(set(itertools.product(*axes)))
    return result


def overlap(sets: list[set[tuple[int, ...]]]) -> bool:
    return any(a & b for a, b in itertools.combinations(sets, 2))


@given(case=any_nodes())
def test_a_cell_of_a_grid_is_the_box_of_its_node(case: tuple[int, Prefixes]):
    dimensions, nodes = case
    names, box = AXES[:dimensions], BOX[:dimensions]
    low, _ = BitTree.quadtree(names, DEPTH).boxes(nodes, box)
    for index, (height, cell) in enumerate(zip(*nodes.grid_cells(dimensions), strict=True)):
        grid = Synopsis.of_grid(np.zeros((1 << height,) * dimensions), names, box)
        assert low[index].tolist() == grid.lower[cell].tolist()


def test_the_parts_of_a_node_count_up_their_axes_from_the_first():
    parts = Prefixes.root().children(3)
    low, _ = BitTree.quadtree(AXES, 1).boxes(parts, BOX)
    halves = (low > [side.lower for side in BOX]).astype(int)
    assert halves.tolist() == [[part >> axis & 1 for axis in range(3)] for part in range(8)]


@given(case=any_nodes() | grown_quadtrees())
def test_disjointness_is_what_brute_force_says(case: tuple[int, Prefixes]):
    dimensions, nodes = case
    assert nodes.are_disjoint() is not overlap(finest_cells(nodes, dimensions))


@pytest.mark.parametrize("depths", [(1,), (2, 4, 3)])
def test_a_node_that_halves_one_axis_more_often_is_in_no_grid(depths: tuple[int, ...]):
    with pytest.raises(BoundaryViolation, match="multiples of 2"):
        nodes_of(*((depth, 0) for depth in depths)).grid_cells(2)


BOX = (Coordinate(0.0, 8.0), Coordinate(-1.0, 1.0), Coordinate(10.0, 20.0))
AXES = ("x", "y", "z")
weights_of_boxes = st.lists(st.integers(-3, 9).map(float), min_size=8, max_size=8)


def eighths(weights: list[float]) -> Synopsis:
    """The box halved on three axes."""
    return Synopsis.of_grid(np.reshape(weights, (2, 2, 2)), AXES, BOX)


def volume(synopsis: Synopsis) -> float:
    return float((synopsis.upper - synopsis.lower).prod(axis=1).sum())


@given(case=grown_quadtrees())
def test_the_boxes_of_leaves_tile_the_declared_box(case: tuple[int, Prefixes]):
    dimensions, leaves = case
    box = BOX[:dimensions]
    tree = BitTree.quadtree(AXES[:dimensions], DEPTH)
    synopsis = Synopsis(tree.columns, *tree.boxes(leaves, box), np.ones(len(leaves)))
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
    level, tree = Prefixes.root().children(4), BitTree.quadtree(("x", "y"), 2)
    nodes = level.where(np.argsort(level.grid_cells(2)[1]))
    boxes = tree.boxes(nodes, BOX[:2])
    of_tree = Synopsis(tree.columns, *boxes, np.arange(16.0)).table()
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
    box, names = tuple(sides), AXES[: len(sides)]
    leaves = Prefixes.root().children(4)
    for synopsis in (
        Synopsis(names, *BitTree.over(names, box).boxes(leaves, box), np.ones(16)),
        Synopsis.of_grid(np.ones((cells,) * len(box)), names, box),
    ):
        for boxes in (synopsis, synopsis.refined()):
            assert (boxes.upper <= [side.upper for side in box]).all()
            assert (boxes.lower >= [side.lower for side in box]).all()
