"""A growing graph: which edges it has room for, and how large its cliques become."""

import itertools
import math

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.inference.clique_growth import CliqueGrowth
from dp_pipeline.inference.junction_tree import elimination_cliques

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
