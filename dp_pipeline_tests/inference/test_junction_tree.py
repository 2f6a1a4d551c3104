"""Cliques of graphs, the trees that join them, how they grow, and which mergers pay."""

import itertools
import math
from collections.abc import Iterable, Sequence

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.inference.clique_growth import CliqueGrowth, bigger_cliques
from dp_pipeline.inference.junction_tree import (
    JunctionTree,
    cell_count,
    triangulated_cliques,
)

FIGURE = tuple(
    frozenset(f"a{number}" for number in clique) for clique in ("135", "25", "345", "456")
)
"""Cliques of the paper's Markov network."""
NAMES = tuple(f"a{number}" for number in range(1, 7))


FIGURE_SIZES = dict(zip(NAMES, (2, 2, 3, 3, 2, 2), strict=True))

Pair = tuple[str, ...]
Case = tuple[list[Pair], dict[str, int]]


@st.composite
def graphs(draw: st.DrawFn) -> Case:
    """Up to 9 attributes with sizes, any pairs of them connected."""
    names = [f"x{at}" for at in range(draw(st.integers(0, 9)))]
    pairs = list(itertools.combinations(names, 2))
    edges = draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []
    return edges, {name: draw(st.integers(1, 5)) for name in names}


def eliminated(edges: Iterable[Pair], order: Iterable[str]) -> list[frozenset[str]]:
    """Algorithm 3 line by line: the maximal cliques in the order in which they arise."""
    around: dict[str, set[str]] = {name: set() for name in order}
    for left, right in edges:
        around[left].add(right)
        around[right].add(left)
    cliques = []
    for name in order:
        clique = {name, *around.pop(name)}
        for other in clique - {name}:
            around[other] |= clique
            around[other] -= {name, other}
        cliques.append(frozenset(clique))
    return [clique for clique in cliques if not any(clique < other for other in cliques)]


def min_fill_order(edges: list[Pair], sizes: dict[str, int]) -> list[str]:
    """Vertices by least fill; on a tie by fewest cells of their cliques, then as in ``sizes``."""
    remaining = nx.Graph(edges)
    remaining.add_nodes_from(sizes)

    def cost(vertex: str) -> tuple[int, int, int]:
        pairs = itertools.combinations(remaining[vertex], 2)
        cells = math.prod(sizes[name] for name in (vertex, *remaining[vertex]))
        return (
            sum(not remaining.has_edge(*pair) for pair in pairs),
            cells,
            list(sizes).index(vertex),
        )

    order = []
    while remaining:
        order.append(min(remaining, key=cost))
        remaining.add_edges_from(list(itertools.combinations(remaining[order[-1]], 2)))
        remaining.remove_node(order[-1])
    return order


def test_the_cliques_of_the_figure_are_found():
    pairs = {pair for clique in FIGURE for pair in itertools.combinations(sorted(clique), 2)}
    assert set(map(frozenset, triangulated_cliques(pairs, FIGURE_SIZES))) == set(FIGURE)
    for filled_in in (), ("a3", "a5"), ("a4", "a5"):
        assert eliminated(pairs - {filled_in}, NAMES) == list(FIGURE)


@given(case=graphs())
def test_cliques_are_those_of_the_graph_in_min_fill_order(case: Case):
    cliques = triangulated_cliques(*case)
    expected = eliminated(case[0], min_fill_order(*case))
    assert list(map(frozenset, cliques)) == expected
    filled = nx.Graph(pair for clique in cliques for pair in itertools.combinations(clique, 2))
    filled.add_nodes_from(case[1])
    assert set(expected) == {frozenset(clique) for clique in nx.find_cliques(filled)}
    assert nx.is_chordal(filled)


@given(case=graphs())
def test_every_edge_and_every_attribute_is_in_a_clique(case: Case):
    edges, sizes = case
    cliques = triangulated_cliques(edges, sizes)
    assert {name for clique in cliques for name in clique} == set(sizes)
    assert all(any({*edge} <= set(clique) for clique in cliques) for edge in edges)
    assert all(list(clique) == [name for name in sizes if name in clique] for clique in cliques)


def test_a_square_of_equal_sizes_is_cut_along_one_diagonal():
    halves = ("a", "b", "d"), ("b", "c", "d")
    square = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    assert triangulated_cliques(square, dict.fromkeys("abcd", 2)) == halves
    assert triangulated_cliques([], {}) == ()


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
    edges, sizes = case
    cliques = triangulated_cliques(edges, sizes)
    tree = JunctionTree.of(cliques, sizes)
    assert sorted(tree.cliques) == sorted(cliques)
    assert not cliques or hangs_together(tree)
    assert [child for _, child in tree.links] == list(range(1, len(cliques)))
    assert all(parent < child for parent, child in tree.links)
    other = JunctionTree.of(tuple(data.draw(st.permutations(cliques))), sizes)
    first, second = (sorted(map(each.separator, each.links)) for each in (tree, other))
    assert first == second


@given(case=graphs())
def test_the_check_agrees_with_the_definition(case: Case):
    edges, sizes = case
    graph = nx.Graph(edges)
    graph.add_nodes_from(sizes)
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
    assert JunctionTree.of(((),), {}).cells({}) == (1,)


def test_links_that_are_no_junction_tree_are_refused():
    tree = JunctionTree((("a", "b"), ("b", "c"), ("c", "d")), ((0, 1), (0, 2)))
    with pytest.raises(
        BoundaryViolation, match=r"clique 2 \(c, d\) hangs below a clique without c"
    ):
        tree.require_running_intersection()


BITS = dict.fromkeys("abcdef", 2)


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
                for clique in eliminated(edges, order)
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
    edges, sizes = case
    tree = JunctionTree.of(triangulated_cliques(edges, sizes), sizes)
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
