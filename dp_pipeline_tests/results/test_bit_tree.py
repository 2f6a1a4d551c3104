"""A binary tree over the box: which side is halved, what a node is, and what is no node."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.config.errors import BoundaryViolation
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
    for require in (tree.require_axes, lambda: tree.require_nodes(Prefixes.root(), 0)):
        with pytest.raises(BoundaryViolation, match="most 40 times together"):
            require()


@pytest.mark.parametrize(("nodes", "bits"), NO_NODES.values(), ids=NO_NODES.keys())
def test_what_is_no_node_is_refused(nodes: Prefixes, bits: int):
    with pytest.raises(BoundaryViolation, match="tree node"):
        FINE.require_nodes(nodes, bits)
