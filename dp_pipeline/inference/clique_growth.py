"""Graphs of attributes whose cliques grow by edges or mergers while their tables stay small."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from dp_pipeline.config.encoding import Names
from dp_pipeline.inference.junction_tree import JunctionTree, cell_count, triangulated_cliques

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class CliqueGrowth:
    """A graph of attributes to which edges are added while its cliques keep to a limit of cells.

    sizes        cells of every attribute, the graph's vertices; pairs are in this order
    most_cells   of a clique of two attributes or more
    edges        of the graph, pairs of attributes

    >>> growth = CliqueGrowth({"a": 2, "b": 2, "c": 2, "d": 9}, most_cells=4)
    >>> growth.with_edge(("a", "b")).with_edge(("b", "c")).cliques
    (('a', 'b'), ('b', 'c'), ('d',))
    """

    sizes: Mapping[str, int]
    most_cells: int
    edges: tuple[Names, ...] = ()

    @cached_property
    def cliques(self) -> tuple[Names, ...]:
        """The maximal cliques after triangulation in min-fill order, with names as in ``sizes``."""
        return triangulated_cliques(self.edges, self.sizes)

    def with_edge(self, pair: Names) -> CliqueGrowth:
        """Return a new graph with one more edge, or this graph if a clique of two attributes or
        more would exceed the limit of cells."""
        grown = replace(self, edges=(*self.edges, pair))
        cells = (cell_count(clique, self.sizes) for clique in grown.cliques if len(clique) > 1)
        return grown if max(cells, default=0) <= self.most_cells else self

    @cached_property
    def clique_pairs(self) -> frozenset[Names]:
        """The pairs of attributes inside a clique, so that an edge between them changes nothing."""
        return frozenset(pair for clique in self.cliques for pair in combinations(clique, 2))

    @cached_property
    def fitting_pairs(self) -> frozenset[Names]:
        """The pairs, ``clique_pairs`` included, whose edge certainly keeps some triangulation
        within the limit of cells.

        For an edge u–v in one component, u can be joined to every separator on the way through
        the junction tree from its cliques to those of v: that leaves a chordal graph, whose new
        cliques are u with two separators in a row, and u, v with the last one.
        """
        reach = {name: set(self._within_reach(name)) for name in self.sizes}
        pairs = combinations(self.sizes, 2)
        return self.clique_pairs.union((a, b) for a, b in pairs if b in reach[a] or a in reach[b])

    def _within_reach(self, name: str) -> Iterator[str]:
        """Yield attributes, in no clique with this one, whose edge to it certainly keeps the
        cliques within the limit of cells."""
        import networkx as nx

        start = [clique for clique in self._forest if name in clique]
        seen, to_do = set(start), [(clique, frozenset[str]()) for clique in start]
        while to_do:
            clique, into = to_do.pop()
            for beyond in set(self._forest[clique]) - seen:
                separator = clique & beyond
                if into and cell_count({*into, *separator, name}, self.sizes) > self.most_cells:
                    continue
                seen.add(beyond)
                to_do.append((beyond, separator))
                yield from self._fitting(beyond - separator, {*separator, name})
        component = set[str]().union(*nx.node_connected_component(self._forest, start[0]))
        yield from self._fitting(self.sizes.keys() - component, {name})

    def _fitting(self, others: Set[str], to: Set[str]) -> list[str]:
        room = self.most_cells // cell_count(to, self.sizes)
        return [other for other in others if self.sizes[other] <= room]

    @cached_property
    def _forest(self) -> nx.Graph:
        """A junction tree for each component of the graph, with sets of attributes as nodes."""
        import networkx as nx

        sets = [frozenset(clique) for clique in self.cliques]
        graph = nx.Graph()
        graph.add_nodes_from(sets)
        graph.add_weighted_edges_from((a, b, len(a & b)) for a, b in combinations(sets, 2) if a & b)
        return nx.maximum_spanning_tree(graph)


def bigger_cliques(
    tree: JunctionTree, sizes: Mapping[str, int], *, most_cells: int
) -> JunctionTree:
    """Return the junction tree with linked cliques merged, one link after another, while that
    lowers the expected error of the noisy tables of all cliques.

    sizes        levels of every attribute
    most_cells   of a merged clique; cliques that have more already stay as they are

    Tables of m cliques that share ε have the squared error 2m²/ε² · Σ_C |Ω_C|: each of |Ω_C| cells
    has Laplace noise of scale m/ε (Zhang et al., J. Computer Research and Development 55(12), 2018,
    Equation 13). The paper's example prints m² times the cells of the *whole* domain, without the
    2/ε² and the sum: 2304 → 1296 for this 1472 → 936, the same direction.

    Names of a merged clique are in the order of ``sizes``. A contracted link leaves a tree with
    running intersection. (Bigger-Clique: the same paper, Algorithm 5; its maximum-cardinality
    labelling adds no edge to a chordal graph, so each step is the merger of its example.)

    >>> tree = JunctionTree((("a", "b"), ("b", "c")), ((0, 1),))
    >>> bigger_cliques(tree, {"a": 2, "b": 2, "c": 2}, most_cells=8).cliques
    (('a', 'b', 'c'),)
    """

    def added_cells(link: tuple[int, int]) -> float:
        merged = cell_count(_union(tree, link, sizes), sizes)
        if merged > most_cells:
            return math.inf
        return merged - sum(cell_count(tree.cliques[place], sizes) for place in link)

    while tree.links:
        growth, link = min((added_cells(link), link) for link in tree.links)
        number, cells = len(tree.cliques), sum(tree.cells(sizes))
        if (number - 1) ** 2 * (cells + growth) >= number**2 * cells:
            break
        others = [clique for place, clique in enumerate(tree.cliques) if place not in link]
        tree = JunctionTree.of([*others, _union(tree, link, sizes)], sizes)
    return tree


def _union(tree: JunctionTree, link: tuple[int, int], sizes: Mapping[str, int]) -> tuple[str, ...]:
    members = {name for place in link for name in tree.cliques[place]}
    return tuple(name for name in sizes if name in members)
