"""Junction trees of cliques of attributes, and the triangulation of graphs of attributes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from dp_pipeline.config.errors import BoundaryViolation

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class JunctionTree:
    """A tree of cliques in which those that share an attribute are connected through others that
    have it too (running intersection).

    cliques   attributes of each, in the order of its table's axes; clique 0 is the root
    links     (parent, child), positions in ``cliques``, breadth-first; cliques that share nothing
              are linked too

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

    @property
    def order(self) -> tuple[int, ...]:
        """The positions of the cliques, every parent before its children."""
        return tuple(range(len(self.cliques)))[:1] + tuple(child for _, child in self.links)

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
        """Raise BoundaryViolation unless the links lead from clique 0 to every other clique once,
        and each clique's parent has all that the clique shares with earlier ones in ``order``."""
        if sorted(self.order) != list(range(len(self.cliques))):
            raise BoundaryViolation(
                f"A junction tree must link each of its {len(self.cliques)} cliques but the "
                f"first once, but links lead to {', '.join(map(str, self.order[1:])) or 'none'}"
            )
        seen = {index: set(clique) for index, clique in enumerate(self.cliques[:1])}
        attributes = set().union(*seen.values())
        for parent, child in self.links:
            clique = set(self.cliques[child])
            if parent not in seen:
                raise BoundaryViolation(
                    "The links of a junction tree must be in order from clique 0 outwards, but no "
                    f"link before ({parent}, {child}) leads to clique {parent}"
                )
            if not clique & attributes <= seen[parent]:
                raise BoundaryViolation(
                    f"Cliques with a common attribute must be connected, but clique {child} "
                    f"({', '.join(self.cliques[child])}) hangs below a clique without "
                    f"{', '.join(sorted(clique & attributes - seen[parent]))}: link it "
                    "elsewhere"
                )
            seen[child] = clique
            attributes |= clique


def cell_count(clique: Sequence[str], sizes: Mapping[str, int]) -> int:
    """Return the number of cells of a table over some attributes, the product of their sizes.

    >>> cell_count(("a", "b"), {"a": 2, "b": 3})
    6
    """
    return math.prod(sizes[name] for name in clique)


def elimination_cliques(graph: nx.Graph, order: Sequence[str]) -> tuple[frozenset[str], ...]:
    """Return the maximal cliques that ``graph`` has after its triangulation along ``order``, in the
    order in which they arise; the graph is left unchanged.

    For each u in ``order`` all pairs of its neighbours that are not yet eliminated are
    connected, and N(u) ∪ {u} is a clique (Triangulation-Partition: Zhang et al., J. Computer
    Research and Development 55(12), 2018, Algorithm 3). Names of ``order`` that are no
    vertices count as vertices without edges. BoundaryViolation unless ``order`` has every
    vertex once.

    >>> import networkx as nx
    >>> square = nx.cycle_graph(["a", "b", "c", "d"])
    >>> [sorted(clique) for clique in elimination_cliques(square, ["a", "b", "c", "d"])]
    [['a', 'b', 'd'], ['b', 'c', 'd']]
    """
    neighbours = _neighbours(graph, order)
    cliques: list[int] = []
    for index in range(len(order)):
        clique = _eliminate(neighbours, index) | 1 << index
        # A later clique lacks ``index``, so only an earlier one can contain this one.
        if all(clique & ~earlier for earlier in cliques):
            cliques.append(clique)
    return tuple(frozenset(order[index] for index in members_of(clique)) for clique in cliques)


def min_fill_order(graph: nx.Graph, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return an elimination order that always takes the vertex that adds the fewest edges.

    sizes   vertex → levels of the attribute

    Ties go to the vertex whose clique has the fewest cells, then to the first in ``sizes``:
    the order is a function of public values. BoundaryViolation for a vertex without a size.

    >>> import networkx as nx
    >>> min_fill_order(nx.path_graph(["a", "b", "c"]), {"a": 9, "b": 2, "c": 3})
    ('c', 'a', 'b')
    """
    names, cells = tuple(sizes), tuple(sizes.values())
    neighbours = _neighbours(graph, names)
    costs = {index: _cost(neighbours, index, cells) for index in range(len(names))}
    order = []
    while costs:
        fill, _, best = min(costs.values())
        del costs[best]
        order.append(names[best])
        changed = around = _eliminate(neighbours, best)
        # A new edge changes the fill of every vertex that sees both of its ends.
        for index in members_of(around if fill else 0):
            changed |= neighbours[index]
        costs.update({index: _cost(neighbours, index, cells) for index in members_of(changed)})
    return tuple(order)


def triangulated_cliques(graph: nx.Graph, sizes: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """Return the maximal cliques that ``graph`` has after triangulation in min-fill order.

    sizes   vertex → levels of the attribute; those that the graph lacks have no edges

    Names inside a clique are in the order of ``sizes``; an attribute without edges is a clique of
    its own. BoundaryViolation for a vertex without a size.

    >>> import networkx as nx
    >>> triangulated_cliques(nx.Graph([("c", "a")]), {"a": 2, "b": 2, "c": 2})
    (('b',), ('a', 'c'))
    """
    cliques = elimination_cliques(graph, min_fill_order(graph, sizes))
    return tuple(tuple(name for name in sizes if name in clique) for clique in cliques)


def _neighbours(graph: nx.Graph, order: Sequence[str]) -> list[int]:
    """Return the neighbours of each vertex of ``order``, as the bits of an integer."""
    places = {name: index for index, name in enumerate(order)}
    if len(places) != len(order):
        raise BoundaryViolation(
            f"An elimination order must have each vertex once, but it has {len(order)} entries for "
            f"{len(places)} vertices: leave repeated ones out"
        )
    missing = next((vertex for vertex in graph if vertex not in places), None)
    if missing is not None:
        raise BoundaryViolation(
            f"An elimination order must have every vertex of its graph, but lacks {missing}: add it"
        )
    neighbours = [0] * len(order)
    for left, right in graph.edges:
        if left != right:
            neighbours[places[left]] |= 1 << places[right]
            neighbours[places[right]] |= 1 << places[left]
    return neighbours


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
