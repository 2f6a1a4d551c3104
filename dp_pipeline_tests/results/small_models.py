"""Graphical models with so few cells that all of them can be written down."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from dp_pipeline.config.encoding import Names
from dp_pipeline.inference.graphical_model import GraphicalModel
from dp_pipeline.inference.junction_tree import JunctionTree, triangulated_cliques

Tables = list[np.ndarray]


@dataclass(frozen=True)
class Small:
    """A model, and log-potentials for its nodes."""

    model: GraphicalModel
    tree: JunctionTree
    potentials: Tables

    @property
    def names(self) -> Names:
        return tuple(self.model.sizes)

    def marginals(self) -> tuple[Tables, float]:
        """Of the nodes, by writing down every cell."""
        log = np.zeros(tuple(self.model.sizes.values()))
        for node, table in zip(self.model.nodes, self.potentials, strict=True):
            order = sorted(range(len(node.names)), key=lambda at: self.names.index(node.names[at]))
            shape = [self.model.sizes[n] if n in node.names else 1 for n in self.names]
            log = log + table.transpose(order).reshape(shape)
        largest = log.max()
        log_total = float(largest + np.log(np.exp(log - largest).sum()))
        joint = np.exp(log - log_total)
        return [summed(joint, self.names, node.names) for node in self.model.nodes], log_total


def summed(table: np.ndarray, names: Sequence[str], wanted: Sequence[str]) -> np.ndarray:
    """The marginal over ``wanted`` of a table whose axes are ``names``."""
    remaining = [name for name in names if name in wanted]
    axes = tuple(index for index, name in enumerate(names) if name not in wanted)
    return table.sum(axis=axes).transpose([remaining.index(name) for name in wanted])


def model_over(sizes: dict[str, int], pairs: Sequence[tuple[str, str]]) -> tuple:
    """The model and the junction tree of a graph."""
    graph = nx.Graph(pairs)
    graph.add_nodes_from(sizes)
    tree = JunctionTree.of(triangulated_cliques(graph, sizes), sizes)
    return GraphicalModel(tree, sizes), tree


@st.composite
def small_models(draw: st.DrawFn, *, spread: Sequence[float] = (0.0, 1.0, 30.0, 1000.0)) -> Small:
    """Up to five attributes of up to three levels, any pairs of them connected."""
    names = "abcde"[: draw(st.integers(1, 5))]
    sizes = {name: draw(st.integers(1, 3)) for name in names}
    pairs = list(combinations(names, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    model, tree = model_over(sizes, chosen)
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    width = draw(st.sampled_from(spread))
    return Small(model, tree, [width * rng.uniform(-1, 1, node.shape) for node in model.nodes])


@st.composite
def covered_tables(draw: st.DrawFn, model: GraphicalModel) -> list[Names]:
    """Marginals inside the cliques, in any order of their axes; () is the number of rows."""
    matches = []
    for _ in range(draw(st.integers(1, 5))):
        names = draw(st.permutations(draw(st.sampled_from(model.nodes)).names))
        matches.append(tuple(names[: draw(st.integers(0, len(names)))]))
    return matches
