"""CliqueGrowth: a graph of attributes that grows edge by edge while its cliques stay small.

Fewer and bigger cliques where that lowers the error of their noisy tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations

from dp_pipeline.config.encoding import Names
from dp_pipeline.inference.junction_tree import (
    JunctionTree,
    cell_count,
    members_of,
    triangulated_cliques,
)


@dataclass(frozen=True)
class CliqueGrowth:
    """A graph with the cliques of its triangulation, to which edges are added below a limit of
    cells.

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
        import networkx as nx

        return triangulated_cliques(nx.Graph(self.edges), self.sizes)

    def with_edge(self, pair: Names) -> CliqueGrowth:
        """Return the graph with one more edge, or unchanged if a clique would exceed the limit
        of cells."""
        grown = replace(self, edges=(*self.edges, pair))
        cells = (
            math.prod(self.sizes[name] for name in clique)
            for clique in grown.cliques
            if len(clique) > 1
        )
        return grown if max(cells, default=0) <= self.most_cells else self

    @cached_property
    def held(self) -> frozenset[Names]:
        """The pairs that are inside a clique already, so that an edge between them changes no
        clique."""
        return frozenset(pair for clique in self.cliques for pair in combinations(clique, 2))

    @cached_property
    def fitting(self) -> frozenset[Names]:
        """The pairs whose edge certainly has a triangulation below the limit of cells, including
        those in cliques.

        For an edge u–v in one component, u can be joined to every separator on the way through
        the junction tree from its cliques to those of v: that leaves a chordal graph, whose new
        cliques are u with two separators in a row, and u, v with the last one.
        """
        names = tuple(self.sizes)
        found = set(self.held)
        for index in range(len(names)):
            for other in self._within_reach(index):
                first, second = sorted((index, other))
                found.add((names[first], names[second]))
        return frozenset(found)

    def _within_reach(self, index: int) -> Iterator[int]:
        """Yield the attributes outside an attribute's cliques that can be joined to it from its
        side."""
        one = 1 << index
        start = [clique for clique, members in enumerate(self._sets) if members & one]
        around, seen = 0, set(start)
        to_do = [(clique, 0) for clique in start]
        while to_do:
            clique, into = to_do.pop()
            for beyond, separator in self._forest.links[clique]:
                around |= self._sets[beyond]
                too_large = into and self._cells(into | separator | one) > self.most_cells
                if beyond in seen or too_large:
                    continue
                seen.add(beyond)
                to_do.append((beyond, separator))
                yield from self._fitting(self._sets[beyond] & ~separator, separator | one)
        yield from self._fitting(self._apart(index), one)

    def _fitting(self, others: int, to: int) -> Iterator[int]:
        """Yield those attributes of ``others`` that fit into a clique with all of ``to``."""
        room = self.most_cells // self._cells(to)
        return (index for index in members_of(others) if self._counts[index] <= room)

    def _apart(self, index: int) -> int:
        """Return the attributes in other components, as the bits of an integer."""
        everyone = (1 << len(self._counts)) - 1
        return everyone & ~next(part for part in self._forest.parts if part >> index & 1)

    def _cells(self, attributes: int) -> int:
        return math.prod(self._counts[index] for index in members_of(attributes))

    @cached_property
    def _counts(self) -> tuple[int, ...]:
        return tuple(self.sizes.values())

    @cached_property
    def _sets(self) -> tuple[int, ...]:
        """Every clique as the bits of an integer."""
        places = {name: index for index, name in enumerate(self.sizes)}
        return tuple(sum(1 << places[name] for name in clique) for clique in self.cliques)

    @cached_property
    def _forest(self) -> _Forest:
        return _Forest.over(self._sets)


@dataclass(frozen=True)
class _Forest:
    """A junction tree for each component of a graph.

    links   of every clique: (clique, separator)
    parts   attributes of every component
    """

    links: tuple[tuple[tuple[int, int], ...], ...]
    parts: tuple[int, ...]

    @classmethod
    def over(cls, cliques: Sequence[int]) -> _Forest:
        links: list[list[tuple[int, int]]] = [[] for _ in cliques]
        trees, parts = list(range(len(cliques))), dict(enumerate(cliques))
        for first, second in sorted(_sharing(cliques), key=lambda two: -_shared(cliques, *two)):
            here, there = trees[first], trees[second]
            if here == there:
                continue
            separator = cliques[first] & cliques[second]
            links[first].append((second, separator))
            links[second].append((first, separator))
            parts[here] |= parts.pop(there)
            trees = [here if tree == there else tree for tree in trees]
        return cls(tuple(map(tuple, links)), tuple(parts.values()))


def _sharing(cliques: Sequence[int]) -> Iterator[tuple[int, int]]:
    for first, second in combinations(range(len(cliques)), 2):
        if cliques[first] & cliques[second]:
            yield first, second


def _shared(cliques: Sequence[int], first: int, second: int) -> int:
    return (cliques[first] & cliques[second]).bit_count()


def expected_error(cells: Sequence[int], epsilon: Fraction) -> Fraction:
    """Return the expected squared error of the tables of m cliques that share ε: 2m²/ε² · Σ_C
    |Ω_C|.

    Each of |Ω_C| cells has Laplace noise of scale m/ε, of variance 2(m/ε)² (Zhang et al., J.
    Computer Research and Development 55(12), 2018, Equation 13). The paper's example prints m²
    times the cells of the *whole* domain, without the 2/ε² and the sum over cliques: 2304 → 1296
    for this 1472 → 936, the same direction.

    >>> expected_error([12, 4, 18, 12], Fraction(1)), expected_error([12, 4, 36], Fraction(1))
    (Fraction(1472, 1), Fraction(936, 1))
    """
    return 2 * len(cells) ** 2 * sum(cells) / epsilon**2


def bigger_cliques(
    tree: JunctionTree, sizes: Mapping[str, int], *, most_cells: int
) -> JunctionTree:
    """Return the tree with linked cliques merged while that lowers :func:`expected_error`.

    sizes        cells of every attribute
    most_cells   of a merged clique; cliques that have more already stay as they are

    Names of a merged clique are in the order of ``sizes``. A contracted link leaves a tree with
    running intersection. ε is the same before and after, so it decides nothing. (Bigger-Clique:
    the same paper, Algorithm 5; its maximum-cardinality labelling adds no edge to a chordal
    graph, so the step that is taken is the merger that its example shows.)

    >>> tree = JunctionTree((("a", "b"), ("b", "c")), ((0, 1),))
    >>> bigger_cliques(tree, {"a": 2, "b": 2, "c": 2}, most_cells=8).cliques
    (('a', 'b', 'c'),)
    """
    while tree.links:
        growth, link = min((_growth(tree, edge, sizes, most_cells), edge) for edge in tree.links)
        number, cells = len(tree.cliques), sum(tree.cells(sizes))
        if (number - 1) ** 2 * (cells + growth) >= number**2 * cells:
            break
        others = [clique for place, clique in enumerate(tree.cliques) if place not in link]
        tree = JunctionTree.of([*others, _union(tree, link, sizes)], sizes)
    return tree


def _growth(
    tree: JunctionTree, link: tuple[int, int], sizes: Mapping[str, int], most_cells: int
) -> float:
    """Return the number of cells that merging the cliques of a link adds; infinite above
    ``most_cells``."""
    merged = cell_count(_union(tree, link, sizes), sizes)
    if merged > most_cells:
        return math.inf
    return merged - sum(cell_count(tree.cliques[place], sizes) for place in link)


def _union(tree: JunctionTree, link: tuple[int, int], sizes: Mapping[str, int]) -> tuple[str, ...]:
    members = {name for place in link for name in tree.cliques[place]}
    return tuple(name for name in sizes if name in members)
