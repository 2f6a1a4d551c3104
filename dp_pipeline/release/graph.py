"""Triangulation of a graph of attributes: elimination orders and the cliques that they leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dp_pipeline.schema.errors import BoundaryViolation

if TYPE_CHECKING:
    import networkx as nx


def elimination_cliques(graph: nx.Graph, order: Sequence[str]) -> tuple[frozenset[str], ...]:
    """Maximal cliques of ``graph`` after its triangulation along ``order``, as they arise.

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
    for at in range(len(order)):
        clique = _eliminate(neighbours, at) | 1 << at
        # A later clique lacks ``at``, so only an earlier one can contain this one.
        if all(clique & ~earlier for earlier in cliques):
            cliques.append(clique)
    return tuple(frozenset(order[at] for at in _members(clique)) for clique in cliques)


def min_fill_order(graph: nx.Graph, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """An elimination order: each time the vertex that adds the fewest edges.

    sizes   cells of every attribute; their keys are the vertices

    Ties go to the vertex whose clique has the fewest cells, then to the first in ``sizes``:
    the order is a function of public values. BoundaryViolation for a vertex without a size.

    >>> import networkx as nx
    >>> min_fill_order(nx.path_graph(["a", "b", "c"]), {"a": 9, "b": 2, "c": 3})
    ('c', 'a', 'b')
    """
    names, cells = tuple(sizes), tuple(sizes.values())
    neighbours = _neighbours(graph, names)
    costs = {at: _cost(neighbours, at, cells) for at in range(len(names))}
    order = []
    while costs:
        fill, _, best = min(costs.values())
        del costs[best]
        order.append(names[best])
        changed = around = _eliminate(neighbours, best)
        # A new edge changes the fill of every vertex that sees both of its ends.
        for at in _members(around if fill else 0):
            changed |= neighbours[at]
        costs.update({at: _cost(neighbours, at, cells) for at in _members(changed)})
    return tuple(order)


def triangulated_cliques(graph: nx.Graph, sizes: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """Maximal cliques of ``graph`` after triangulation in min-fill order.

    Names inside a clique are in the order of ``sizes``; an attribute without edges is a
    clique of its own. BoundaryViolation for a vertex without a size.

    >>> import networkx as nx
    >>> triangulated_cliques(nx.Graph([("c", "a")]), {"a": 2, "b": 2, "c": 2})
    (('b',), ('a', 'c'))
    """
    cliques = elimination_cliques(graph, min_fill_order(graph, sizes))
    return tuple(tuple(name for name in sizes if name in clique) for clique in cliques)


def _neighbours(graph: nx.Graph, order: Sequence[str]) -> list[int]:
    """Neighbours of each vertex of ``order``, as the bits of a whole number."""
    places = {name: at for at, name in enumerate(order)}
    if len(places) != len(order) or not all(vertex in places for vertex in graph):
        raise BoundaryViolation(
            f"elimination order: expected each of {len(graph)} vertices once, got another order"
        )
    neighbours = [0] * len(order)
    for left, right in graph.edges:
        if left != right:
            neighbours[places[left]] |= 1 << places[right]
            neighbours[places[right]] |= 1 << places[left]
    return neighbours


def _eliminate(neighbours: list[int], at: int) -> int:
    """Connect all neighbours of a vertex with each other and take it out; returns them."""
    around = neighbours[at]
    for one in _members(around):
        neighbours[one] = (neighbours[one] | around) & ~(1 << one | 1 << at)
    neighbours[at] = 0
    return around


def _cost(neighbours: list[int], at: int, cells: Sequence[int]) -> tuple[int, int, int]:
    """Edges that eliminating a vertex adds, cells of its clique, and the vertex."""
    missing, product = 0, cells[at]
    around = neighbours[at]
    for one in _members(around):
        # A vertex is no neighbour of itself.
        missing += (around & ~neighbours[one]).bit_count() - 1
        product *= cells[one]
    return missing // 2, product, at


def _members(vertices: int) -> Iterator[int]:
    """Positions of the bits of a set, smallest first."""
    while vertices:
        lowest = vertices & -vertices
        yield lowest.bit_length() - 1
        vertices ^= lowest
