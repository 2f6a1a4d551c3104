"""Exact inference in the distribution of a junction tree, and linear maps to its marginals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.inference.consistency import spread
from dp_pipeline.inference.junction_tree import JunctionTree


@dataclass(frozen=True)
class Clique:
    """A clique as a node of a model, with the axes of the separator to its parent first.

    names      attributes in the order of the axes
    shape      levels of each
    parent     position of the parent in ``GraphicalModel.nodes``, None for the root
    separator  number of first axes that are shared with the parent, in the parent's order
    spread     shape in which a table over the separator broadcasts over the parent's axes
    summed     the parent's axes that are not in the separator
    """

    names: Names
    shape: tuple[int, ...]
    parent: int | None
    separator: int
    spread: tuple[int, ...]
    summed: tuple[int, ...]

    @property
    def split(self) -> tuple[int, int]:
        """The number of cells of the separator, and of all other axes together."""
        return prod(self.shape[: self.separator]), prod(self.shape[self.separator :])


class GraphicalModel:
    """The distributions P(x) ∝ exp Σ_C θ_C(x_C) with log-potentials θ on a junction tree's cliques.

    tree    junction tree of one clique at least
    sizes   levels of every attribute

    Inference is exact: one pass to the root and one back (Lauritzen, Spiegelhalter 1988; the form
    with one division a separator is of Jensen, Lauritzen, Olesen 1990). Every slice over a
    separator is scaled by its own largest cell, so nothing underflows or is divided by zero.

    >>> tree = JunctionTree((("a", "b"), ("b", "c")), ((0, 1),))
    >>> model = GraphicalModel(tree, {"a": 2, "b": 2, "c": 2})
    >>> [table.round(2).tolist() for table in model.marginals(model.zeros())[0]]
    [[[0.25, 0.25], [0.25, 0.25]], [[0.25, 0.25], [0.25, 0.25]]]
    """

    def __init__(self, tree: JunctionTree, sizes: Mapping[str, int]) -> None:
        parents = {child: parent for parent, child in tree.links}
        self.sizes, self.tree = dict(sizes), tree
        self.nodes: list[Clique] = []
        for index, clique in enumerate(tree.cliques):
            parent = parents.get(index)
            above = None if parent is None else self.nodes[parent]
            self.nodes.append(_node(clique, above, parent, sizes))

    @property
    def cells(self) -> int:
        return sum(prod(node.shape) for node in self.nodes)

    def zeros(self) -> list[FloatArray]:
        """Return a table of zeros for each node: log-potentials of the uniform distribution."""
        return [np.zeros(node.shape) for node in self.nodes]

    def smallest_node_with(self, attributes: Names) -> int:
        """Return the position of the node with the fewest cells that has these attributes;
        ValueError if no node has them."""
        holding = (i for i, node in enumerate(self.nodes) if set(attributes) <= set(node.names))
        return min(holding, key=lambda i: prod(self.nodes[i].shape))

    def marginals(self, potentials: Sequence[FloatArray]) -> tuple[list[FloatArray], float]:
        """Return the probabilities of the cells of each node, one table a node, and log Z, for Z
        the sum of exp Σ θ over all cells.

        potentials   log-potentials θ, one table a node, of its shape; finite, and left unchanged
        """
        tables = [potential.copy() for potential in potentials]
        log_total = 0.0
        for index in range(len(self.nodes) - 1, -1, -1):
            node, flat = self.nodes[index], tables[index].reshape(self.nodes[index].split)
            largest = _largest(flat)
            flat -= largest[:, None]
            np.exp(flat, out=flat)
            total = _sum_axis(flat, 1)
            flat /= total[:, None]
            if node.parent is None:
                log_total = float(np.log(total[0]) + largest[0])
            else:
                tables[node.parent] += (np.log(total) + largest).reshape(node.spread)
        for index, node in enumerate(self.nodes):
            if node.parent is not None:
                above = tables[node.parent]
                for before, axis in enumerate(node.summed):
                    above = _sum_axis(above, axis - before)
                flat = tables[index].reshape(node.split)
                flat *= above.reshape(-1, 1)
        return tables, log_total

    def by_clique(self, tables: Sequence[FloatArray]) -> dict[Names, FloatArray]:
        """Return clique of the tree → its table, with axes in the clique's order.

        tables   one a node, with the axes of the node
        """
        nodes = zip(self.tree.cliques, self.nodes, tables, strict=True)
        return {c: table.transpose([node.names.index(n) for n in c]) for c, node, table in nodes}


FEW_COLUMNS = 32
"""Most columns of a matrix whose rows are added up, or their largest cells found, column by column,
which is then many times faster than row by row."""


def _largest(rows: FloatArray) -> FloatArray:
    if rows.shape[1] > FEW_COLUMNS:
        return np.asarray(rows.max(axis=1))
    largest = rows[:, 0].copy()
    for column in rows.T[1:]:
        np.maximum(largest, column, out=largest)
    return largest


def _sum_axis(table: FloatArray, axis: int) -> FloatArray:
    """Return ``table.sum(axis)``, to the bit, slice by slice where NumPy would add few cells at
    once."""
    count, after = table.shape[axis], prod(table.shape[axis + 1 :])
    # NumPy adds up to seven numbers in a row, and all slices, one after the other.
    if (after > 1 or count < 8) and after <= FEW_COLUMNS < table.size // (count * after):
        slices = np.moveaxis(table, axis, 0)
        total: FloatArray = slices[0].copy()
        for each in slices[1:]:
            total += each
        return total
    return np.asarray(table.sum(axis=axis))


def _node(
    clique: Names, above: Clique | None, parent: int | None, sizes: Mapping[str, int]
) -> Clique:
    shared = () if above is None else tuple(name for name in above.names if name in clique)
    names = (*shared, *(name for name in clique if name not in shared))
    shape = tuple(sizes[name] for name in names)
    if above is None:
        return Clique(names, shape, None, 0, (), ())
    spread = tuple(
        size if name in shared else 1 for name, size in zip(above.names, above.shape, strict=True)
    )
    summed = tuple(axis for axis, name in enumerate(above.names) if name not in shared)
    return Clique(names, shape, parent, len(shared), spread, summed)


CELLS_A_GROUP = 16
"""Most cells of neighbouring axes that are fused into one group."""


@dataclass(frozen=True)
class _Stage:
    """One step of a projection: the sum of one node over some groups of its axes.

    node     position in the model's nodes
    shape    shape of the node with its groups as axes
    summed   groups that are summed
    spread   shape in which the sum broadcasts over the groups
    columns  columns of the matrix, one for each cell of the sum
    """

    node: int
    shape: tuple[int, ...]
    summed: tuple[int, ...]
    spread: tuple[int, ...]
    columns: slice


class Projection:
    """The linear map from the node tables of a model to the cells of some marginals, and its
    transpose.

    tables   attributes of every marginal, each inside one clique

    Both work in two stages. Axes of a clique are fused into a few groups; the clique is summed to
    every set of groups that some marginal needs, once for all marginals of that set; a sparse
    matrix does the rest. For all 120 pairs of 16 binary attributes this reads the 65,536 cells of
    their clique 10 times and not 120 times.

    >>> from dp_pipeline.inference.junction_tree import JunctionTree
    >>> tree = JunctionTree((("a", "b"), ("b", "c")), ((0, 1),))
    >>> model = GraphicalModel(tree, {"a": 2, "b": 2, "c": 2})
    >>> Projection(model, [("a",), ("c", "b")]).forward(model.marginals(model.zeros())[0]).tolist()
    [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    """

    def __init__(self, model: GraphicalModel, tables: Sequence[Names]) -> None:
        from scipy.sparse import csr_array

        self._model, self._stages = model, list[_Stage]()
        firsts = np.cumsum([0, *(prod(model.sizes[name] for name in names) for names in tables)])
        groups_of = [_groups(node) for node in model.nodes]
        # (position of a node, groups of its axes that are not summed) → positions of tables
        places_of: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for place, names in enumerate(tables):
            index = model.smallest_node_with(names)
            axes = {model.nodes[index].names.index(name) for name in names}
            needed = tuple(g for g, group in enumerate(groups_of[index]) if axes & set(group))
            places_of.setdefault((index, needed), []).append(place)
        none = np.zeros(0, dtype=np.int64)
        rows, columns, width = [none], [none], 0
        for (index, needed), places in places_of.items():
            node, groups = model.nodes[index], groups_of[index]
            shape = tuple(prod(node.shape[axis] for axis in group) for group in groups)
            broadcast = tuple(cells if g in needed else 1 for g, cells in enumerate(shape))
            summed = tuple(g for g in range(len(groups)) if g not in needed)
            stage = _Stage(index, shape, summed, broadcast, slice(width, width + prod(broadcast)))
            over = tuple(node.names[axis] for g in needed for axis in groups[g])
            rows += [_cells(model.sizes, over, tables[place]) + firsts[place] for place in places]
            width = stage.columns.stop
            columns += [np.arange(stage.columns.start, width)] * len(places)
            self._stages.append(stage)
        ends = (np.concatenate(rows), np.concatenate(columns))
        # One matrix for all stages: of small ones, each product would be little but its call.
        self._matrix = csr_array((np.ones(len(ends[0])), ends), shape=(int(firsts[-1]), width))
        self._transpose = self._matrix.T.tocsr()

    def forward(self, cliques: Sequence[FloatArray]) -> FloatArray:
        """Return the cells of all marginals, one after another in one flat array.

        cliques   one table for each node
        """
        sums: dict[tuple[int, tuple[int, ...]], FloatArray] = {}

        def summed(stage: _Stage, groups: tuple[int, ...]) -> FloatArray:
            # Stages of a node share the sums over their first groups.
            if not groups:
                return cliques[stage.node].reshape(stage.shape)
            key = stage.node, groups
            if key not in sums:
                before = summed(stage, groups[:-1])
                sums[key] = _sum_axis(before, groups[-1] - len(groups) + 1)
            return sums[key]

        cells = [summed(stage, stage.summed).ravel() for stage in self._stages]
        return np.asarray(self._matrix @ np.concatenate([np.zeros(0), *cells]))

    def backward(self, cells: FloatArray) -> list[FloatArray]:
        """Return the transpose of ``forward``: one table for each node, in which a cell is the sum
        of the marginals' cells that contain it.

        cells   of all marginals, one after another
        """
        cliques, sums = self._model.zeros(), self._transpose @ cells
        for stage in self._stages:
            cliques[stage.node].reshape(stage.shape)[...] += sums[stage.columns].reshape(
                stage.spread
            )
        return cliques


def _groups(node: Clique) -> list[tuple[int, ...]]:
    """Return the axes of a node in groups of neighbours with at most ``CELLS_A_GROUP`` cells
    together; a larger axis is a group by itself."""
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


def _cells(sizes: Mapping[str, int], over: Names, names: Names) -> np.ndarray:
    """Return, for every cell over the attributes ``over``, flat, the position of the cell over
    ``names`` that contains it."""
    cells = np.arange(prod(sizes[n] for n in names)).reshape([sizes[n] for n in names])
    return np.broadcast_to(spread(cells, names, over), [sizes[n] for n in over]).ravel()
