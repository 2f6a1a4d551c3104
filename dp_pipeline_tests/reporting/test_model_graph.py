"""The layout of a model graph: parents above, few lanes, nothing twice."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.reporting.figures.model_graph import ModelGraph
from dp_pipeline_tests.reporting.samples import cliques


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    """Parent of every clique, −1 for a root; parents may come later than children."""
    many = draw(st.integers(1, 60))
    parents = [-1] + [draw(st.integers(-1, index - 1)) for index in range(1, many)]
    order = draw(st.permutations(range(many)))
    place = {old: new for new, old in enumerate(order)}
    return [place.get(parents[old], -1) for old in order]


def graph_of(parents: list[int], *, most: int = 1000) -> ModelGraph:
    """Clique i has attribute ``own i`` and one that it shares with its parent."""
    lines = [
        (f"own {index}, with {index}" if parent >= 0 else f"own {index}", parent, f"with {index}")
        for index, parent in enumerate(parents)
    ]
    table = cliques(*[(text, up, shared if up >= 0 else "") for text, up, shared in lines])
    return ModelGraph.of(table, most=most)


@pytest.mark.chain
@given(trees())
def test_every_clique_stands_once_below_the_one_it_hangs_on(parents: list[int]):
    graph = graph_of(parents)
    nodes = graph.nodes
    places = [int(node.own[0].removeprefix("own ")) for node in nodes]
    assert sorted(places) == list(range(len(parents)))
    assert (graph.hidden, graph.links) == (0, sum(parent >= 0 for parent in parents))
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
    graph = graph_of(parents, most=most)
    assert len(graph.nodes) == min(most, len(parents))
    assert graph.hidden == max(0, len(parents) - most)

    def depth(index: int) -> int:
        return 0 if parents[index] < 0 else 1 + depth(parents[index])

    displayed = {int(node.own[0].removeprefix("own ")) for node in graph.nodes}
    hidden = set(range(len(parents))) - displayed
    assert max(map(depth, displayed)) <= min(map(depth, hidden), default=len(parents))


def test_a_chain_is_one_lane_and_light_branches_come_first():
    assert [node.lane for node in graph_of([-1, 0, 1, 2]).nodes] == [0, 0, 0, 0]
    branched = [(node.own[0], node.lane) for node in graph_of([-1, 0, 0, 1]).nodes]
    assert branched == [("own 0", 0), ("own 2", 1), ("own 1", 0), ("own 3", 0)]


def test_cliques_that_share_nothing_have_no_link():
    graph = ModelGraph.of(cliques(("a, b", -1, ""), ("c", 0, ""), ("b, d", 0, "b")), most=9)
    linked = {node.own: node.parent for node in graph.nodes}
    assert linked == {("a", "b"): None, ("c",): None, ("d",): 0}
    assert [node.separator for node in graph.nodes] == [(), ("b",), ()]
    assert ModelGraph.of(cliques(), most=9) == ModelGraph((), 0)
