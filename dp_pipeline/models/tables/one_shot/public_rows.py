"""What one_shot asks where public rows of others are known: nothing of ε goes to finding tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import pi, prod, sqrt

import numpy as np

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.inference.earlier import PublicTable, believed, smoothed
from dp_pipeline.inference.fitted_tree import FittedRows, OneWays
from dp_pipeline.inference.table_sets import TableSearch
from dp_pipeline.models.tables.one_shot.gaps import Begun
from dp_pipeline.models.tables.one_shot.plan import Pair
from dp_pipeline.models.tables.one_shot.round import OF_TABLES, Round
from dp_pipeline.results.measurement import NoisyMarginal

SURE = 50.0
"""How many times more a search for tables that cost nothing is given than one for tables to be
measured: not without end, as huge tables of public rows are mostly holes."""


DOUBT = 1.0
"""Standard errors by which a difference from public rows has to be seen: in doubt there is none."""


@dataclass(frozen=True)
class PriorRound:
    """One-way marginals, the tables of which public rows say too little, and a tree fitted to
    these and to what public rows say of all others.

    round    what is asked, and pays
    public   rows of others over the same attributes

    How far the rows are from the public ones is read off the one-way marginals: of a cell with c
    rows, φ·c is the square of what public shares are off by, about, with

        φ = Σ (‖y − p‖² − cells·σ²) / Σ c,

    y the noisy marginals, p the public ones and σ² the variance of the noise; at least what two
    samples of one population differ by, and less its own standard error, so that noise is not taken
    for a difference. Of the tables whose gaps pay for their noise, by public rows, those are
    measured whose noise is less than that; the others are as public rows have them. What is
    measured is combined with the public table by the method of moments
    (``inference.earlier.smoothed``).
    """

    round: Round
    public: PublicTable

    def fitted(self) -> FittedRows:
        """Everything measured, and what rows are drawn from."""
        round_ = self.round
        begun = round_.begun(round_.planning.amount * round_.planning.early)
        public = replace(self.public, groupings=begun.groupings)
        rows, phi = begun.ways.rows, self._apart(begun)
        begun = replace(begun, ways=self._with_public(begun.first, public, rows))
        gaps = {pair: _gap(public, pair, rows) for pair in round_.planning.pairs}
        search = round_.search(begun, gaps)
        tables = [names for names in search.run(round_.planning.pairs) if len(names) > 1]
        tables = self._worth(tables, search.sizes, public, phi * rows)
        measured, ways = round_.measured(begun, search, tables)
        shares = begun.shares
        known = [
            self._beside(one, public.with_margins(one.attributes, shares), rows) for one in measured
        ]
        known += self._unmeasured(search, tables, public, shares, phi * rows)
        return FittedRows(
            (round_.counted, *known),
            round_.sizes,
            self._with_public(ways.measured, public, rows),
            begun.groupings,
            round_.planning.cap,
            round_.zeros,
            paid=(round_.counted, *ways.measured, *measured),
        )

    def _worth(
        self,
        tables: Sequence[Names],
        sizes: Mapping[str, int],
        public: PublicTable,
        squares: float,
    ) -> list[Names]:
        """Those of the tables that are known better by being measured than by public rows."""
        rate, amount = self.round.planning.rate, float(self.round.left) * OF_TABLES
        cells = {names: prod(sizes[name] for name in names) for names in tables}
        off = {names: _off(public, names, squares) for names in tables}
        kept = list(tables)
        while kept:
            parts = [rate.share(float(cells[names])) for names in kept]
            amounts = [amount * part / sum(parts) for part in parts]
            noise = [
                cells[names] * rate.deviation(one) / off[names]
                for names, one in zip(kept, amounts, strict=True)
            ]
            if max(noise) <= 1:
                break
            kept.pop(int(np.argmax(noise)))
        return kept

    def _apart(self, begun: Begun) -> float:
        """φ, at least 1 and what the number of public rows adds."""
        rows = begun.ways.rows
        squares, unsure = 0.0, 0.0
        for one in begun.first:
            off = one.table - rows * self.public.shares(one.attributes)
            squares += float((off**2).sum()) - one.table.size * one.variance
            unsure += 5 * one.table.size * one.variance**2
        found = (squares - sqrt(unsure)) / (rows * len(begun.first))
        return max(1 + rows / max(1, self.public.rows), found)

    def _with_public(
        self, measured: tuple[NoisyMarginal, ...], public: PublicTable, rows: float
    ) -> OneWays:
        """One-way marginals, each combined with the public one."""
        found = [self._beside(one, public.shares(one.attributes), rows) for one in measured]
        return OneWays.of(found, self.round.counted)

    def _beside(self, one: NoisyMarginal, shares: FloatArray, rows: float) -> NoisyMarginal:
        """A noisy table combined with public shares of its cells."""
        table = one.table.astype(np.float64)
        # Two samples of one population differ by this in a cell.
        apart = rows * (1 + rows / max(1, self.public.rows)) / table.size
        values, variance = smoothed(table, one.variance, rows * shares, apart, doubt=DOUBT)
        return believed(one.attributes, np.rint(values).astype(np.int64), variance)

    def _unmeasured(
        self,
        search: TableSearch,
        tables: Sequence[Names],
        public: PublicTable,
        shares: Mapping[str, FloatArray],
        squares: float,
    ) -> list[NoisyMarginal]:
        """Tables that fit the tree beside the measured ones, as public rows have them."""
        pairs, rows = self.round.planning.pairs, search.rows
        held = {pair for names in tables for pair in combinations(names, 2)}
        edges = tuple({*search.edges, *held})
        search = replace(search, edges=edges, amount=SURE * search.amount)
        found = []
        for names in search.run(pairs):
            if len(names) > 1 and not set(combinations(names, 2)) <= held:
                table = rows * public.with_margins(names, shares)
                variance = max(1.0, squares / table.size)
                found.append(believed(names, np.rint(table).astype(np.int64), variance))
        return found


def _off(public: PublicTable, names: Names, squares: float) -> float:
    """What a public table is off by beside its one-way marginals, in rows in L1."""
    shares = public.shares(names)
    told = 1 + sum(size - 1 for size in shares.shape)
    freedom = max(0.0, shares.size - told) / shares.size
    return float(np.sqrt(shares).sum()) * sqrt(2 / pi * squares * freedom)


def _gap(public: PublicTable, pair: Pair, rows: float) -> float:
    """How far a pair is from independence in public rows, in rows."""
    shares = public.shares(pair)
    alone = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    return rows * float(np.abs(shares - alone).sum())
