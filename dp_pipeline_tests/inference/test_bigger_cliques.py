"""Bigger cliques: the worked example, and mergers that pay."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.inference.clique_growth import bigger_cliques
from dp_pipeline.inference.junction_tree import JunctionTree, cell_count, triangulated_cliques
from dp_pipeline_tests.inference.test_graph import Case, graphs
from dp_pipeline_tests.inference.test_junction_tree import FIGURE_CLIQUES, FIGURE_SIZES


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
