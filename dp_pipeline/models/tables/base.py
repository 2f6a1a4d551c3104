"""The base of models that release a synthetic table."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray, Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import integer, names
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.clique_join import clique_counts, join_cliques
from dp_pipeline.inference.fitted_tree import FittedRows
from dp_pipeline.inference.junction_tree import JunctionTree, cell_count
from dp_pipeline.inference.structural_zeros import StructuralZeros
from dp_pipeline.models.base import Model
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoiseRate, NoisyMarginal
from dp_pipeline.results.synthetic_table import SyntheticTable

Sizes = Mapping[str, int]
"""Attribute → number of its cells."""

MOST_ESTIMATED_ROWS = 2_000_000
"""Most rows to draw where their number is estimated: at a tiny ε the estimate is noise."""

MOST_CLIQUE = 1 << 16  # most cells of a clique that holds attributes of constraints

BYTES_A_CELL = 8 * 6
"""Memory for a cell of a table: its count, its noise, its fit and what fitting needs with it."""


def clique_cells(default: int) -> Any:
    """Return the parameter field ``clique_cells``: the most cells of a measured table or clique."""
    return integer(default, at_least=4, at_most=1 << 24, measuring=True)


@dataclass(frozen=True)
class ExpectedPairs:
    """The numbers of pairs of attributes that a release is expected to measure, from public facts
    alone.

    measured   three numbers of measured pairs: if attributes do not depend on each other, depend as
               in most data sets, or strongly
    total      number of all pairs
    error      mean error of a pair, as a share of the rows (total variation), in most data sets
    """

    measured: tuple[int, ...]
    total: int
    error: float

    @property
    def likely(self) -> int:
        """The number of measured pairs if attributes depend on each other as in most data sets."""
        return self.measured[len(self.measured) // 2]


@dataclass(frozen=True)
class TableModel(Model):
    """A model of a table of discrete attributes, with its public parameters.

    attributes       discrete attributes, d of them; all when empty
    synthetic_rows   rows to draw; a noisy estimate of their number when None (at most 2,000,000)

    keeps_constraints   whether every synthetic row keeps the domain's constraints
    """

    keeps_constraints: ClassVar[bool] = False

    attributes: tuple[str, ...] = names()
    synthetic_rows: int | None = integer(None, at_least=0, at_most=10**9)

    def chosen_attributes(self, domain: Domain) -> tuple[str, ...]:
        """Return the attributes to model: the named ones, or all discrete ones in declared
        order."""
        return self.attributes or domain.discrete

    def measured_attributes(self, domain: Domain) -> tuple[str, ...]:
        """Return the attributes to measure: ``chosen_attributes`` but for those that follow from
        another one by a constraint, which ``add_decided`` adds."""
        decided = {twin.name for twin in self._zeros(domain).without_twins()[1]}
        return tuple(name for name in self.chosen_attributes(domain) if name not in decided)

    def zeros(self, domain: Domain) -> StructuralZeros:
        """Return the cells of the measured attributes that constraints make empty."""
        return self._zeros(domain).without_twins()[0]

    def sizes(self, domain: Domain) -> dict[str, int]:
        """Return the number of levels or bins of every measured attribute."""
        names = self.measured_attributes(domain)
        return dict(zip(names, domain.shape(names), strict=True))

    def _zeros(self, domain: Domain) -> StructuralZeros:
        return StructuralZeros(domain.allowed(self.chosen_attributes(domain)))

    def released_table(
        self,
        domain: Domain,
        rng: Generator,
        codes: IntArray,
        measured: tuple[NoisyMarginal, ...],
        cliques: tuple[Names, ...],
        links: tuple[tuple[int, int], ...] = (),
        *,
        groupings: Mapping[str, Grouping] | None = None,
    ) -> SyntheticTable:
        """Return the table to release, with attributes added that follow from measured ones.

        rng             draws the seed that the table stores
        codes           (rows, attributes) synthetic rows of ``measured_attributes``
        cliques, links  junction tree by which they were drawn
        groupings       attribute → groups of levels over which tables were measured
        """
        names, groups = self.measured_attributes(domain), groupings or {}
        seed = int(rng.integers(1 << 62))
        table = SyntheticTable(names, codes, measured, cliques, links, domain, seed, groups)
        return self.add_decided(table)

    def sample_tree(
        self,
        curator: Curator,
        rng: Generator,
        measured: tuple[NoisyMarginal, ...],
        tree: JunctionTree,
        *,
        rows: int | None = None,
    ) -> SyntheticTable:
        """Return a table of rows drawn along a junction tree whose cliques were measured.

        rows   number of rows of the source where it is public; None: the tables estimate it

        With constraints, ``tree`` and ``rows`` are not read: the distribution that keeps the
        constraints is fitted to the tables instead.
        """
        domain = curator.domain
        sizes, zeros = self.sizes(domain), self.zeros(domain)
        if zeros:
            fitted = FittedRows(measured, sizes, zeros=zeros)
            return self.add_decided(fitted.draw_table(tuple(sizes), domain, rng, self.rows_to_draw))
        tables = clique_counts(measured, total=None if rows is None else max(1.0, rows))
        estimate = float(tables[tree.cliques[0]].sum()) if rows is None else rows
        codes = join_cliques(tree, tables, self.rows_to_draw(estimate), rng, sizes)
        return self.released_table(domain, rng, codes, measured, tree.cliques, tree.links)

    def add_decided(self, table: SyntheticTable) -> SyntheticTable:
        """Return the table with those attributes added that follow from others by a constraint."""
        decided = self._zeros(table.domain).without_twins()[1]
        if not decided:
            return table
        columns = dict(zip(table.attributes, table.codes.T, strict=True))
        cliques, links = list(table.cliques), list(table.links)
        for attribute in decided:
            codes = columns[attribute.other]
            columns[attribute.name] = attribute.levels.astype(codes.dtype)[codes]
            parent = next(i for i, clique in enumerate(cliques) if attribute.other in clique)
            links.append((parent, len(cliques)))
            cliques.append((attribute.other, attribute.name))
        names = self.chosen_attributes(table.domain)
        codes = np.stack([columns[name] for name in names]).T
        return replace(
            table, attributes=names, codes=codes, cliques=tuple(cliques), links=tuple(links)
        )

    def check(self, domain: Domain) -> None:
        """Raise DeclarationError unless there are attributes, all discrete, named once and of at
        most ``clique_cells`` levels, and the model keeps their constraints.

        Constraints must not contradict each other or link too many cells.
        """
        chosen, model = self.chosen_attributes(domain), type(self).__name__
        if not chosen:
            raise DeclarationError(
                f"{model} needs attributes with levels, bins or edges, but the data set has none: "
                "declare some"
            )
        repeated = next((name for name in chosen if chosen.count(name) > 1), None)
        if repeated is not None:
            raise DeclarationError(
                f"{model} needs each attribute once, but {repeated} is repeated: correct its "
                "`attributes`"
            )
        cap = getattr(self, "clique_cells", None)
        for name, size in zip(chosen, domain.shape(chosen), strict=True):
            if cap is not None and size > cap:
                raise DeclarationError(
                    f"{model} takes attributes of at most {cap} cells, but {name} has {size}: "
                    "choose coarser levels or bins, or leave it out"
                )
        zeros = self._zeros(domain)
        if zeros:
            self._check_constraints(domain, zeros)

    def _check_constraints(self, domain: Domain, zeros: StructuralZeros) -> None:
        model, names = type(self).__name__, self.chosen_attributes(domain)
        if not self.keeps_constraints:
            raise DeclarationError(
                f"{model} does not keep `constraints`, but the data set declares "
                f"{len(domain.constraints)}: choose one_shot, mst, aim_like or jtree, which do"
            )
        sizes = dict(zip(names, domain.shape(names), strict=True))
        if zeros.most_cells(sizes) > MOST_CLIQUE:
            widest = max(zeros.cliques(sizes), key=lambda clique: cell_count(clique, sizes))
            raise DeclarationError(
                f"{model} takes `constraints` over at most {MOST_CLIQUE} cells together, but those "
                f"of {', '.join(widest)} span {cell_count(widest, sizes)}: declare fewer "
                "constraints, or coarser levels or bins"
            )
        if zeros.is_contradictory(sizes):
            raise DeclarationError(
                f"{model} needs `constraints` that some row can keep, but these contradict each "
                "other: correct them"
            )

    def expected_pairs(
        self,
        domain: Domain,  # noqa: ARG002
        rows: int,  # noqa: ARG002
        amount: Fraction,  # noqa: ARG002
        rate: NoiseRate,  # noqa: ARG002
    ) -> ExpectedPairs | None:
        """Return the numbers of pairs that a release of so many rows should measure; None if the
        model does not choose its tables by their expected error.

        amount   ε or ρ of the release
        rate     noise that an amount buys
        """
        return None

    def most_cells(self, domain: Domain) -> int:
        """Return a bound, by declarations alone, on the cells of all measured tables together."""
        cap = getattr(self, "clique_cells", 0)
        sizes = domain.shape(self.chosen_attributes(domain))
        return 1 + sum(sizes) + sum(max(cap, size) for size in sizes)

    def rows_to_draw(self, estimate: float) -> int:
        """Return the declared number of synthetic rows, otherwise the rounded estimate, from 0 to
        ``MOST_ESTIMATED_ROWS``.

        >>> TableModel().rows_to_draw(1e30), TableModel(synthetic_rows=5).rows_to_draw(9.4)
        (2000000, 5)
        """
        if self.synthetic_rows is not None:
            return self.synthetic_rows
        return min(max(0, round(estimate)), MOST_ESTIMATED_ROWS)
