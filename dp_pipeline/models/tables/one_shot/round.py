"""Round: what one release of one_shot asks after the number of rows, and what it measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import fsum

import numpy as np

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.dependence import Dependence
from dp_pipeline.inference.earlier import EarlierTables
from dp_pipeline.inference.fitted_tree import FittedRows, OneWays
from dp_pipeline.inference.shared_noise import SharedNoise
from dp_pipeline.inference.structural_zeros import StructuralZeros
from dp_pipeline.inference.table_growth import TableGrowth
from dp_pipeline.inference.table_sets import TableSearch, one_way_noise, pair_noise
from dp_pipeline.models.tables.one_shot.gaps import Begun, GapQuestions
from dp_pipeline.models.tables.one_shot.plan import Pair, Plan, Planning
from dp_pipeline.results.accountant import split
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal

ROOM = 2.0
"""How many times its noise a table's rows must be: measured gaps are not sure."""


def _of_several(search: TableSearch, pairs: Iterable[Pair]) -> list[Names]:
    """The tables that a search finds, without those of one attribute."""
    return [names for names in search.run(pairs) if len(names) > 1]


def _pair_noise(table: Names, sizes: Mapping[str, int]) -> float:
    return pair_noise(tuple(sizes[name] for name in table))


def amounts_of(amounts: Mapping[Names, Fraction], tables: Iterable[Names]) -> dict[Names, Fraction]:
    return {names: amounts[names] for names in tables}


def _as_measured(table: NoisyMarginal) -> NoisyMarginal:
    return table


MOST_TREE = 2
"""Cells of all cliques together, in largest cliques."""

OF_TABLES = 0.85
"""What tables get of what is left, about, where one-way marginals are measured beside them, before
it is known which tables."""

LEAST_AGAIN = 1e-4
"""The part of what is left for which a one-way marginal is measured better, at least."""

PARTS = 8
"""Of the tables that a search finds all are tried, the best seven eighths, and so on to none."""


@dataclass(frozen=True)
class Round:
    """The questions of one release after the first one.

    counted   the noisy number of rows
    zeros     cells that are empty
    weights   what each pair's error counts (d, d); None where all count alike
    """

    curator: Curator
    planning: Planning
    counted: NoisyMarginal
    zeros: StructuralZeros
    weights: FloatArray | None = None

    @property
    def sizes(self) -> Mapping[str, int]:
        """Levels of every attribute."""
        return self.planning.sizes

    @property
    def left(self) -> Fraction:
        """What is left of the amount."""
        return self.curator.accountant.remaining

    def fitted(self) -> FittedRows:
        """Everything measured, by a plan, and what rows are drawn from."""
        if not self.sizes:
            return FittedRows((self.counted,), self.sizes)
        plan = self.planning.choose(self.curator)
        if plan is None:
            return self._packed()
        if plan.views:
            weights = [self.planning.view_weight(view) for view in plan.views]
            return self._tabulated(plan.views, weights)
        return self._searched(plan)

    def again(self, known: EarlierTables, *, smooths: bool) -> FittedRows:
        """The tables of an earlier release, measured again.

        One-way marginals that stood beside tables of groups get the share that they had there.
        """
        groupings = {name: known.groupings[name] for name in self.sizes if name in known.groupings}
        names = [one.attributes for one in known.measured[1:]]
        alone = [one for one in names if len(one) == 1]
        inside = {name for one in names if len(one) > 1 for name in one}
        is_early = bool(groupings) or any(one[0] in inside for one in alone)
        early = alone if is_early else []
        tables = [one for one in names if one not in early]
        sizes = {n: groupings[n].size if n in groupings else size for n, size in self.sizes.items()}
        learned = known.smoothed if smooths else _as_measured
        singles, measured = list[NoisyMarginal](), list[NoisyMarginal]()
        if early:
            amounts = self._as_cold(tables, sizes)
            singles = [learned(one) for one in self.curator.tabulate(amounts_of(amounts, early))]
        elif tables:
            # Every attribute once is packed; a cover of pairs holds them more often.
            is_packed = sum(map(len, tables)) == len(self.sizes)
            noise = one_way_noise if is_packed else _pair_noise
            amounts = self._amounts(tables, [noise(one, sizes) for one in tables])
        if tables:
            coarse = self.curator.grouped(groupings) if groupings else self.curator
            measured = [learned(one) for one in coarse.tabulate(amounts_of(amounts, tables))]
        counted = learned(self.counted)
        ways = OneWays.of(singles, counted) if early else None
        return FittedRows(
            (counted, *measured), self.sizes, ways, groupings, self.planning.cap, self.zeros
        )

    def _as_cold(
        self, tables: Sequence[Names], grouped: Mapping[str, int]
    ) -> dict[Names, Fraction]:
        """What tables and one-way marginals get beside each other: each marginal what it is worth
        before there is a table, and of the rest what ``_searched`` would add. Without the first,
        one whose attribute is in a good table would get next to nothing, and the fit begins at it.
        """
        early = self.planning.amount * self.planning.early
        weights = [float(size) for size in self.sizes.values()]
        first = self._amounts([(name,) for name in self.sizes], weights, early)
        before = {name: float(amount) for (name,), amount in first.items()}
        untold = np.zeros((len(before), len(before)))
        of_tables, added = self._shared(grouped, before, untold).amounts(
            tables, float(self.left - early)
        )
        of_singles = added + np.array(list(before.values()))
        return self._split((*tables, *first), np.concatenate([of_tables, of_singles]))

    def _packed(self) -> FittedRows:
        """Every attribute in one table."""
        tables = self.planning.packed
        return self._tabulated(tables, [one_way_noise(table, self.sizes) for table in tables])

    def _tabulated(self, tables: Sequence[Names], weights: Sequence[float]) -> FittedRows:
        measured = self.curator.tabulate(self._amounts(tables, weights))
        return FittedRows(
            (self.counted, *measured), self.sizes, cap=self.planning.cap, zeros=self.zeros
        )

    def _searched(self, plan: Plan) -> FittedRows:
        """One-way marginals, and tables of groups of levels."""
        begun = self.begun(self.planning.amount * plan.early)
        gaps = GapQuestions(self.planning, self.curator, begun, self.zeros).asked(plan)
        choose = self._grown if plan.mean_gap else self._chosen
        search, tables = choose(begun, gaps)
        measured, ways = self.measured(begun, search, tables)
        return FittedRows(
            (self.counted, *measured),
            self.sizes,
            ways,
            begun.groupings,
            self.planning.cap,
            self.zeros,
        )

    def _grown(
        self, begun: Begun, gaps: Mapping[Pair, float]
    ) -> tuple[TableSearch, Sequence[Names]]:
        """Tables put together by the gaps of few pairs and the mean of all."""
        search = self.search(begun, gaps)
        # Of gaps that are guessed alike nothing can be said along paths.
        search = replace(search, depends=Dependence.of(search.sizes, gaps))
        noise = self._sharing(begun, search, ())
        return search, TableGrowth(search, noise, float(self.left)).run()

    def _chosen(
        self, begun: Begun, gaps: Mapping[Pair, float]
    ) -> tuple[TableSearch, Sequence[Names]]:
        """Tables, searched for twice: the second time with what those of the first would get. Where
        one-way marginals are wanted most, that is far less than is guessed before.
        """
        first = self.search(begun, gaps)
        tables = _of_several(first, self.planning.pairs)
        of_tables, _ = self._divided(begun, first, tables)
        again = replace(first, amount=float(of_tables.sum()))
        tables = _of_several(again, self.planning.pairs) if tables else tables
        return again, self._worth(begun, again, tables)

    def _worth(self, begun: Begun, search: TableSearch, tables: Sequence[Names]) -> Sequence[Names]:
        """Those of the tables, the ones that tell most for their cost, with which the error of all
        pairs is least: what a table costs, one-way marginals do not get.
        """
        gaps, place = search.counted(search.depends.gaps), search.place

        def told(table: Names) -> float:
            inside = combinations(table, 2)
            return fsum(gaps[place[a], place[b]] for a, b in inside) / search.share(table)

        best = sorted(tables, key=told, reverse=True)
        parts = [best[: round(len(best) * part / PARTS)] for part in range(PARTS, -1, -1)]
        errors = [self._error(begun, search, part) for part in parts]
        kept = set(parts[int(np.argmin(errors))])
        return [table for table in tables if table in kept]

    def begun(self, early: Fraction) -> Begun:
        """One-way marginals for an amount, and the groups of levels that they give."""
        sizes = [float(size) for size in self.sizes.values()]
        singles = self._amounts([(name,) for name in self.sizes], sizes, early)
        first = self.curator.tabulate(singles)
        ways = OneWays.of(first, self.counted)
        least = self.planning.least_share(float(self.left))
        groupings = {
            n: Grouping.by_share(ways.shares[n], least=least, kinds=self.zeros.kinds(n))
            for n in self.sizes
        }
        before = {names[0]: float(amount) for names, amount in singles.items()}
        return Begun(first, ways, groupings, before)

    def measured(
        self, begun: Begun, search: TableSearch, tables: Sequence[Names]
    ) -> tuple[tuple[NoisyMarginal, ...], OneWays]:
        """Tables that a search has found, and one-way marginals with less noise, for all that is
        left.
        """
        of_tables, of_singles = self._divided(begun, search, tables)
        again = [
            (name,)
            for name, amount in zip(self.sizes, of_singles, strict=True)
            if amount > LEAST_AGAIN * float(self.left)
        ]
        more = of_singles[of_singles > LEAST_AGAIN * float(self.left)]
        amounts = self._split((*tables, *again), np.concatenate([of_tables, more]))
        coarse = self.curator.grouped(begun.groupings)
        measured = coarse.tabulate(amounts_of(amounts, tables)) if tables else ()
        better = self._better(begun.first, amounts_of(amounts, again))
        return tuple(measured), OneWays.of(better, self.counted)

    def _divided(
        self, begun: Begun, search: TableSearch, tables: Sequence[Names]
    ) -> tuple[FloatArray, FloatArray]:
        """What is left, as tables and one-way marginals would share it."""
        shared = self._sharing(begun, search, tables)
        return shared.amounts(tables, float(self.left))

    def _error(self, begun: Begun, search: TableSearch, tables: Sequence[Names]) -> float:
        """What they would leave, in rows in L1, of all pairs together."""
        shared = self._sharing(begun, search, tables)
        return shared.error(tables, float(self.left))

    def _sharing(self, begun: Begun, search: TableSearch, tables: Sequence[Names]) -> SharedNoise:
        told = {pair for names in tables for pair in combinations(names, 2)}
        untold = search.depends.untold(search.depends.paths(told))
        return self._shared(search.sizes, begun.before, untold)

    def _better(
        self, first: Sequence[NoisyMarginal], added: Mapping[Names, Fraction]
    ) -> list[NoisyMarginal]:
        """One-way marginals with less noise, refined for what is added to their price."""
        if not added:
            return list(first)
        better = {one.attributes: one for one in self.curator.refine(added)}
        return [better.get(one.attributes, one) for one in first]

    def _shared(
        self,
        grouped: Mapping[str, int],
        before: Mapping[str, float],
        untold: FloatArray,
    ) -> SharedNoise:
        return SharedNoise(self.sizes, grouped, before, untold, self.planning.rate, self.weights)

    def _split(self, tables: Sequence[Names], amounts: FloatArray) -> dict[Names, Fraction]:
        """All that is left, about as said."""
        parts = amounts / amounts.sum()
        exact = [Fraction(max(1, round(10**5 * part))) for part in parts.tolist()]
        return dict(zip(tables, split(self.left, exact), strict=True))

    def search(self, begun: Begun, gaps: Mapping[Pair, float]) -> TableSearch:
        """A search for tables with what is left.

        gaps   how far each pair is from independence, in rows
        """
        sizes = {name: one.size for name, one in begun.groupings.items()}
        zeros, rows = self.zeros.grouped(begun.groupings), begun.ways.rows
        cap = max(4, self.planning.cap, zeros.most_cells(sizes))
        return TableSearch(
            sizes=sizes,
            weights=self.weights,
            depends=begun.depends(gaps),
            amount=float(self.left) * OF_TABLES,
            rate=self.planning.rate,
            rows=rows,
            cap=cap,
            total=MOST_TREE * cap,
            room=ROOM,
            edges=zeros.pairs,
        )

    def _amounts(
        self, tables: Sequence[Names], weights: Sequence[float], amount: Fraction | None = None
    ) -> dict[Names, Fraction]:
        """What each table gets of ``amount``, or of all that is left."""
        shares = self.planning.rate.integer_shares(weights)
        return dict(zip(tables, split(amount or self.left, shares), strict=True))
