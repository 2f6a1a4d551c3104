"""Nodes of a tree over the box: where they are, what lies below them, which overlap."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.results.trees import Nodes
from dp_pipeline_tests.results.trees import grown_trees

DEPTH = 4


def nodes_of(*pairs: tuple[int, int]) -> Nodes:
    """Nodes of these (depth, cell)."""
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
