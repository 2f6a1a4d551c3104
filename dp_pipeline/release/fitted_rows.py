"""FittedRows: what noisy tables say together, as a distribution that rows are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from dp_pipeline.release.ancestral_sampling import overlap_links, sample_network
from dp_pipeline.release.clique_join import join_cliques
from dp_pipeline.release.graph import triangulated_cliques
from dp_pipeline.release.graphical_model import GraphicalModel
from dp_pipeline.release.grouping import Grouping
from dp_pipeline.release.junction_tree import JunctionTree
from dp_pipeline.release.measurement import NoisyMarginal
from dp_pipeline.release.one_ways import OneWays
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.release.tree_fit import fit_tree
from dp_pipeline.release.view_network import view_network
from dp_pipeline.release.view_tables import view_tables
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import IntArray

Names = tuple[str, ...]

FAMILY_CELLS = 1024
"""Of the table of an attribute and its parents, where no tree holds all tables."""


@dataclass(frozen=True)
class FittedRows:
    """Noisy tables of one release.

    measured    all of them, () first; those of groups of levels too
    sizes       levels of every attribute
    ways        one-way marginals that were measured before; None: those inside the tables
    groupings   attribute → groups of its levels in ``measured``; the others have their levels
    cap         most cells of a clique; where triangulation needs larger ones, rows are drawn
                from a network of smaller tables of largest entropy
    """

    measured: tuple[NoisyMarginal, ...]
    sizes: Mapping[str, int]
    ways: OneWays | None = None
    groupings: Mapping[str, Grouping] = field(default_factory=dict)
    cap: int = 1 << 16

    def table(
        self,
        names: Names,
        domain: Domain,
        rng: np.random.Generator,
        rows_to_draw: Callable[[float], int],
    ) -> SyntheticTable:
        """Synthetic rows; attributes of ``names`` without a size have one level."""
        ways = self.ways or OneWays.within(self.measured, self.sizes)
        rows = rows_to_draw(ways.rows)
        cliques = self._cliques
        if max((self._cells(one) for one in cliques), default=0) > self.cap:
            codes, cliques, links = self._by_network(rows, rng)
        else:
            codes, cliques, links = self._by_tree(cliques, ways, rows, rng)
        columns = dict(zip(self.sizes, codes.T, strict=True))
        constant = np.zeros(rows, dtype=np.int64)
        return SyntheticTable(
            attributes=names,
            codes=np.stack([columns.get(name, constant) for name in names], axis=1),
            measured=self._paid,
            cliques=(*cliques, *((name,) for name in names if name not in self.sizes)),
            links=links,
            domain=domain,
            seed=int(rng.integers(1 << 62)),
            groupings=dict(self.groupings),
        )

    @property
    def _paid(self) -> tuple[NoisyMarginal, ...]:
        """Everything that was measured, in the order in which it was."""
        early = () if self.ways is None else self.ways.measured
        return (*self.measured[:1], *early, *self.measured[1:])

    @property
    def _levels(self) -> dict[str, int]:
        """Groups, or levels, of every attribute in the tables."""
        return {
            name: self.groupings[name].size if name in self.groupings else size
            for name, size in self.sizes.items()
        }

    @property
    def _cliques(self) -> tuple[Names, ...]:
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from(self.sizes)
        for one in self.measured:
            graph.add_edges_from(combinations(one.attributes, 2))
        return triangulated_cliques(graph, self._levels)

    def _cells(self, names: Names) -> int:
        levels = self._levels
        return int(np.prod([levels[name] for name in names], dtype=object))

    def _by_tree(
        self, cliques: Sequence[Names], ways: OneWays, rows: int, rng: np.random.Generator
    ) -> tuple[IntArray, tuple[Names, ...], tuple[tuple[int, int], ...]]:
        """The tree that fits all tables best."""
        if not cliques:
            return np.zeros((rows, 0), dtype=np.int64), (), ()
        levels = self._levels
        tree = JunctionTree.of(cliques, levels)
        model = GraphicalModel(tree, levels)
        alone = {n: Grouping(tuple(range(size))) for n, size in self.sizes.items()}
        groupings = {**alone, **self.groupings}
        start = {name: groupings[name].summed(ways.shares[name]) for name in levels}
        tables = fit_tree(model, (*self.measured, *ways.grouped(groupings)), start=start)
        codes = join_cliques(tree, model.by_clique(tables), rows, rng, levels)
        columns = [
            self.groupings[name].expanded(column, ways.shares[name], rng)
            if name in self.groupings
            else column
            for name, column in zip(levels, codes.T, strict=True)
        ]
        return np.stack(columns, axis=1), tree.cliques, tree.links

    def _by_network(
        self, rows: int, rng: np.random.Generator
    ) -> tuple[IntArray, tuple[Names, ...], tuple[tuple[int, int], ...]]:
        """One attribute after another, each by a table over those that it depends on most."""
        views = self.measured[1:]
        network = view_network(view_tables(views), self.sizes, most_cells=FAMILY_CELLS)
        names = tuple(one.attributes for one in views)
        return sample_network(network, rows, rng, self.sizes), names, overlap_links(names)
