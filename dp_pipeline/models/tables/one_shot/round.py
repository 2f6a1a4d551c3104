"""The questions and measurements of one release, after its noisy number of rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt

import numpy as np

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.consistency import SMALLEST_VARIANCE
from dp_pipeline.inference.earlier import StoredTables
from dp_pipeline.inference.expected_error import ExpectedError
from dp_pipeline.inference.fitted_tree import FittedRows, OneWays, estimate_rows
from dp_pipeline.inference.missing_levels import without_last_levels
from dp_pipeline.inference.row_replacement import MOST_ROW_LEVELS
from dp_pipeline.inference.structural_zeros import StructuralZeros
from dp_pipeline.inference.table_growth import TableGrowth
from dp_pipeline.models.tables.one_shot.plan import (
    MEAN_DEPENDENCE,
    ONE_WAY_SHARE,
    Pair,
    Plan,
    Planning,
)
from dp_pipeline.models.tables.one_shot.scores import (
    DependenceQueries,
    OneWayStage,
    noisy_mean_dependence,
)
from dp_pipeline.results.accountant import split
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal

FEWEST_ROWS = 50.0
"""Rows that are planned with at least, where noise leaves fewer: a guard, as no plan is made for
fewer."""

SMALLEST_REFINEMENT = 1e-4
"""Least part of the remaining amount for which a one-way marginal is refined: a limit of time, as
large noise takes long to sample."""


def amounts_of(amounts: Mapping[Names, Fraction], tables: Iterable[Names]) -> dict[Names, Fraction]:
    """Return the entries of ``amounts`` for the given tables, in the order of these."""
    return {names: amounts[names] for names in tables}


@dataclass(frozen=True)
class Round:
    """The measurements of one release after its noisy number of rows.

    counted   the noisy number of rows
    zeros     cells that constraints make empty
    """

    curator: Curator
    planning: Planning
    counted: NoisyMarginal
    zeros: StructuralZeros

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number of levels of every attribute, including those of missing values."""
        return self.planning.table_sizes

    @property
    def left(self) -> Fraction:
        """The ε or ρ that is left."""
        return self.curator.accountant.remaining

    def measure_and_fit(self) -> FittedRows:
        """Measure tables by the best plan with the whole remaining budget; return the fit."""
        if not self.sizes:
            return FittedRows((self.counted,), self.sizes)
        planning, chances = self.planning, np.ones(len(MEAN_DEPENDENCE))
        if planning.mean_share:
            chances = planning.likelihoods(noisy_mean_dependence(planning, self.curator))
        plan = planning.choose(chances)
        if plan.tables:
            return self._measure_plan(plan)
        stage = self.measure_one_ways(planning.amount * ONE_WAY_SHARE)
        queries = DependenceQueries(planning, self.curator, stage, self.zeros)
        means = queries.measure(plan, chances)
        scores = {pair: mean for pair, (mean, _) in means.items()}
        # Parts are drawn unit by unit, along a junction tree.
        is_large = planning.rows * sum(planning.sizes.values()) > MOST_ROW_LEVELS
        needs_tree = is_large or self.curator.domain.parts is not None
        tables = replace(self.build_search(stage, scores), needs_tree=needs_tree).run()
        measured, marginals = self.measure_tables(stage, scores, tables)
        return FittedRows(
            (self.counted, *measured),
            self.sizes,
            marginals,
            stage.groupings,
            planning.cap,
            self.zeros,
            dependence={pair: sqrt(square) for pair, (_, square) in means.items()},
        )

    def measure_again(self, known: StoredTables, *, smooths: bool) -> FittedRows:
        """Measure the tables of an earlier release again, over the same groups of levels, with the
        whole remaining budget; return the fit.

        smooths   whether each table is averaged with the earlier one
        """
        groupings = {name: known.groupings[name] for name in self.sizes if name in known.groupings}
        names = [table.attributes for table in known.measured[1:]]
        singles_before = [one for one in names if len(one) == 1]
        inside = {name for table in names if len(table) > 1 for name in table}
        is_early = bool(groupings) or any(table[0] in inside for table in singles_before)
        early = singles_before if is_early else []
        tables = [table for table in names if table not in early]

        def learned(table: NoisyMarginal) -> NoisyMarginal:
            return known.combine_with(table) if smooths else table

        singles, measured = list[NoisyMarginal](), list[NoisyMarginal]()
        if early:
            sizes = {n: groupings[n].size if n in groupings else s for n, s in self.sizes.items()}
            amounts = self._amounts_as_before(tables, sizes)
            singles = [
                learned(marginal) for marginal in self.curator.tabulate(amounts_of(amounts, early))
            ]
        elif tables:
            # Every attribute once is packed; a cover of pairs holds them more often.
            is_covering = sum(map(len, tables)) > len(self.sizes) or len(tables) == 1
            amounts = self._amounts_of_tables(tables, is_covering)
        if tables:
            coarse = self.curator.grouped(groupings) if groupings else self.curator
            measured = [learned(table) for table in coarse.tabulate(amounts_of(amounts, tables))]
        counted = learned(self.counted)
        marginals = OneWays.of(singles, counted) if early else None
        return FittedRows(
            (counted, *measured), self.sizes, marginals, groupings, self.planning.cap, self.zeros
        )

    def _amounts_as_before(
        self, tables: Sequence[Names], grouped: Mapping[str, int]
    ) -> dict[Names, Fraction]:
        """Return amounts that together spend the whole remaining budget on tables of an earlier
        release and on all one-way marginals, by their attributes.

        grouped   attribute → number of its levels, or of its groups of levels

        The share that a plan has for one-way marginals is divided among them first; then the rest,
        so that it lowers the expected error most. Without that share, a marginal whose attribute is
        in a good table would get next to nothing, and the fit begins at it."""
        early = self.planning.amount * ONE_WAY_SHARE
        first = self._one_way_amounts(early)
        paid = {name: float(amount) for (name,), amount in first.items()}
        sizes = {name: max(size, grouped[name]) for name, size in self.planning.sizes.items()}
        model = replace(self.planning.independent, sizes=sizes, grouped=grouped, paid=paid)
        of_tables, added = model.divide(tables, float(self.left - early))
        of_singles = added + np.array(list(paid.values()))
        return self._split((*tables, *first), np.concatenate([of_tables, of_singles]))

    def _measure_plan(self, plan: Plan) -> FittedRows:
        measured = self.curator.tabulate(self._amounts_of_tables(plan.tables, plan.is_covering))
        answers, cap = (self.counted, *measured), self.planning.cap
        fitted = FittedRows(answers, self.sizes, cap=cap, zeros=self.zeros)
        if plan.is_covering:
            return fitted
        fitted = fitted.without_missing(self.planning.nullable)
        # Tables are shrunk towards uniform ones as far as noise explains their differences.
        counted, *tables = fitted.measured
        rows = max(FEWEST_ROWS, float(estimate_rows(fitted.measured)))
        differences = [table.table - rows / table.table.size for table in tables]
        squares = [
            float((off**2).sum()) / max(table.variance, SMALLEST_VARIANCE)
            for off, table in zip(differences, tables, strict=True)
        ]
        ratio = sum(squares) / sum(off.size for off in differences)
        part = 1 - 1 / ratio**2 if ratio > 1 else 0.0
        shrunk = (
            replace(table, table=np.rint(rows / off.size + part * off).astype(np.int64))
            for off, table in zip(differences, tables, strict=True)
        )
        return replace(fitted, measured=(counted, *shrunk))

    def _amounts_of_tables(
        self, tables: Sequence[Names], is_covering: bool
    ) -> dict[Names, Fraction]:
        """Return amounts by table that spend the whole remaining budget, with the least error.

        is_covering   whether the tables are a covering design, and not packed ones
        """
        if is_covering:
            left = float(self.left)
            return self._split(tables, np.array(self.planning.covering_amounts(tables, left)))
        mean = MEAN_DEPENDENCE[1] * self.planning.rows
        model = self.planning.error_model(mean)
        return self._split(tables, model.divide(tables, float(self.left), singles=False)[0])

    def measure_one_ways(self, amount: Fraction) -> OneWayStage:
        """Spend an amount on one-way marginals; return them with groups of levels that stand out
        from noise."""
        singles = self._one_way_amounts(amount)
        measured = self.curator.tabulate(singles)
        # Noise adds its variance to a squared count: below twice that, the true square is likely
        # less than the variance. Tables of pairs decide about other levels, but could not about
        # one in a group with others.
        complete = {
            table.attributes[0]
            for table in measured
            if table.attributes[0] in self.planning.nullable
            and table.table[-1] < sqrt(2 * table.variance)
        }
        trimmed = [without_last_levels(table, complete) for table in measured]
        marginals, groupings = OneWays.of(trimmed, self.counted), dict[str, Grouping]()
        sizes = {name: len(shares) for name, shares in marginals.shares.items()}
        least = self.planning.least_share(float(self.left))
        for name, shares in marginals.shares.items():
            grouping = Grouping.by_share(shares, least=least, kinds=self.zeros.kinds(name))
            if name in complete:
                grouping = Grouping((*grouping.groups, grouping.groups[-1]))
                marginals.shares[name] = np.append(shares, 0.0)
            groupings[name] = grouping
        paid = {names[0]: float(amount) for names, amount in singles.items()}
        return OneWayStage(measured, marginals, sizes, groupings, paid)

    def build_search(self, stage: OneWayStage, scores: Mapping[Pair, float]) -> TableGrowth:
        """Return the search, not yet run, for tables on which to spend the remaining budget.

        scores   pair → expected dependence, in rows
        """
        error, zeros = self.error(stage, scores), self.zeros.grouped(stage.groupings)
        cap = max(4, self.planning.cap, zeros.most_cells(dict(error.grouped)))
        return TableGrowth(error, float(self.left), cap, zeros.pairs)

    def error(self, stage: OneWayStage, scores: Mapping[Pair, float]) -> ExpectedError:
        """Return the model of the expected error of all pairs that follows from one-way marginals
        and from scores.

        scores   pair → expected dependence, in rows
        """
        return ExpectedError(
            stage.sizes,
            {name: grouping.size for name, grouping in stage.groupings.items()},
            stage.paid,
            stage.dependence(scores),
            self.planning.rate,
            self.planning.weights,
        )

    def measure_tables(
        self, stage: OneWayStage, scores: Mapping[Pair, float], tables: Sequence[Names]
    ) -> tuple[tuple[NoisyMarginal, ...], OneWays]:
        """Spend the whole remaining budget on tables and on less noise in one-way marginals; return
        both.

        Where units have parts, marginals are measured a second time instead of refined."""
        left, has_parts = float(self.left), self.curator.domain.parts is not None
        of_tables, of_singles = self.error(stage, scores).divide(tables, left)
        is_again = of_singles > SMALLEST_REFINEMENT * left
        again = [(name,) for name, is_one in zip(self.sizes, is_again, strict=True) if is_one]
        amounts = self._split((*tables, *again), np.concatenate([of_tables, of_singles[is_again]]))
        coarse = self.curator.grouped(stage.groupings)
        measured = coarse.tabulate(amounts_of(amounts, tables)) if tables else ()
        singles = list(stage.measured)
        if again and has_parts:
            # Refined noise is sampled in time that grows with its scale, and a unit weighs 2^16.
            singles += self.curator.tabulate(amounts_of(amounts, again))
        elif again:
            refined = self.curator.refine(amounts_of(amounts, again))
            better = {marginal.attributes: marginal for marginal in refined}
            singles = [better.get(marginal.attributes, marginal) for marginal in singles]
        return tuple(measured), OneWays.of(singles, self.counted)

    def _split(self, tables: Sequence[Names], amounts: FloatArray) -> dict[Names, Fraction]:
        """Return an amount for each table, in about the proportions of ``amounts``; all together
        are exactly the remaining budget."""
        parts = amounts / amounts.sum()
        exact = [Fraction(max(1, round(10**5 * part))) for part in parts.tolist()]
        return dict(zip(tables, split(self.left, exact), strict=True))

    def _one_way_amounts(self, amount: Fraction) -> dict[Names, Fraction]:
        shares = self.planning.rate.integer_shares([float(size) for size in self.sizes.values()])
        return dict(zip([(name,) for name in self.sizes], split(amount, shares), strict=True))
