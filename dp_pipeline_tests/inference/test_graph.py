"""Triangulation: the cliques of the published figure, and of random graphs."""

import itertools
import math

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.inference.junction_tree import (
    elimination_cliques,
    min_fill_order,
    triangulated_cliques,
)

FIGURE = ({1, 3, 5}, {2, 5}, {3, 4, 5}, {4, 5, 6})
NAMES = tuple(f"a{number}" for number in range(1, 7))


def figure() -> nx.Graph:
    """The paper's Markov network, from the cliques that it prints."""
    pairs = itertools.chain.from_iterable(itertools.combinations(c, 2) for c in FIGURE)
    return nx.Graph([(f"a{left}", f"a{right}") for left, right in pairs])


def numbers(cliques: tuple[frozenset[str], ...]) -> list[set[int]]:
    return [{int(name[1:]) for name in clique} for clique in cliques]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[nx.Graph, dict[str, int]]:
    """Up to 9 attributes with sizes, any pairs of them connected."""
    names = [f"x{at}" for at in range(draw(st.integers(0, 9)))]
    pairs = list(itertools.combinations(names, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []
    graph = nx.Graph(chosen)
    graph.add_nodes_from(draw(st.sets(st.sampled_from(names))) if names else ())
    return graph, {name: draw(st.integers(1, 5)) for name in names}


def slowly(graph: nx.Graph, order: list[str]) -> tuple[nx.Graph, set[frozenset[str]]]:
    """Algorithm 3 line by line: the triangulated graph, and the maximal cliques."""
    filled, left = nx.Graph(graph), nx.Graph(graph)
    filled.add_nodes_from(order)
    left.add_nodes_from(order)
    found = []
    for vertex in order:
        around = list(left[vertex])
        filled.add_edges_from(itertools.combinations(around, 2))
        left.add_edges_from(itertools.combinations(around, 2))
        found.append(frozenset([vertex, *around]))
        left.remove_node(vertex)
    return filled, {one for one in found if not any(one < other for other in found)}


def test_the_cliques_of_the_figure_are_found_in_its_order():
    assert numbers(elimination_cliques(figure(), NAMES)) == list(FIGURE)


@pytest.mark.parametrize("filled_in", [("a3", "a5"), ("a4", "a5")])
def test_an_edge_that_elimination_fills_in_may_be_missing(filled_in: tuple[str, str]):
    graph = figure()
    graph.remove_edge(*filled_in)
    assert numbers(elimination_cliques(graph, NAMES)) == list(FIGURE)


def test_min_fill_adds_no_edge_to_the_figure():
    sizes = dict(zip(NAMES, (2, 2, 3, 3, 2, 2), strict=True))
    assert {frozenset(clique) for clique in triangulated_cliques(figure(), sizes)} == {
        frozenset(f"a{number}" for number in clique) for clique in FIGURE
    }


@given(case=graphs(), data=st.data())
def test_the_cliques_are_those_of_the_filled_graph(case, data):
    graph, sizes = case
    order = list(data.draw(st.permutations(list(sizes))))
    cliques = elimination_cliques(graph, order)
    filled, expected = slowly(graph, order)
    assert set(cliques) == expected == {frozenset(clique) for clique in nx.find_cliques(filled)}
    assert len(cliques) == len(set(cliques))


@given(case=graphs())
def test_min_fill_takes_the_least_fill_and_fewest_cells(case: tuple[nx.Graph, dict[str, int]]):
    graph, sizes = case
    left = nx.Graph(graph)
    left.add_nodes_from(sizes)

    def cost(vertex: str) -> tuple[int, int, int]:
        pairs = itertools.combinations(left[vertex], 2)
        cells = math.prod(sizes[name] for name in (vertex, *left[vertex]))
        return sum(not left.has_edge(*pair) for pair in pairs), cells, list(sizes).index(vertex)

    for vertex in min_fill_order(graph, sizes):
        assert vertex == min(left, key=cost)
        left.add_edges_from(list(itertools.combinations(left[vertex], 2)))
        left.remove_node(vertex)
    assert not left


@given(case=graphs())
def test_every_edge_and_every_attribute_is_in_a_clique(case: tuple[nx.Graph, dict[str, int]]):
    graph, sizes = case
    cliques = triangulated_cliques(graph, sizes)
    assert {name for clique in cliques for name in clique} == set(sizes)
    assert all(any({*edge} <= set(clique) for clique in cliques) for edge in graph.edges)
    assert all(list(clique) == [name for name in sizes if name in clique] for clique in cliques)


def test_a_square_of_equal_sizes_is_cut_along_one_diagonal():
    square = nx.cycle_graph(["a", "b", "c", "d"])
    assert triangulated_cliques(square, dict.fromkeys("abcd", 2)) == (
        ("a", "b", "d"),
        ("b", "c", "d"),
    )


def test_no_attributes_have_no_cliques():
    assert triangulated_cliques(nx.Graph(), {}) == ()


def test_an_edge_of_an_attribute_to_itself_is_no_edge():
    assert triangulated_cliques(nx.Graph([("a", "a")]), {"a": 2}) == (("a",),)


@pytest.mark.parametrize("order", [["a"], ["a", "b", "b"], []])
def test_an_order_that_misses_or_repeats_is_refused(order: list[str]):
    with pytest.raises(BoundaryViolation, match="An elimination order must have"):
        elimination_cliques(nx.Graph([("a", "b")]), order)
