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

FIGURE = tuple(
    frozenset(f"a{number}" for number in clique) for clique in ("135", "25", "345", "456")
)
"""Cliques of the paper's Markov network."""
NAMES = tuple(f"a{number}" for number in range(1, 7))


Case = tuple[nx.Graph, dict[str, int]]


@st.composite
def graphs(draw: st.DrawFn) -> Case:
    """Up to 9 attributes with sizes, any pairs of them connected."""
    names = [f"x{at}" for at in range(draw(st.integers(0, 9)))]
    pairs = list(itertools.combinations(names, 2))
    graph = nx.Graph(draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else [])
    graph.add_nodes_from(draw(st.sets(st.sampled_from(names))) if names else ())
    return graph, {name: draw(st.integers(1, 5)) for name in names}


def slowly(graph: nx.Graph, order: list[str]) -> tuple[nx.Graph, set[frozenset[str]]]:
    """Algorithm 3 line by line: the triangulated graph, and the maximal cliques."""
    filled, left, cliques = nx.Graph(graph), nx.Graph(graph), []
    for network in (filled, left):
        network.add_nodes_from(order)
    for vertex in order:
        around = list(left[vertex])
        for network in (filled, left):
            network.add_edges_from(itertools.combinations(around, 2))
        cliques.append(frozenset([vertex, *around]))
        left.remove_node(vertex)
    return filled, {clique for clique in cliques if not any(clique < other for other in cliques)}


@pytest.mark.parametrize("filled_in", [(), ("a3", "a5"), ("a4", "a5")])
def test_the_cliques_of_the_figure_are_found_in_its_order(filled_in: tuple[str, ...]):
    pairs = {pair for clique in FIGURE for pair in itertools.combinations(sorted(clique), 2)}
    graph = nx.Graph(pairs - {filled_in})
    assert elimination_cliques(graph, NAMES) == FIGURE
    if not filled_in:
        sizes = dict(zip(NAMES, (2, 2, 3, 3, 2, 2), strict=True))
        assert set(map(frozenset, triangulated_cliques(graph, sizes))) == set(FIGURE)


@given(case=graphs(), data=st.data())
def test_the_cliques_are_those_of_the_filled_graph(case: Case, data: st.DataObject):
    graph, sizes = case
    order = list(data.draw(st.permutations(list(sizes))))
    cliques = elimination_cliques(graph, order)
    filled, expected = slowly(graph, order)
    assert set(cliques) == expected == {frozenset(clique) for clique in nx.find_cliques(filled)}
    assert len(cliques) == len(set(cliques))


@given(case=graphs())
def test_every_edge_and_every_attribute_is_in_a_clique(case: Case):
    graph, sizes = case
    cliques = triangulated_cliques(graph, sizes)
    assert {name for clique in cliques for name in clique} == set(sizes)
    assert all(any({*edge} <= set(clique) for clique in cliques) for edge in graph.edges)
    assert all(list(clique) == [name for name in sizes if name in clique] for clique in cliques)


@given(case=graphs())
def test_min_fill_takes_the_least_fill_and_fewest_cells(case: Case):
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


def test_a_square_of_equal_sizes_is_cut_along_one_diagonal():
    halves = ("a", "b", "d"), ("b", "c", "d")
    assert triangulated_cliques(nx.cycle_graph("abcd"), dict.fromkeys("abcd", 2)) == halves
    assert triangulated_cliques(nx.Graph(), {}) == ()
    assert triangulated_cliques(nx.Graph([("a", "a")]), {"a": 2}) == (("a",),)


@pytest.mark.parametrize("order", [["a"], ["a", "b", "b"], []])
def test_an_order_that_misses_or_repeats_is_refused(order: list[str]):
    with pytest.raises(BoundaryViolation, match="An elimination order must have"):
        elimination_cliques(nx.Graph([("a", "b")]), order)
