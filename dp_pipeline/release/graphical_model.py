"""GraphicalModel: the distribution of a junction tree with one log-potential a clique.

Inference is exact: one pass to the root and one back (Lauritzen, Spiegelhalter 1988; the form
with one division a separator is of Jensen, Lauritzen, Olesen 1990). Every slice over a separator
is scaled by its own largest cell, so nothing underflows and nothing is divided by zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dp_pipeline.release.junction_tree import JunctionTree
from dp_pipeline.schema.encoding import FloatArray

Names = tuple[str, ...]


@dataclass(frozen=True)
class Node:
    """One clique, its axes ordered so that the separator to the parent comes first.

    names      attributes in the order of the axes
    shape      their sizes
    parent     place of the parent in ``GraphicalModel.nodes``, None for the root
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
        """Cells of the separator, and of the rest given the separator."""
        cells = int(np.prod(self.shape[: self.separator], dtype=np.int64))
        return cells, int(np.prod(self.shape[self.separator :], dtype=np.int64))


class GraphicalModel:
    """P(x) ∝ exp Σ_C θ_C(x_C) over the cliques of a junction tree.

    tree    cliques and links
    sizes   levels of every attribute

    >>> tree = JunctionTree((("a", "b"), ("b", "c")), ((0, 1),))
    >>> model = GraphicalModel(tree, {"a": 2, "b": 2, "c": 2})
    >>> [table.round(2).tolist() for table in model.marginals(model.zeros())[0]]
    [[[0.25, 0.25], [0.25, 0.25]], [[0.25, 0.25], [0.25, 0.25]]]
    """

    def __init__(self, tree: JunctionTree, sizes: Mapping[str, int]) -> None:
        parents = {child: parent for parent, child in tree.links}
        self.sizes = dict(sizes)
        self.nodes: list[Node] = []
        places: dict[int, int] = {}
        order = (0, *(child for _, child in tree.links))
        self._cliques = tuple(tree.cliques[clique] for clique in order)
        for clique in order:
            parent = places.get(parents[clique]) if clique in parents else None
            above = None if parent is None else self.nodes[parent]
            self.nodes.append(_node(tree.cliques[clique], above, parent, sizes))
            places[clique] = len(self.nodes) - 1

    @property
    def cells(self) -> int:
        """Σ of the cliques' cells."""
        return sum(int(np.prod(node.shape, dtype=np.int64)) for node in self.nodes)

    def zeros(self) -> list[FloatArray]:
        """Log-potentials of the uniform distribution."""
        return [np.zeros(node.shape) for node in self.nodes]

    def home(self, attributes: Names) -> int:
        """The node with the fewest cells that holds the attributes; ValueError for none."""
        holding = [at for at, node in enumerate(self.nodes) if set(attributes) <= set(node.names)]
        return min(holding, key=lambda at: int(np.prod(self.nodes[at].shape)))

    def marginals(self, potentials: Sequence[FloatArray]) -> tuple[list[FloatArray], float]:
        """Probabilities of every clique's cells, one table a node with sum 1; and log Z.

        potentials   one table a node, of its shape; finite
        """
        inward = [potential.copy() for potential in potentials]
        scaled: list[FloatArray] = [np.zeros(0)] * len(self.nodes)
        for at in range(len(self.nodes) - 1, -1, -1):
            node, (over, within) = self.nodes[at], self.nodes[at].split
            flat = inward[at].reshape(over, within)
            largest = flat.max(axis=1)
            table = np.exp(flat - largest[:, None])
            total = table.sum(axis=1)
            scaled[at] = table / total[:, None]
            if node.parent is not None:
                inward[node.parent] += (np.log(total) + largest).reshape(node.spread)
            else:
                log_total = float(np.log(total[0]) + largest[0])
        tables: list[FloatArray] = []
        for node, table in zip(self.nodes, scaled, strict=True):
            if node.parent is not None:
                above = tables[node.parent].sum(axis=node.summed).reshape(-1, 1)
                np.multiply(table, above, out=table)
            tables.append(table.reshape(node.shape))
        return tables, log_total

    def by_clique(self, tables: Sequence[FloatArray]) -> dict[Names, FloatArray]:
        """Clique of the tree → its table, axes in the clique's order, from one table a node."""
        return {
            clique: tables[at].transpose([self.nodes[at].names.index(name) for name in clique])
            for at, clique in enumerate(self._cliques)
        }


def _node(clique: Names, above: Node | None, parent: int | None, sizes: Mapping[str, int]) -> Node:
    shared = () if above is None else tuple(name for name in above.names if name in clique)
    names = (*shared, *(name for name in clique if name not in shared))
    shape = tuple(sizes[name] for name in names)
    if above is None:
        return Node(names, shape, None, 0, (), ())
    spread = tuple(
        size if name in shared else 1 for name, size in zip(above.names, above.shape, strict=True)
    )
    summed = tuple(axis for axis, name in enumerate(above.names) if name not in shared)
    return Node(names, shape, parent, len(shared), spread, summed)
