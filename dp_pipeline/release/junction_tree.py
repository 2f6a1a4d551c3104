"""JunctionTree: cliques of attributes and the tree that joins them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from dp_pipeline.schema.errors import BoundaryViolation


@dataclass(frozen=True)
class JunctionTree:
    """Cliques, and links (parent, child) that span them breadth-first from clique 0.

    cliques   attributes of each, in the order of its table's axes
    links     positions in ``cliques``; cliques that share nothing are linked too

    >>> tree = JunctionTree.of((("a", "b"), ("b", "c"), ("d",)), {"a": 2, "b": 2, "c": 3, "d": 2})
    >>> tree.cliques, tree.links
    ((('b', 'c'), ('a', 'b'), ('d',)), ((0, 1), (1, 2)))
    >>> tree.separator((0, 1)), tree.separator((1, 2))
    (('b',), ())
    """

    cliques: tuple[tuple[str, ...], ...]
    links: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, cliques: Sequence[tuple[str, ...]], sizes: Mapping[str, int]) -> JunctionTree:
        """The maximum spanning tree of the clique graph, weighted by the attributes shared.

        The root is the clique with the most cells, and ``cliques`` of the tree are in
        breadth-first order from it, each with its names as given. Ties go to the earlier
        cliques: all junction trees of a graph have the same separators (Build-Noisy-
        JunctionTree: Zhang et al., J. Computer Research and Development 55(12), 2018,
        Algorithm 4). BoundaryViolation when no tree over the cliques has running
        intersection: cliques of a triangulated graph always have one.
        """
        if not cliques:
            return cls((), ())
        cells = [cell_count(clique, sizes) for clique in cliques]
        root = cells.index(max(cells))
        links = _spanning(cliques, root)
        order = (root, *(child for _, child in links))
        place = {at: rank for rank, at in enumerate(order)}
        tree = cls(
            tuple(tuple(cliques[at]) for at in order),
            tuple((place[parent], place[child]) for parent, child in links),
        )
        tree.require_running_intersection()
        return tree

    @property
    def order(self) -> tuple[int, ...]:
        """Positions of the cliques, every parent before its children."""
        return tuple(range(len(self.cliques)))[:1] + tuple(child for _, child in self.links)

    def separator(self, link: tuple[int, int]) -> tuple[str, ...]:
        """Attributes that both cliques of a link have, in the child's order."""
        parent, child = link
        return tuple(name for name in self.cliques[child] if name in self.cliques[parent])

    def cells(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Cells of every clique's table, in the order of ``cliques``.

        >>> JunctionTree((("a", "b"), ("b", "c")), ((0, 1),)).cells({"a": 2, "b": 2, "c": 3})
        (4, 6)
        """
        return tuple(cell_count(clique, sizes) for clique in self.cliques)

    def require_running_intersection(self) -> None:
        """BoundaryViolation unless the links span the cliques from clique 0, and the cliques with
        any one attribute hang together.

        Along ``order`` that is: what a clique shares with any earlier one, its parent has.
        """
        if sorted(self.order) != list(range(len(self.cliques))):
            raise BoundaryViolation(
                f"junction tree: expected a link to each of {len(self.cliques)} cliques but the "
                f"first, got {len(self.links)} links"
            )
        seen = {at: set(clique) for at, clique in enumerate(self.cliques[:1])}
        known = set().union(*seen.values())
        for parent, child in self.links:
            clique = set(self.cliques[child])
            if parent not in seen:
                raise BoundaryViolation(
                    f"junction tree: expected links from clique 0 outwards, got clique {child} "
                    f"below clique {parent} too early"
                )
            if not clique & known <= seen[parent]:
                raise BoundaryViolation(
                    f"junction tree: expected running intersection, got clique {child} "
                    f"({', '.join(self.cliques[child])}) below a clique without "
                    f"{', '.join(sorted(clique & known - seen[parent]))}"
                )
            seen[child] = clique
            known |= clique


def cell_count(clique: Sequence[str], sizes: Mapping[str, int]) -> int:
    """Cells of the table over a clique; 1 for no attribute.

    >>> cell_count(("a", "b"), {"a": 2, "b": 3})
    6
    """
    return math.prod(sizes[name] for name in clique)


def _spanning(cliques: Sequence[tuple[str, ...]], root: int) -> list[tuple[int, int]]:
    """Links of the heaviest tree over the cliques, breadth-first from ``root``."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(len(cliques)))
    graph.add_weighted_edges_from(
        (at, other, len(set(left) & set(right)))
        for (at, left), (other, right) in combinations(enumerate(cliques), 2)
    )
    return list(nx.bfs_edges(nx.maximum_spanning_tree(graph), root, sort_neighbors=sorted))
