"""Junction trees of cliques of attributes, and the triangulation of graphs of attributes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from dp_pipeline.config.errors import BoundaryViolation


@dataclass(frozen=True)
class JunctionTree:
    """A tree of cliques in which those that share an attribute are connected through others that
    have it too (running intersection).

    cliques   attributes of each, in the order of its table's axes; clique 0 is the root
    links     (parent, child), positions in ``cliques``, one for each child 1, 2, …; cliques that
              share nothing are linked too

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
        """Return the junction tree of these cliques: the spanning tree whose linked cliques share
        the most attributes.

        sizes   levels of every attribute

        The root is the clique with the most cells, and the tree's cliques are in breadth-first
        order from it, each with its names as given. Ties go to the earlier cliques: all junction
        trees of a graph have the same separators (Build-Noisy-JunctionTree: Zhang et al., J.
        Computer Research and Development 55(12), 2018, Algorithm 4). BoundaryViolation when no tree
        over the cliques has running intersection; cliques of a triangulated graph always have one.
        Without cliques the tree is empty.
        """
        if not cliques:
            return cls((), ())
        import networkx as nx

        cells = [cell_count(clique, sizes) for clique in cliques]
        root = cells.index(max(cells))
        graph = nx.Graph()
        graph.add_nodes_from(range(len(cliques)))
        graph.add_weighted_edges_from(
            (index, other, len(set(left) & set(right)))
            for (index, left), (other, right) in combinations(enumerate(cliques), 2)
        )
        spanning = nx.maximum_spanning_tree(graph)
        links = list(nx.bfs_edges(spanning, root, sort_neighbors=sorted))
        order = (root, *(child for _, child in links))
        place = {index: rank for rank, index in enumerate(order)}
        tree = cls(
            tuple(tuple(cliques[index]) for index in order),
            tuple((place[parent], place[child]) for parent, child in links),
        )
        tree.require_running_intersection()
        return tree

    def separator(self, link: tuple[int, int]) -> tuple[str, ...]:
        """Return the attributes that both cliques of a link (parent, child) have, in the child's
        order."""
        parent, child = link
        return tuple(name for name in self.cliques[child] if name in self.cliques[parent])

    def cells(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the number of cells of every clique's table, in the order of ``cliques``.

        sizes   levels of every attribute

        >>> JunctionTree((("a", "b"), ("b", "c")), ((0, 1),)).cells({"a": 2, "b": 2, "c": 3})
        (4, 6)
        """
        return tuple(cell_count(clique, sizes) for clique in self.cliques)

    def require_running_intersection(self) -> None:
        """Raise BoundaryViolation unless each clique's parent has all that the clique shares with
        earlier ones."""
        attributes = {name for clique in self.cliques[:1] for name in clique}
        for parent, child in self.links:
            clique = {*self.cliques[child]}
            lost = clique & attributes - {*self.cliques[parent]}
            if lost:
                raise BoundaryViolation(
                    f"Cliques with a common attribute must be connected, but clique {child} "
                    f"({', '.join(self.cliques[child])}) hangs below a clique without "
                    f"{', '.join(sorted(lost))}: link it elsewhere"
                )
            attributes |= clique


def cell_count(clique: Iterable[str], sizes: Mapping[str, int]) -> int:
    """Return the number of cells of a table over some attributes, the product of their sizes.

    >>> cell_count(("a", "b"), {"a": 2, "b": 3})
    6
    """
    return math.prod(sizes[name] for name in clique)


def triangulated_cliques(
    edges: Iterable[tuple[str, ...]], sizes: Mapping[str, int]
) -> tuple[tuple[str, ...], ...]:
    """Return the maximal cliques that a graph of attributes has after its triangulation in min-fill
    order, each with its names in the order of ``sizes``.

    edges   pairs of attributes
    sizes   levels of every attribute; one without edges is a clique of its own

    The attribute that adds the fewest edges is eliminated first, on a tie the one whose clique has
    the fewest cells, then the first in ``sizes``: the order is a function of public values. All
    its remaining neighbours are connected, and form a clique with it (Triangulation-Partition:
    Zhang et al., J. Computer Research and Development 55(12), 2018, Algorithm 3).

    >>> triangulated_cliques([("c", "a")], {"a": 2, "b": 2, "c": 2})
    (('b',), ('a', 'c'))
    """
    names, cells = tuple(sizes), tuple(sizes.values())
    places = {name: index for index, name in enumerate(names)}
    neighbours = [0] * len(names)
    for left, right in edges:
        neighbours[places[left]] |= 1 << places[right]
        neighbours[places[right]] |= 1 << places[left]
    costs = {index: _cost(neighbours, index, cells) for index in range(len(names))}
    cliques: list[int] = []
    while costs:
        fill, _, best = min(costs.values())
        del costs[best]
        changed = around = _eliminate(neighbours, best)
        # A later clique lacks this attribute, so only an earlier one can contain this one.
        if all((around | 1 << best) & ~earlier for earlier in cliques):
            cliques.append(around | 1 << best)
        # A new edge changes the fill of every vertex that sees both of its ends.
        for index in members_of(around if fill else 0):
            changed |= neighbours[index]
        costs.update({index: _cost(neighbours, index, cells) for index in members_of(changed)})
    return tuple(tuple(names[index] for index in members_of(clique)) for clique in cliques)


def _eliminate(neighbours: list[int], index: int) -> int:
    """Connect all neighbours of a vertex with each other, remove the vertex, and return these
    neighbours as bits."""
    around = neighbours[index]
    for vertex in members_of(around):
        neighbours[vertex] = (neighbours[vertex] | around) & ~(1 << vertex | 1 << index)
    neighbours[index] = 0
    return around


def _cost(neighbours: list[int], index: int, cells: Sequence[int]) -> tuple[int, int, int]:
    """Return the number of edges that eliminating a vertex adds, the cells of its clique, and the
    vertex."""
    missing, product = 0, cells[index]
    around = neighbours[index]
    for vertex in members_of(around):
        # A vertex is no neighbour of itself.
        missing += (around & ~neighbours[vertex]).bit_count() - 1
        product *= cells[vertex]
    return missing // 2, product, index


def members_of(vertices: int) -> Iterator[int]:
    """Yield the positions of the bits that are set in an integer, smallest first."""
    while vertices:
        lowest = vertices & -vertices
        yield lowest.bit_length() - 1
        vertices ^= lowest
