"""FittedTree: the distribution of a junction tree, fitted to noisy tables, and what it predicts.

FittedRows: what noisy tables say together, as a distribution that rows are drawn from.

OneWays: the one-way marginals of a table, and the number of rows that they agree on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.inference.agreed_tables import AgreedTables
from dp_pipeline.inference.clique_join import join_cliques, overlap_links
from dp_pipeline.inference.consistency import (
    SMALLEST_VARIANCE,
    NoisyTable,
    TableEstimate,
    project_to_simplex,
    ratio,
    reconciled,
)
from dp_pipeline.inference.graphical_model import GraphicalModel
from dp_pipeline.inference.junction_tree import JunctionTree, cell_count, triangulated_cliques
from dp_pipeline.inference.latent_classes import fit_near_classes
from dp_pipeline.inference.missing_levels import complete_attributes, without_last_levels
from dp_pipeline.inference.paired_rows import PairedRows
from dp_pipeline.inference.structural_zeros import NONE, StructuralZeros
from dp_pipeline.inference.tree_fit import fit_tree
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal, marginal_of
from dp_pipeline.results.synthetic_table import SyntheticTable

ROWS_OF_A_COUNT = 1 << 16
"""Rows that are drawn from a fitted distribution to count what it predicts."""


@dataclass(frozen=True, eq=False)
class FittedTree:
    """A distribution fitted to noisy tables, as the probabilities of the cells of every clique.

    tree     its cliques are those of the model, in its order
    model    the same cliques, with the axes of its nodes
    tables   one a node of the model, of sum 1; they agree on what cliques share
    rows     number of rows, at least 1, as all noisy tables estimate it
    zeros    cells without mass
    """

    tree: JunctionTree
    model: GraphicalModel
    tables: tuple[FloatArray, ...]
    rows: float
    zeros: StructuralZeros = NONE

    @classmethod
    def of(
        cls,
        cliques: Sequence[Names],
        measured: Sequence[NoisyTable],
        sizes: Mapping[str, int],
        *,
        iterations: int,
        zeros: StructuralZeros = NONE,
    ) -> FittedTree:
        """Return the distribution that fits the noisy tables best.

        measured     each inside a clique; every attribute is in one of them
        iterations   at most
        zeros        cells without mass, each entry inside a clique
        """
        tree = JunctionTree.of(cliques, sizes)
        model = GraphicalModel(tree, sizes)
        measured = zeros.cleared(measured)
        ways, beside = OneWays.within(measured, sizes), zeros.potentials(model)
        fitted = fit_tree(model, measured, start=ways.shares, beside=beside, iterations=iterations)
        return cls(tree, model, tuple(fitted), ways.rows, zeros)

    def codes(self, rows: int, rng: np.random.Generator) -> IntArray:
        """Return synthetic codes (rows, attributes) drawn from the distribution."""
        tables, sizes = self.model.by_clique(list(self.tables)), self.model.sizes
        return self.zeros.satisfying(
            lambda many: join_cliques(self.tree, tables, many, rng, sizes), rows, tuple(sizes)
        )

    def predicted(self, names: Names) -> FloatArray:
        """Return the expected rows in every cell over two or more attributes, in declared order.

        They are exact inside a clique and for two, else counted in drawn rows."""
        for node, table in zip(self.model.nodes, self.tables, strict=True):
            if set(names) <= set(node.names):
                return np.asarray(self.rows * marginal_of(table, node.names, names))
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
        """Attribute → codes drawn from the distribution, with a fixed seed, so that answers depend
        on no other seed."""
        codes = self.codes(ROWS_OF_A_COUNT, np.random.default_rng(0))
        return dict(zip(self.model.sizes, np.ascontiguousarray(codes.T), strict=True))

    @cached_property
    def _pairs(self) -> dict[Names, FloatArray]:
        """The joint probabilities of all pairs, including those that no clique contains."""
        place = {name: index for index, name in enumerate(self.model.sizes)}
        tables: dict[Names, FloatArray] = {}
        # From the attribute with fewer levels to the other: less to carry through the tree.
        for name in sorted(self.model.sizes, key=lambda one: self.model.sizes[one]):
            for other, table in self._with(name):
                if place[name] < place[other]:
                    tables.setdefault((name, other), table)
                else:
                    tables.setdefault((other, name), table.T)
        return tables

    def _with(self, name: str) -> Iterator[tuple[str, FloatArray]]:
        """Yield each other attribute, with its joint probabilities with this one, whose levels are
        the first axis.

        Tables are carried outwards from the cliques that have the attribute."""
        to_do = []
        for index, node in enumerate(self.model.nodes):
            if name in node.names:
                partners = (other for other in node.names if other != name)
                yield from (
                    (partner, marginal_of(self.tables[index], node.names, (name, partner)))
                    for partner in partners
                )
                to_do += [
                    (index, next_, self.tables[index], node.names) for next_ in self._around[index]
                ]
        while to_do:
            before, index, joint, names = to_do.pop()
            there = self.model.nodes[index].names
            if name in there:
                continue
            shared = tuple(partner for partner in there if partner in names)
            joint = self._carried(marginal_of(joint, names, (name, *shared)), index, shared)
            names = (name, *there)
            partners = (other for other in there if other not in shared)
            yield from (
                (partner, marginal_of(joint, names, (name, partner))) for partner in partners
            )
            to_do += [
                (index, next_, joint, names) for next_ in self._around[index] if next_ != before
            ]

    def _carried(self, table: FloatArray, index: int, shared: Names) -> FloatArray:
        """Return P(x, clique) from P(x, separator), 0 where the separator has no probability."""
        clique, names = self.tables[index], self.model.nodes[index].names
        axes = tuple(axis for axis, name in enumerate(names) if name not in shared)
        total = clique.sum(axis=axes, keepdims=True)
        return np.asarray(table.reshape(len(table), *total.shape) * ratio(clique, total))

    @cached_property
    def _around(self) -> list[list[int]]:
        around: list[list[int]] = [[] for _ in self.model.nodes]
        for index, node in enumerate(self.model.nodes):
            if node.parent is not None:
                around[index].append(node.parent)
                around[node.parent].append(index)
        return around


@dataclass(frozen=True)
class OneWays:
    """The noisy one-way marginals of a release.

    measured   one table an attribute
    rows       number of rows, at least 1
    shares     attribute → shares of its levels, with sum 1

    >>> from fractions import Fraction
    >>> sex = NoisyMarginal(("sex",), np.array([6, 2]), Fraction(1))
    >>> ways = OneWays.of([sex, NoisyMarginal(("smokes",), np.array([9, -1]), Fraction(1))])
    >>> ways.rows, ways.shares["smokes"].tolist()
    (8.0, [1.0, 0.0])
    """

    measured: tuple[NoisyMarginal, ...]
    rows: float
    shares: dict[str, FloatArray]

    @classmethod
    def of(cls, measured: Sequence[NoisyMarginal], *others: NoisyMarginal) -> OneWays:
        """Return the estimated number of rows and the shares of every one-way marginal.

        The number of rows is the mean of all totals, by inverse variance, with those of ``others``.
        The shares are the nearest counts ≥ 0 that add up to it. (Projecting to a sum of 1 would
        leave the largest level alone.)
        """
        rows = float(max(1, estimated_rows((*measured, *others))))
        sums: dict[str, FloatArray] = {}
        weights: dict[str, float] = {}
        for marginal in measured:
            name, weight = marginal.attributes[0], 1 / max(marginal.variance, SMALLEST_VARIANCE)
            sums[name] = np.asarray(sums.get(name, 0.0) + weight * marginal.table)
            weights[name] = weights.get(name, 0.0) + weight
        means = {name: project_to_simplex(sums[name] / weights[name], rows) for name in sums}
        return cls(tuple(measured), rows, {n: mean / mean.sum() for n, mean in means.items()})

    @classmethod
    def within(cls, measured: Sequence[NoisyTable], sizes: Mapping[str, int]) -> OneWays:
        """Return the one-way marginals inside larger tables, as sums of these tables once they are
        made consistent."""
        rows, tables = reconciled(measured, sizes)
        rows = max(1.0, rows)
        shares = {}
        for name in sizes:
            names, table = next((names, table) for names, table in tables.items() if name in names)
            shares[name] = project_to_simplex(marginal_of(table, names, (name,)), rows) / rows
        return cls((), rows, shares)

    def grouped(self, groupings: dict[str, Grouping]) -> list[TableEstimate]:
        """Return the marginals over groups of levels, each with the mean variance of its groups."""
        estimates = []
        for marginal in self.measured:
            grouping = groupings[marginal.attributes[0]]
            levels_a_group = marginal.table.size / grouping.size
            table = grouping.summed(marginal.table)
            estimates.append(
                TableEstimate(marginal.attributes, table, marginal.variance * levels_a_group)
            )
        return estimates


def estimated_rows(marginals: Sequence[NoisyMarginal]) -> int:
    """Return the inverse-variance mean of the tables' totals, at least 0, as an estimate of the
    rows."""
    variances = np.array(
        [table.table.size * max(table.variance, SMALLEST_VARIANCE) for table in marginals]
    )
    weights = 1 / variances
    totals = np.array([table.table.sum() for table in marginals], dtype=np.float64)
    return max(0, round(float((weights * totals).sum() / weights.sum())))


@dataclass(frozen=True)
class FittedRows:
    """The noisy tables of one release, from which synthetic rows are drawn.

    measured    the number of rows, and all tables over levels or groups of levels
    sizes       levels of every attribute
    ways        one-way marginals that were measured before the tables; None: those inside them
    groupings   attribute → groups of its levels in ``measured``; the others have their levels
    cap         most cells of a clique; where triangulation needs larger ones, rows are drawn
                attribute after attribute (``PairedRows``)
    zeros       cells without mass, over levels; each group is of levels of one kind
    paid        noisy answers of the release, where ``measured`` is made of other tables too
    dependence  pair → its likely distance from independence, in rows, where pairs were scored
    """

    measured: tuple[NoisyMarginal, ...]
    sizes: Mapping[str, int]
    ways: OneWays | None = None
    groupings: Mapping[str, Grouping] = field(default_factory=dict)
    cap: int = 1 << 16
    zeros: StructuralZeros = NONE
    paid: tuple[NoisyMarginal, ...] | None = None
    dependence: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def table(
        self,
        names: Names,
        domain: Domain,
        rng: np.random.Generator,
        rows_to_draw: Callable[[float], int],
    ) -> SyntheticTable:
        """Return the table of synthetic rows, where attributes without a size have one level.

        rows_to_draw   from the estimated number of rows to the number to draw
        """
        ways = self.one_way_marginals
        rows = rows_to_draw(ways.rows)
        cliques = self.cliques
        if self.largest_clique > self.cap:
            codes, cliques, links = self._by_network(ways, rows, rng)
        else:
            codes, cliques, links = self._by_tree(cliques, ways, rows, rng)
        columns = dict(zip(self.sizes, codes.T, strict=True))
        constant = np.zeros(len(codes), dtype=codes.dtype)
        return SyntheticTable(
            attributes=names,
            codes=np.stack([columns.get(name, constant) for name in names]).T,
            measured=self.measured_in_order,
            cliques=(*cliques, *((name,) for name in names if name not in self.sizes)),
            links=links,
            domain=domain,
            seed=int(rng.integers(1 << 62)),
            groupings=dict(self.groupings),
            dependence=dict(self.dependence),
        )

    def without_missing(self, names: Collection[str]) -> FittedRows:
        """Return these tables without each level of missing values that has no more rows than
        noise.

        names   attributes whose last level is of missing values, in no constraint
        """
        complete = complete_attributes(
            self.measured_in_order, {name: self.sizes[name] for name in names}
        )
        labels = {name: grouping.groups for name, grouping in self.all_groupings.items()}
        # A level that is grouped with others is in no cell of its own.
        apart = {name for name in complete if labels[name][-1] > labels[name][-2]}
        ways = self.ways
        if ways and complete:
            singles = [without_last_levels(table, complete) for table in ways.measured]
            ways = OneWays.of(singles, self.measured[0])
        return replace(
            self,
            measured=tuple(without_last_levels(table, apart) for table in self.measured),
            sizes={name: size - (name in complete) for name, size in self.sizes.items()},
            ways=ways,
            groupings={
                name: Grouping(labels[name][:-1]) if name in complete else grouping
                for name, grouping in self.groupings.items()
            },
            paid=self.measured_in_order,
        )

    @property
    def measured_in_order(self) -> tuple[NoisyMarginal, ...]:
        """All noisy answers of the release, in the order of their measurement."""
        if self.paid is not None:
            return self.paid
        early = () if self.ways is None else self.ways.measured
        return (*self.measured[:1], *early, *self.measured[1:])

    @property
    def _levels(self) -> dict[str, int]:
        return {
            name: self.groupings[name].size if name in self.groupings else size
            for name, size in self.sizes.items()
        }

    @property
    def one_way_marginals(self) -> OneWays:
        """The one-way marginals that were measured first, or those inside the tables."""
        return self.ways or OneWays.within(self._cleared, self.sizes)

    @cached_property
    def cliques(self) -> tuple[Names, ...]:
        """The cliques of the triangulated graph of all tables and constraints."""
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from(self.sizes)
        for table in self.measured:
            graph.add_edges_from(combinations(table.attributes, 2))
        graph.add_edges_from(self.zeros.pairs)
        return triangulated_cliques(graph, self._levels)

    @property
    def largest_clique(self) -> int:
        """The number of cells of the largest of the ``cliques``."""
        return max((cell_count(clique, self._levels) for clique in self.cliques), default=0)

    @property
    def _cleared(self) -> tuple[NoisyTable, ...]:
        """The tables without the noise in cells that must be empty."""
        return self.zeros.grouped(self.groupings).cleared(self.measured)

    def _by_tree(
        self, cliques: Sequence[Names], ways: OneWays, rows: int, rng: np.random.Generator
    ) -> tuple[IntArray, tuple[Names, ...], tuple[tuple[int, int], ...]]:
        """Return synthetic rows drawn from the tree that fits all tables best, with its cliques
        and links."""
        if not cliques:
            return np.zeros((rows, 0), dtype=np.int8), (), ()
        fitted = self.fit_tree(cliques, ways)
        codes = self._expanded(fitted.codes(rows, rng), ways, rng)
        return codes, fitted.tree.cliques, fitted.tree.links

    def fit_tree(self, cliques: Sequence[Names], ways: OneWays) -> FittedTree:
        """Return the distribution over groups of levels that fits all tables best."""
        levels, groupings = self._levels, self.all_groupings
        tree = JunctionTree.of(cliques, levels)
        model = GraphicalModel(tree, levels)
        start = {name: groupings[name].summed(ways.shares[name]) for name in levels}
        zeros = self.zeros.grouped(self.groupings)
        noisy_tables, beside = self._all_tables(ways), zeros.potentials(model)
        fitted = fit_near_classes(tree, model, noisy_tables, start=start, beside=beside)
        return FittedTree(tree, model, tuple(fitted), ways.rows, zeros)

    def _by_network(
        self, ways: OneWays, rows: int, rng: np.random.Generator
    ) -> tuple[IntArray, tuple[Names, ...], tuple[tuple[int, int], ...]]:
        """Return synthetic rows drawn attribute by attribute, so that all pairs fit the tables,
        with the tables' attributes and links."""
        levels, zeros = self._levels, self.zeros.grouped(self.groupings)
        paired = PairedRows(AgreedTables.of(self._all_tables(ways), levels), levels, zeros)
        codes = zeros.satisfying(lambda many: paired.codes(many, rng), rows, tuple(levels))
        tables = [table.attributes for table in self.measured if table.attributes]
        inside = {name for names in tables for name in names}
        names = (*tables, *((name,) for name in levels if name not in inside))
        return self._expanded(codes, ways, rng), names, overlap_links(names)

    @property
    def all_groupings(self) -> dict[str, Grouping]:
        """The groupings of all attributes, where an attribute without one keeps its levels."""
        ungrouped = {name: Grouping(tuple(range(size))) for name, size in self.sizes.items()}
        return {**ungrouped, **self.groupings}

    def _all_tables(self, ways: OneWays) -> tuple[NoisyTable, ...]:
        return (*self._cleared, *ways.grouped(self.all_groupings))

    def _expanded(self, codes: IntArray, ways: OneWays, rng: np.random.Generator) -> IntArray:
        """Return codes of levels drawn from codes of groups, (rows, attributes)."""
        columns = [
            self.groupings[name].expanded(column, ways.shares[name], rng)
            if name in self.groupings
            else column
            for name, column in zip(self.sizes, codes.T, strict=True)
        ]
        return np.stack(columns).T
