"""ModelGraph: the cliques of a released table, laid out one below the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Node:
    """One clique.

    lane        column, 0 at the left: the heaviest branch below a clique stays in its lane, so
                n cliques take at most 1 + log2 n lanes
    parent      place of the node it hangs on in ``ModelGraph.nodes``; None where it shares nothing
    own         attributes that its parent does not have, in its order
    separator   attributes that it shares with its parent
    """

    lane: int
    parent: int | None
    own: tuple[str, ...]
    separator: tuple[str, ...]
    cells: int


@dataclass(frozen=True)
class ModelGraph:
    """The first cliques of a table, every one below the one that it hangs on.

    nodes    in the order in which they stand below each other
    hidden   cliques that are not shown: those furthest from a root

    >>> graph = ModelGraph.of(
    ...     {
    ...         "attributes": np.array(["a, b", "b, c", "d"]),
    ...         "cells": np.array([4, 6, 2]),
    ...         "parent": np.array([-1, 0, 0]),
    ...         "separator": np.array(["", "b", ""]),
    ...     },
    ...     most=40,
    ... )
    >>> [(node.own, node.separator, node.parent) for node in graph.nodes]
    [(('a', 'b'), (), None), (('c',), ('b',), 0), (('d',), (), None)]
    """

    nodes: tuple[Node, ...]
    hidden: int

    @classmethod
    def of(cls, cliques: Mapping[str, np.ndarray], *, most: int) -> ModelGraph:
        """The graph of ``SyntheticTable.tables()["cliques"]``."""
        names = [_names(text) for text in cliques["attributes"].tolist()]
        shared = [_names(text) for text in cliques["separator"].tolist()]
        # A link between cliques that share nothing says nothing.
        parents = [
            parent if parent >= 0 and separator else None
            for parent, separator in zip(cliques["parent"].tolist(), shared, strict=True)
        ]
        shown = _nearest(parents, most)
        place: dict[int, int] = {}
        nodes: list[Node] = []
        for at, lane in _laid_out(parents, shown):
            parent = parents[at]
            place[at] = len(nodes)
            nodes.append(
                Node(
                    lane=lane,
                    parent=None if parent is None else place[parent],
                    own=tuple(name for name in names[at] if name not in shared[at]),
                    separator=shared[at],
                    cells=int(cliques["cells"][at]),
                )
            )
        return cls(tuple(nodes), len(names) - len(nodes))

    @property
    def links(self) -> int:
        """How many cliques hang on another one."""
        return sum(node.parent is not None for node in self.nodes)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(", ")) if text else ()


def _nearest(parents: list[int | None], most: int) -> list[int]:
    """The ``most`` places nearest to a root, parents first."""
    children = _children(parents, range(len(parents)))
    order = list(children[None])
    for at in order:
        order += children.get(at, [])
    return order[:most]


def _laid_out(parents: list[int | None], shown: list[int]) -> list[tuple[int, int]]:
    """(place, lane) of every clique from above; below each the lighter branches come first, one
    lane to the right, and the heaviest comes last, in the same lane.
    """
    children = _children(parents, shown)
    weight = dict.fromkeys(shown, 1)
    for at in reversed(shown):
        parent = parents[at]
        if parent is not None:
            weight[parent] += weight[at]
    waiting = [(root, 0) for root in reversed(children[None])]
    found = []
    while waiting:
        at, lane = waiting.pop()
        found.append((at, lane))
        branches = sorted(children.get(at, []), key=lambda child: weight[child])
        # The last one put there is the first one taken.
        for child in reversed(branches):
            waiting.append((child, lane + (child != branches[-1])))
    return found


def _children(parents: list[int | None], shown: list[int] | range) -> dict[int | None, list[int]]:
    children: dict[int | None, list[int]] = {None: []}
    for at in shown:
        children.setdefault(parents[at], []).append(at)
    return children
