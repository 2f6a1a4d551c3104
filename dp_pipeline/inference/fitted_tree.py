"""Distributions fitted to the noisy tables of a release, which predict counts and draw rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations
from math import inf, prod

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.inference.clique_join import join_cliques, overlap_links
from dp_pipeline.inference.consistency import (
    SMALLEST_VARIANCE,
    NoisyTable,
    TableEstimate,
    average_tables,
    project_to_simplex,
    ratio,
    reconcile_tables,
)
from dp_pipeline.inference.graphical_model import GraphicalModel, Projection
from dp_pipeline.inference.junction_tree import JunctionTree, cell_count, triangulated_cliques
from dp_pipeline.inference.latent_classes import fit_near_classes
from dp_pipeline.inference.missing_levels import complete_attributes, without_last_levels
from dp_pipeline.inference.paired_rows import PairedRows
from dp_pipeline.inference.row_replacement import replace_rows
from dp_pipeline.inference.structural_zeros import NONE, StructuralZeros
from dp_pipeline.inference.tree_fit import TreeFit
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal, marginal_of
from dp_pipeline.results.synthetic_table import SyntheticTable

ROWS_OF_A_COUNT = 1 << 16
"""Rows that are drawn from a fitted distribution to count what it predicts."""


@dataclass(frozen=True, eq=False)
class FittedTree:
    """A distribution fitted to noisy tables, as the probabilities of the cells of every clique.

    model    on the junction tree of the cliques
    tables   probabilities of each node's cells, of sum 1; they agree on what cliques share
    rows     number of rows, at least 1, as all noisy tables estimate it
    zeros    constraints, whose forbidden cells have no mass
    """

    model: GraphicalModel
    tables: tuple[FloatArray, ...]
    rows: float
    zeros: StructuralZeros = NONE

    @classmethod
    def of(
        cls,
        tables: Sequence[NoisyTable],
        ways: OneWays,
        zeros: StructuralZeros = NONE,
        *,
        iterations: int | None = None,
    ) -> FittedTree:
        """Return the distribution that fits noisy tables best, on the junction tree of the cliques
        in which those of a table or a constraint are connected.

        tables       without noise in forbidden cells
        ways         one-way marginals of all attributes, from whose shares the fit starts
        iterations   most steps of a plain fit; None: a fit by ``fit_near_classes``
        """
        sizes = {name: len(shares) for name, shares in ways.shares.items()}
        model = GraphicalModel(JunctionTree.of(_cliques(tables, zeros, sizes), sizes), sizes)
        fit, potentials = TreeFit.of(model, tables, ways.shares), zeros.potentials(model)
        if iterations is None:
            fitted = fit_near_classes(fit, potentials)
        else:
            fitted = fit.run(potentials, iterations=iterations)
        return cls(model, tuple(fitted), ways.rows, zeros)

    def draw_codes(self, rows: int, rng: np.random.Generator) -> IntArray:
        """Return synthetic codes (rows, attributes) drawn from the distribution, none of which
        breaks a constraint."""
        tables, sizes = self.model.by_clique(list(self.tables)), self.model.sizes
        return self.zeros.draw_valid_rows(
            lambda many: join_cliques(self.model.tree, tables, many, rng, sizes), rows, tuple(sizes)
        )

    def predict_counts(self, names: Names) -> FloatArray:
        """Return the expected rows in every cell over two or more attributes, axes in their order.

        ``names`` are in the order of ``sizes``. Counts are exact inside a clique and for two
        attributes, else those of ``ROWS_OF_A_COUNT`` drawn rows, scaled."""
        if len(names) == 2:
            return self.rows * self.pairs[names]
        for node, table in zip(self.model.nodes, self.tables, strict=True):
            if set(names) <= set(node.names):
                return np.asarray(self.rows * marginal_of(table, node.names, names))
        shape = tuple(self.model.sizes[name] for name in names)
        cells = np.ravel_multi_index(tuple(self._drawn_codes[name] for name in names), shape)
        counts = np.bincount(cells, minlength=prod(shape)).reshape(shape)
        return np.asarray(counts * (self.rows / ROWS_OF_A_COUNT), dtype=np.float64)

    @cached_property
    def _drawn_codes(self) -> dict[str, IntArray]:
        """Attribute → codes drawn with a fixed seed, so that counts depend on no other seed."""
        codes = self.draw_codes(ROWS_OF_A_COUNT, np.random.default_rng(0))
        return dict(zip(self.model.sizes, np.ascontiguousarray(codes.T), strict=True))

    @cached_property
    def pairs(self) -> dict[Names, FloatArray]:
        """Two attributes, in the order of ``sizes`` → their joint probabilities, for all pairs."""
        sizes = self.model.sizes
        place = {name: index for index, name in enumerate(sizes)}
        pairs = list(combinations(sizes, 2))
        in_cliques = {
            pair for node in self.model.nodes for pair in combinations(sorted(node.names), 2)
        }
        inside = [pair for pair in pairs if tuple(sorted(pair)) in in_cliques]
        cells = Projection(self.model, inside).forward(self.tables)
        ends = np.cumsum([cell_count(pair, sizes) for pair in inside])
        tables: dict[Names, FloatArray] = {
            (first, second): part.reshape(sizes[first], sizes[second])
            for (first, second), part in zip(inside, np.split(cells, ends), strict=False)
        }
        if len(inside) == len(pairs):
            return tables
        # From the attribute with fewer levels to the other: less to carry through the tree.
        for name in sorted(sizes, key=sizes.__getitem__):
            for other, table in self._pairs_with(name):
                if place[name] < place[other]:
                    tables.setdefault((name, other), table)
                else:
                    tables.setdefault((other, name), table.T)
        return tables

    def _pairs_with(self, name: str) -> Iterator[tuple[str, FloatArray]]:
        """Yield (other attribute, its joint probabilities with ``name``), the levels of ``name`` as
        the first axis; an attribute may come more than once.

        Tables are carried outwards from the cliques that have ``name``, in their order."""
        nodes = self.model.nodes
        holding = [index for index, node in enumerate(nodes) if name in node.names]
        stack = [(i, i, self.tables[i], nodes[i].names) for i in reversed(holding)]
        while stack:
            before, index, joint, names = stack.pop()
            clique = nodes[index].names
            shared: Names = (name,)
            if index != before:
                if name in clique:
                    continue
                shared = tuple(partner for partner in clique if partner in names)
                # P(x, clique) from P(x, separator): 0 where the separator has no probability.
                apart = tuple(axis for axis, other in enumerate(clique) if other not in shared)
                total = self.tables[index].sum(axis=apart, keepdims=True)
                joint = marginal_of(joint, names, (name, *shared)).reshape(-1, *total.shape)
                joint = joint * ratio(self.tables[index], total)
                names = (name, *clique)
            for partner in clique:
                if partner not in shared:
                    yield partner, marginal_of(joint, names, (name, partner))
            stack += [(index, i, joint, names) for i in self._neighbours[index] if i != before]

    @cached_property
    def _neighbours(self) -> list[list[int]]:
        neighbours: list[list[int]] = [[] for _ in self.model.nodes]
        for index, node in enumerate(self.model.nodes):
            if node.parent is not None:
                neighbours[index].append(node.parent)
                neighbours[node.parent].append(index)
        return neighbours


@dataclass(frozen=True)
class OneWays:
    """One-way marginals of a release, as estimated from noisy tables.

    measured   noisy tables of one attribute each; () where larger tables were summed
    rows       estimated number of rows, at least 1
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
        """Return the one-way marginals that noisy tables of one attribute each estimate.

        Their number of rows is that of ``estimate_rows`` with the totals of ``others``, and at
        least 1. Shares are the nearest counts ≥ 0 that add up to it. (Projecting to a sum of 1
        would leave the largest level alone.)
        """
        rows = float(max(1, estimate_rows((*measured, *others))))
        averages = average_tables(measured).items()
        means = {names[0]: project_to_simplex(mean, rows) for names, (mean, _) in averages}
        return cls(tuple(measured), rows, {n: mean / mean.sum() for n, mean in means.items()})

    @classmethod
    def within(cls, measured: Sequence[NoisyTable], sizes: Mapping[str, int]) -> OneWays:
        """Return the one-way marginals of noisy tables of any attributes: sums of their cells, once
        they are made consistent, projected to shares.

        sizes   levels of every attribute, each of which is in a table
        """
        rows, tables = reconcile_tables(measured, sizes)
        rows = max(1.0, rows)
        shares = {}
        for name in sizes:
            names, table = next((names, table) for names, table in tables.items() if name in names)
            shares[name] = project_to_simplex(marginal_of(table, names, (name,)), rows) / rows
        return cls((), rows, shares)

    def grouped(self, groupings: dict[str, Grouping]) -> list[TableEstimate]:
        """Return each measured marginal summed over groups of levels, with the mean variance of its
        groups."""
        estimates = []
        for marginal in self.measured:
            grouping = groupings[marginal.attributes[0]]
            levels_a_group = marginal.table.size / grouping.size
            table = grouping.summed(marginal.table)
            estimates.append(
                TableEstimate(marginal.attributes, table, marginal.variance * levels_a_group)
            )
        return estimates


def estimate_rows(marginals: Sequence[NoisyMarginal]) -> int:
    """Return an estimate of the number of rows, at least 0: the inverse-variance mean of the totals
    of noisy tables, rounded."""
    variances = np.array(
        [table.table.size * max(table.variance, SMALLEST_VARIANCE) for table in marginals]
    )
    weights = 1 / variances
    totals = np.array([table.table.sum() for table in marginals], dtype=np.float64)
    return max(0, round(float((weights * totals).sum() / weights.sum())))


def _cliques(
    tables: Sequence[NoisyTable], zeros: StructuralZeros, sizes: Mapping[str, int]
) -> tuple[Names, ...]:
    inside = (combinations(table.attributes, 2) for table in tables)
    return triangulated_cliques(chain(zeros.pairs, *inside), sizes)


@dataclass(frozen=True)
class FittedRows:
    """The noisy tables of one release, from which synthetic rows are drawn.

    measured    the number of rows first, then tables over levels or groups of levels
    sizes       levels of every attribute
    ways        one-way marginals that were measured before the tables; None: those inside them
    groupings   attribute → groups of its levels in ``measured``, where levels are grouped
    cap         most cells of a clique; where triangulation needs larger ones, rows are drawn
                attribute after attribute (``PairedRows``)
    zeros       constraints over levels; each group is of levels that they treat alike
    paid        noisy answers of the release; None: those in ``measured`` and ``ways``
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

    def draw_table(
        self,
        names: Names,
        domain: Domain,
        rng: np.random.Generator,
        rows_to_draw: Callable[[float], int],
    ) -> SyntheticTable:
        """Return a synthetic table drawn from the distribution that fits the noisy tables best.

        names          attributes of the result; those not in ``sizes`` have the code 0 in each row
        rows_to_draw   from the estimated number of rows to the number to draw
        """
        ways = self.one_way_marginals
        rows = rows_to_draw(ways.rows)
        cliques, links = self.cliques, tuple[tuple[int, int], ...]()
        if not cliques:
            codes: IntArray = np.zeros((rows, 0), dtype=np.int8)
        elif self.largest_clique_cells > self.cap:
            codes, cliques, links = self._draw_by_network(rows, rng)
        else:
            fitted = self.fit_tree()
            codes = self._fit_pairs(fitted.draw_codes(rows, rng), lambda: fitted.pairs, rng)
            cliques, links = fitted.model.tree.cliques, fitted.model.tree.links
        columns = {
            name: self.groupings[name].expanded(column, ways.shares[name], rng)
            if name in self.groupings
            else column
            for name, column in zip(self.sizes, codes.T, strict=True)
        }
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
        """Return these tables without the levels of missing values that have no more rows than
        noise (``complete_attributes``).

        names   attributes whose last level is of missing values, in no constraint
        """
        labels = {name: grouping.groups for name, grouping in self.all_groupings.items()}
        # A level that is grouped with others is in no cell of its own.
        apart = {name: self._levels[name] for name in names if labels[name][-1] > labels[name][-2]}
        complete = complete_attributes(
            self.measured_in_order, {name: self.sizes[name] for name in names}, apart
        )
        ways = self.ways
        if ways and complete:
            singles = [without_last_levels(table, complete) for table in ways.measured]
            ways = OneWays.of(singles, self.measured[0])
        return replace(
            self,
            measured=tuple(
                without_last_levels(table, complete.intersection(apart)) for table in self.measured
            ),
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

    @cached_property
    def _levels(self) -> dict[str, int]:
        return {name: self.all_groupings[name].size for name in self.sizes}

    @cached_property
    def one_way_marginals(self) -> OneWays:
        """The one-way marginals that were measured first, else those inside the tables."""
        return self.ways or OneWays.within(self._valid_tables, self.sizes)

    @cached_property
    def cliques(self) -> tuple[Names, ...]:
        """The cliques of the triangulated graph of the attributes, in which those of a table or a
        constraint are connected."""
        return _cliques(self.measured, self.zeros, self._levels)

    @property
    def largest_clique_cells(self) -> int:
        """The number of cells of the largest of ``cliques``, over groups of levels; 0 if empty."""
        return max((cell_count(clique, self._levels) for clique in self.cliques), default=0)

    @property
    def _valid_tables(self) -> tuple[NoisyTable, ...]:
        return self.zeros.grouped(self.groupings).clear_forbidden_cells(self.measured)

    def fit_tree(self, *, iterations: int | None = None) -> FittedTree:
        """Return the distribution over groups of levels that fits all tables and one-way marginals
        best (``FittedTree.of``)."""
        ways, zeros = self.one_way_marginals, self.zeros.grouped(self.groupings)
        start = {n: self.all_groupings[n].summed(ways.shares[n]) for n in self._levels}
        ways = OneWays((), ways.rows, start)
        return FittedTree.of(self._all_tables, ways, zeros, iterations=iterations)

    def _draw_by_network(
        self, rows: int, rng: np.random.Generator
    ) -> tuple[IntArray, tuple[Names, ...], tuple[tuple[int, int], ...]]:
        """Return (codes over groups of levels, drawn attribute by attribute so that all pairs fit
        the tables; attributes of each table; links between positions of tables)."""
        levels, zeros = self._levels, self.zeros.grouped(self.groupings)
        paired = PairedRows.of(self._all_tables, levels, zeros)
        codes = zeros.draw_valid_rows(
            lambda many: paired.draw_codes(many, rng), rows, tuple(levels)
        )
        codes = self._fit_pairs(codes, lambda: paired.pairs, rng)
        tables = [table.attributes for table in self.measured if table.attributes]
        inside = {name for names in tables for name in names}
        names = (*tables, *((name,) for name in levels if name not in inside))
        return codes, names, overlap_links(names)

    def _fit_pairs(
        self,
        codes: IntArray,
        goals: Callable[[], Mapping[Names, FloatArray]],
        rng: np.random.Generator,
    ) -> IntArray:
        """Return the rows, over groups of levels, with some replaced so that pairs are nearer to
        their goals (``replace_rows``); unchanged if no table has two attributes."""
        variances = dict[Names, float]()
        for table in self.measured:
            for pair in combinations(table.attributes, 2):
                variance = table.variance * table.table.size / cell_count(pair, self._levels)
                variances[pair] = min(variance, variances.get(pair, inf))
        if not variances:
            return codes
        scale = len(codes) / self.one_way_marginals.rows
        variance = scale**2 * sum(variances.values()) / len(variances)
        return replace_rows(codes, self._levels, goals, variance, rng)

    @cached_property
    def all_groupings(self) -> dict[str, Grouping]:
        """Attribute → grouping of its levels, each its own group where none are grouped."""
        ungrouped = {name: Grouping(tuple(range(size))) for name, size in self.sizes.items()}
        return {**ungrouped, **self.groupings}

    @property
    def _all_tables(self) -> tuple[NoisyTable, ...]:
        return (*self._valid_tables, *self.one_way_marginals.grouped(self.all_groupings))
