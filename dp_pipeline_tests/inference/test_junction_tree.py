"""Junction trees: running intersection holds on every triangulated graph, and is checked."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.inference.junction_tree import JunctionTree, triangulated_cliques
from dp_pipeline_tests.inference.test_graph import FIGURE, NAMES, Case, graphs

FIGURE_SIZES = dict(zip(NAMES, (2, 2, 3, 3, 2, 2), strict=True))
FIGURE_CLIQUES = tuple(tuple(sorted(clique)) for clique in FIGURE)


def hangs_together(tree: JunctionTree) -> bool:
    """Running intersection, as it is defined: the cliques with an attribute are a subtree."""
    joined = nx.Graph(tree.links)
    joined.add_nodes_from(range(len(tree.cliques)))
    names = {name for clique in tree.cliques for name in clique}
    homes = ([at for at, clique in enumerate(tree.cliques) if name in clique] for name in names)
    return nx.is_tree(joined) and all(nx.is_connected(joined.subgraph(home)) for home in homes)


@given(case=graphs(), data=st.data())
def test_any_triangulated_graph_has_running_intersection(case: Case, data: st.DataObject):
    graph, sizes = case
    cliques = triangulated_cliques(graph, sizes)
    tree = JunctionTree.of(cliques, sizes)
    assert sorted(tree.cliques) == sorted(cliques)
    assert not cliques or hangs_together(tree)
    assert tree.order == tuple(range(len(cliques)))
    other = JunctionTree.of(tuple(data.draw(st.permutations(cliques))), sizes)
    first, second = (sorted(map(each.separator, each.links)) for each in (tree, other))
    assert first == second


@given(case=graphs())
def test_the_check_agrees_with_the_definition(case: Case):
    graph, sizes = case
    cliques = tuple(tuple(clique) for clique in nx.find_cliques(graph))
    tree = JunctionTree(cliques, tuple((at // 2, at + 1) for at in range(len(cliques) - 1)))
    if not cliques or hangs_together(tree):
        tree.require_running_intersection()
        JunctionTree.of(cliques, sizes)
    else:
        with pytest.raises(BoundaryViolation, match="must be connected"):
            tree.require_running_intersection()
    square = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
    with pytest.raises(BoundaryViolation, match="must be connected"):
        JunctionTree.of(square, dict.fromkeys("abcd", 2))


def test_the_figure_has_its_tree():
    tree = JunctionTree.of(FIGURE_CLIQUES, FIGURE_SIZES)
    linked = {frozenset(tree.cliques[at] for at in link) for link in tree.links}
    c1, c2, c3, c4 = FIGURE_CLIQUES
    assert tree.cliques[0] == c3
    assert {frozenset((c1, c3)), frozenset((c3, c4))} < linked
    assert c2 in {clique for link in linked for clique in link}
    separators = sorted(tree.separator(link) for link in tree.links)
    assert separators == [("a3", "a5"), ("a4", "a5"), ("a5",)]
    assert sorted(tree.cells(FIGURE_SIZES)) == [4, 12, 12, 18]


def test_the_root_is_the_clique_with_the_most_cells():
    cliques = (("a", "b"), ("b", "c"), ("c", "d"))
    assert JunctionTree.of(cliques, dict.fromkeys("abcd", 2)).cliques == cliques
    assert JunctionTree.of(cliques, {"a": 2, "b": 2, "c": 2, "d": 3}).cliques[0] == ("c", "d")


def test_small_trees_have_their_separators_order_and_cells():
    tree = JunctionTree((("b", "a", "c"), ("a", "d", "b")), ((0, 1),))
    assert tree.separator((0, 1)) == ("a", "b")
    assert JunctionTree.of((), {}) == JunctionTree((), ())
    assert JunctionTree((), ()).order == ()
    assert JunctionTree.of(((),), {}).cells({}) == (1,)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (((0, 1),), "each of its 3 cliques but the first once, but links lead to 1 ."),
        (((0, 1), (0, 1)), "must link each of its 3 cliques .* lead to 1, 1 ."),
        (((0, 1), (1, 0)), "must link each of its 3 cliques"),
        (((0, 1), (1, 2), (0, 2)), "must link each of its 3 cliques"),
        (((2, 1), (0, 2)), r"no link before \(2, 1\) leads to clique 2"),
        (((0, 1), (0, 2)), "clique 2 .c, d. hangs below a clique without c"),
    ],
)
def test_links_that_are_no_junction_tree_are_refused(links, message):
    tree = JunctionTree((("a", "b"), ("b", "c"), ("c", "d")), links)
    with pytest.raises(BoundaryViolation, match=message):
        tree.require_running_intersection()
