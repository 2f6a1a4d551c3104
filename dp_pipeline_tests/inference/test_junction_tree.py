"""Cliques of graphs, the trees that join them, how they grow, and which mergers pay."""

import itertools
import math
from collections.abc import Sequence

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.inference.clique_growth import CliqueGrowth, bigger_cliques
from dp_pipeline.inference.junction_tree import (
    JunctionTree,
    cell_count,
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
    filled, remaining, cliques = nx.Graph(graph), nx.Graph(graph), []
    for network in (filled, remaining):
        network.add_nodes_from(order)
    for vertex in order:
        around = list(remaining[vertex])
        for network in (filled, remaining):
            network.add_edges_from(itertools.combinations(around, 2))
        cliques.append(frozenset([vertex, *around]))
        remaining.remove_node(vertex)
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
    remaining = nx.Graph(graph)
    remaining.add_nodes_from(sizes)

    def cost(vertex: str) -> tuple[int, int, int]:
        pairs = itertools.combinations(remaining[vertex], 2)
        cells = math.prod(sizes[name] for name in (vertex, *remaining[vertex]))
        return (
            sum(not remaining.has_edge(*pair) for pair in pairs),
            cells,
            list(sizes).index(vertex),
        )

    for vertex in min_fill_order(graph, sizes):
        assert vertex == min(remaining, key=cost)
        remaining.add_edges_from(list(itertools.combinations(remaining[vertex], 2)))
        remaining.remove_node(vertex)
    assert not remaining


def test_a_square_of_equal_sizes_is_cut_along_one_diagonal():
    halves = ("a", "b", "d"), ("b", "c", "d")
    assert triangulated_cliques(nx.cycle_graph("abcd"), dict.fromkeys("abcd", 2)) == halves
    assert triangulated_cliques(nx.Graph(), {}) == ()
    assert triangulated_cliques(nx.Graph([("a", "a")]), {"a": 2}) == (("a",),)


@pytest.mark.parametrize("order", [["a"], ["a", "b", "b"], []])
def test_an_order_that_misses_or_repeats_is_refused(order: list[str]):
    with pytest.raises(BoundaryViolation, match="An elimination order must have"):
        elimination_cliques(nx.Graph([("a", "b")]), order)


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


BITS = dict.fromkeys("abcdef", 2)
Pair = tuple[str, ...]


@st.composite
def growths(draw: st.DrawFn) -> CliqueGrowth:
    """Up to six edges between five attributes, as far as they were accepted."""
    counts = draw(st.lists(st.integers(1, 4), min_size=5, max_size=5))
    growth = CliqueGrowth(dict(zip("abcde", counts, strict=True)), draw(st.integers(1, 64)))
    for pair in draw(st.lists(st.sampled_from(pairs(growth)), unique=True, max_size=6)):
        growth = growth.with_edge(pair)
    return growth


def pairs(growth: CliqueGrowth) -> list[Pair]:
    return list(itertools.combinations(growth.sizes, 2))


def smallest_largest_clique(growth: CliqueGrowth, edges: tuple[Pair, ...]) -> int:
    """Cells of the largest clique of two or more attributes, by the best of all orders."""
    return min(
        max(
            (
                math.prod(growth.sizes[name] for name in clique)
                for clique in elimination_cliques(nx.Graph(edges), order)
                if len(clique) > 1
            ),
            default=0,
        )
        for order in itertools.permutations(growth.sizes)
    )


@pytest.mark.chain
@given(growth=growths())
def test_a_pair_that_fits_has_a_triangulation_within_the_cap(growth: CliqueGrowth):
    assert growth.clique_pairs <= growth.fitting_pairs <= set(pairs(growth))
    for pair in growth.fitting_pairs - growth.clique_pairs:
        assert smallest_largest_clique(growth, (*growth.edges, pair)) <= growth.most_cells
    for clique in growth.cliques:
        cells = math.prod(growth.sizes[name] for name in clique)
        assert len(clique) == 1 or cells <= growth.most_cells


def test_an_edge_over_the_cap_is_not_taken():
    growth = CliqueGrowth({"a": 2, "b": 3}, most_cells=5)
    assert growth.fitting_pairs == frozenset()
    assert growth.with_edge(("a", "b")) is growth


def test_the_ends_of_a_path_fit_as_long_as_triangles_do():
    path = CliqueGrowth(BITS, most_cells=8)
    for pair in itertools.pairwise("abcde"):
        path = path.with_edge(pair)
    assert {("a", "e"), ("a", "f")} <= path.fitting_pairs
    narrow = CliqueGrowth(BITS, 4, path.edges)
    assert {("a", "e"), ("a", "f")} & narrow.fitting_pairs == {("a", "f")}


def test_a_pair_inside_a_clique_is_held_though_it_has_no_edge():
    square = CliqueGrowth(dict.fromkeys("abcd", 2), 8)
    for pair in ("ab", "bc", "cd", "ad"):
        square = square.with_edge(tuple(pair))
    (diagonal,) = square.clique_pairs - set(square.edges)
    assert diagonal in {("a", "c"), ("b", "d")}
    assert diagonal in square.fitting_pairs


def error(cells: Sequence[int]) -> int:
    """The squared error of the tables of these cliques at ε = 1."""
    return 2 * len(cells) ** 2 * sum(cells)


def error_of(tree: JunctionTree, sizes: dict[str, int]) -> int:
    return error(tree.cells(sizes))


def test_the_errors_of_the_worked_example_are_1472_and_936():
    """The figure's cliques, then with C3 = {3, 4, 5} and C4 = {4, 5, 6} merged."""
    c1, c2, c3, c4 = FIGURE_CLIQUES
    merged = tuple(sorted({*c3, *c4}))
    before, after = (
        [cell_count(clique, FIGURE_SIZES) for clique in cliques]
        for cliques in ((c1, c2, c3, c4), (c1, c2, merged))
    )
    assert (before, after, error(before), error(after)) == ([12, 4, 18, 12], [12, 4, 36], 1472, 936)


def test_the_best_merger_comes_first_and_the_cap_stops_them():
    tree = JunctionTree.of(FIGURE_CLIQUES, FIGURE_SIZES)
    # C2 = {2, 5} goes into a table of 12 cells and makes 24 of them: Err 18 · (24 + 18 + 12).
    once = bigger_cliques(tree, FIGURE_SIZES, most_cells=24)
    assert sorted(once.cells(FIGURE_SIZES)) == [12, 18, 24]
    assert error_of(once, FIGURE_SIZES) == 972
    whole = bigger_cliques(tree, FIGURE_SIZES, most_cells=10**6)
    assert whole == JunctionTree((tuple(FIGURE_SIZES),), ())
    assert bigger_cliques(tree, FIGURE_SIZES, most_cells=23).cliques == tree.cliques


@given(case=graphs(), most_cells=st.sampled_from([4, 16, 64, 10**6]))
def test_mergers_lower_the_error_and_respect_the_cap(case: Case, most_cells: int):
    graph, sizes = case
    tree = JunctionTree.of(triangulated_cliques(graph, sizes), sizes)
    bigger = bigger_cliques(tree, sizes, most_cells=most_cells)
    bigger.require_running_intersection()
    assert error_of(bigger, sizes) <= error_of(tree, sizes)
    assert all(any({*old} <= {*new} for new in bigger.cliques) for old in tree.cliques)
    grown = set(bigger.cliques) - set(tree.cliques)
    assert all(cell_count(clique, sizes) <= most_cells for clique in grown)
    for link in bigger.links:
        union = {name for at in link for name in bigger.cliques[at]}
        others = [clique for at, clique in enumerate(bigger.cliques) if at not in link]
        cells = [cell_count(clique, sizes) for clique in (tuple(union), *others)]
        assert cells[0] > most_cells or error(cells) >= error_of(bigger, sizes)


def test_small_trees_are_merged_or_left_alone():
    for cliques in ((), (("a",),)):
        tree = JunctionTree.of(cliques, {"a": 3})
        assert bigger_cliques(tree, {"a": 3}, most_cells=1000) == tree
    inside = JunctionTree((("a", "b"), ("b",)), ((0, 1),))
    assert bigger_cliques(inside, {"a": 2, "b": 2}, most_cells=4).cliques == (("a", "b"),)
