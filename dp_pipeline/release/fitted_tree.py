"""FittedTree: the distribution of a junction tree, fitted to noisy tables, and what it predicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from dp_pipeline.release.clique_join import join_cliques
from dp_pipeline.release.graphical_model import GraphicalModel, Names
from dp_pipeline.release.junction_tree import JunctionTree
from dp_pipeline.release.reconciliation import Noisy, reconciled
from dp_pipeline.release.simplex import project_to_simplex
from dp_pipeline.release.tree_fit import fit_tree
from dp_pipeline.schema.encoding import FloatArray, IntArray

ROWS_OF_A_COUNT = 1 << 16
"""Rows drawn from the distribution where what it predicts is counted."""


@dataclass(frozen=True, eq=False)
class FittedTree:
    """Probabilities of the cells of every clique.

    tree     its cliques are those of the model, in its order
    model    the same cliques, with the axes of its nodes
    tables   one a node of the model, of sum 1; they agree on what cliques share
    rows     number of rows, at least 1, as all noisy tables estimate it
    """

    tree: JunctionTree
    model: GraphicalModel
    tables: tuple[FloatArray, ...]
    rows: float

    @classmethod
    def of(
        cls,
        cliques: Sequence[Names],
        measured: Sequence[Noisy],
        sizes: Mapping[str, int],
        *,
        iterations: int,
    ) -> FittedTree:
        """The distribution that fits the tables best.

        measured     each inside a clique; every attribute is in one of them
        iterations   at most
        """
        tree = JunctionTree.of(cliques, sizes)
        model = GraphicalModel(tree, sizes)
        rows, tables = reconciled(measured, sizes)
        rows = max(1.0, rows)
        start = {name: _shares(name, tables, rows) for name in sizes}
        fitted = fit_tree(model, measured, start=start, iterations=iterations)
        return cls(tree, model, tuple(fitted), rows)

    def codes(self, rows: int, rng: np.random.Generator) -> IntArray:
        """Synthetic codes (rows, attributes)."""
        tables = self.model.by_clique(list(self.tables))
        return join_cliques(self.tree, tables, rows, rng, self.model.sizes)

    def predicted(self, names: Names) -> FloatArray:
        """Rows expected in every cell over two attributes or more, in declared order: exact inside
        a clique and for two, else counted in drawn rows.
        """
        for node, table in zip(self.model.nodes, self.tables, strict=True):
            if set(names) <= set(node.names):
                return np.asarray(self.rows * _kept(table, node.names, names))
        if len(names) == 2:
            return self.rows * self._pairs[names]
        shape = tuple(self.model.sizes[name] for name in names)
        cells = np.zeros(ROWS_OF_A_COUNT, dtype=np.int64)
        for name, size in zip(names, shape, strict=True):
            cells = cells * size + self._drawn[name]
        counts = np.bincount(cells, minlength=prod(shape)).reshape(shape)
        return np.asarray(counts * (self.rows / ROWS_OF_A_COUNT), dtype=np.float64)

    @cached_property
    def _drawn(self) -> dict[str, IntArray]:
        """Always drawn alike: what is asked next must not depend on another seed."""
        codes = self.codes(ROWS_OF_A_COUNT, np.random.default_rng(0))
        return dict(zip(self.model.sizes, np.ascontiguousarray(codes.T), strict=True))

    @cached_property
    def _pairs(self) -> dict[Names, FloatArray]:
        """Probabilities of all pairs, also where no clique has both."""
        place = {name: at for at, name in enumerate(self.model.sizes)}
        found: dict[Names, FloatArray] = {}
        # From the attribute with fewer levels to the other: less to carry through the tree.
        for name in sorted(self.model.sizes, key=lambda one: self.model.sizes[one]):
            for other, table in self._with(name):
                if place[name] < place[other]:
                    found.setdefault((name, other), table)
                else:
                    found.setdefault((other, name), table.T)
        return found

    def _with(self, name: str) -> Iterator[tuple[str, FloatArray]]:
        """Tables of one attribute, the first axis, and each other one: carried outwards from the
        cliques that have it.
        """
        to_do = []
        for at, node in enumerate(self.model.nodes):
            if name in node.names:
                others = (other for other in node.names if other != name)
                yield from (
                    (one, _kept(self.tables[at], node.names, (name, one))) for one in others
                )
                to_do += [(at, next_, self.tables[at], node.names) for next_ in self._around[at]]
        while to_do:
            before, at, joint, names = to_do.pop()
            there = self.model.nodes[at].names
            if name in there:
                continue
            shared = tuple(one for one in there if one in names)
            joint = self._carried(_kept(joint, names, (name, *shared)), at, shared)
            names = (name, *there)
            others = (other for other in there if other not in shared)
            yield from ((one, _kept(joint, names, (name, one))) for one in others)
            to_do += [(at, next_, joint, names) for next_ in self._around[at] if next_ != before]

    def _carried(self, table: FloatArray, at: int, shared: Names) -> FloatArray:
        """P(x, clique) from P(x, what it shares): nothing where that has no probability."""
        clique, names = self.tables[at], self.model.nodes[at].names
        axes = tuple(axis for axis, name in enumerate(names) if name not in shared)
        total = clique.sum(axis=axes, keepdims=True)
        given = np.divide(clique, total, out=np.zeros_like(clique), where=total > 0)
        return np.asarray(table.reshape(len(table), *total.shape) * given)

    @cached_property
    def _around(self) -> list[list[int]]:
        """Neighbours of every node."""
        around: list[list[int]] = [[] for _ in self.model.nodes]
        for at, node in enumerate(self.model.nodes):
            if node.parent is not None:
                around[at].append(node.parent)
                around[node.parent].append(at)
        return around


def _shares(name: str, tables: Mapping[Names, FloatArray], rows: float) -> FloatArray:
    """Shares of the levels of an attribute, from a table that has it."""
    names, table = next((names, table) for names, table in tables.items() if name in names)
    counts = project_to_simplex(_kept(table, names, (name,)), total=rows)
    return np.asarray(counts / counts.sum())


def _kept(table: FloatArray, names: Names, wanted: Names) -> FloatArray:
    """The marginal over ``wanted``, axes in this order."""
    axes = tuple(axis for axis, name in enumerate(names) if name not in wanted)
    left = [name for name in names if name in wanted]
    return np.asarray(table.sum(axis=axes).transpose([left.index(name) for name in wanted]))
