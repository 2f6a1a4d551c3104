"""Projection: from the cells of all cliques of a model to those of measured marginals, and back.

A linear map and its transpose, both in two stages. Axes of a clique are fused into a few groups;
the clique is summed to every set of groups that some marginal needs, once for all marginals of
that set; a sparse matrix does the rest. For all 120 pairs of 16 binary attributes this reads the
65,536 cells of their clique 10 times and not 120 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from dp_pipeline.release.graphical_model import GraphicalModel, Names, Node
from dp_pipeline.schema.encoding import FloatArray

CELLS_A_GROUP = 16
"""Axes are fused while their cells are at most this many."""


@dataclass(frozen=True)
class _Stage:
    """One set of groups of one node.

    node     place in the model's nodes
    shape    of the node with its groups as axes
    summed   the groups that are summed
    kept     shape of the rest, in which it broadcasts over the groups
    matrix   from the kept cells to the cells of all marginals
    turned   its transpose
    """

    node: int
    shape: tuple[int, ...]
    summed: tuple[int, ...]
    kept: tuple[int, ...]
    matrix: Any
    turned: Any


class Projection:
    """All cells of ``tables``, in their order, from clique tables of ``model``.

    tables   attributes of every marginal, each inside one clique

    >>> from dp_pipeline.release.junction_tree import JunctionTree
    >>> tree = JunctionTree((("a", "b"), ("b", "c")), ((0, 1),))
    >>> model = GraphicalModel(tree, {"a": 2, "b": 2, "c": 2})
    >>> Projection(model, [("a",), ("c", "b")]).forward(model.marginals(model.zeros())[0]).tolist()
    [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    """

    def __init__(self, model: GraphicalModel, tables: Sequence[Names]) -> None:
        self._model = model
        firsts = np.cumsum([0, *(prod(model.sizes[name] for name in names) for names in tables)])
        self._size = int(firsts[-1])
        wanted: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        groups = [_groups(node) for node in model.nodes]
        for place, names in enumerate(tables):
            at = model.home(names)
            axes = {model.nodes[at].names.index(name) for name in names}
            needed = tuple(g for g, group in enumerate(groups[at]) if axes & set(group))
            wanted.setdefault((at, needed), []).append(place)
        self._stages = [
            _stage(
                model.nodes[at],
                at,
                groups[at],
                needed,
                [(tables[p], int(firsts[p])) for p in places],
                self._size,
            )
            for (at, needed), places in wanted.items()
        ]

    def forward(self, cliques: Sequence[FloatArray]) -> FloatArray:
        """Cells of the marginals, flat, from one table a node."""
        cells = np.zeros(self._size)
        for one in self._stages:
            table = cliques[one.node].reshape(one.shape)
            cells += one.matrix @ (table.sum(axis=one.summed) if one.summed else table).ravel()
        return cells

    def backward(self, cells: FloatArray) -> list[FloatArray]:
        """One table a node: every cell is the sum of the marginals' cells that it is in."""
        cliques = self._model.zeros()
        for one in self._stages:
            added = (one.turned @ cells).reshape(one.kept)
            cliques[one.node].reshape(one.shape)[...] += added
        return cliques


def _groups(node: Node) -> list[tuple[int, ...]]:
    """Neighbouring axes, fused."""
    groups: list[tuple[int, ...]] = []
    cells = CELLS_A_GROUP + 1
    for axis, size in enumerate(node.shape):
        if cells * size <= CELLS_A_GROUP:
            groups[-1] = (*groups[-1], axis)
            cells *= size
        else:
            groups.append((axis,))
            cells = size
    return groups


def _stage(
    node: Node,
    at: int,
    groups: Sequence[tuple[int, ...]],
    needed: tuple[int, ...],
    tables: Sequence[tuple[Names, int]],
    size: int,
) -> _Stage:
    from scipy.sparse import csr_array

    shape = tuple(prod(node.shape[axis] for axis in group) for group in groups)
    kept = tuple(cells if g in needed else 1 for g, cells in enumerate(shape))
    axes = [axis for g in needed for axis in groups[g]]
    rows = [_cells(node, axes, names) + first for names, first in tables]
    columns = np.tile(np.arange(prod(kept)), len(tables))
    ones = np.ones(len(columns))
    matrix = csr_array((ones, (np.concatenate(rows), columns)), shape=(size, prod(kept)))
    summed = tuple(g for g in range(len(groups)) if g not in needed)
    return _Stage(at, shape, summed, kept, matrix, matrix.T.tocsr())


def _cells(node: Node, axes: Sequence[int], names: Names) -> np.ndarray:
    """For every cell over ``axes`` of the node the cell over ``names`` that it is in."""
    shape = [node.shape[axis] for axis in axes]
    cell, width = np.zeros(shape, dtype=np.int64), 1
    for name in reversed(names):
        place = axes.index(node.names.index(name))
        along = [-1 if other == place else 1 for other in range(len(axes))]
        cell += np.arange(shape[place]).reshape(along) * width
        width *= shape[place]
    return cell.ravel()
