"""The measurements of a release that has public rows of others: no ε goes to finding tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import pi, prod, sqrt

import numpy as np

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.inference.earlier import PublicTable, assume_gaussian_noise, combine_with_earlier
from dp_pipeline.inference.fitted_tree import FittedRows, OneWays
from dp_pipeline.inference.table_growth import TableGrowth
from dp_pipeline.models.tables.one_shot.plan import ONE_WAY_SHARE
from dp_pipeline.models.tables.one_shot.round import Round
from dp_pipeline.models.tables.one_shot.scores import OneWayStage
from dp_pipeline.results.measurement import NoisyMarginal

SURE = 50.0
"""Tuned: multiple of the amount with which tables of public rows are searched, which cost nothing:
more would give huge tables, which are mostly holes."""

DOUBT = 1.0  # tuned: standard errors that a difference from public rows has to exceed


@dataclass(frozen=True)
class PriorRound:
    """A round that measures what public rows predict badly, and takes all other tables from them.

    It measures one-way marginals too, and fits a tree to all of these.

    round    the measurements, and the budget
    public   public rows over the same attributes

    How far the rows are from the public ones is read off the one-way marginals: of a cell with c
    rows, φ·c is the square of what public shares are off by, about, with

        φ = Σ (‖y − p‖² − cells·σ²) / Σ c,

    y the noisy marginals, p the public ones and σ² the variance of the noise; at least what two
    samples of one population differ by, and less its own standard error, so that noise is not taken
    for a difference. Of the tables whose scores pay for their noise, by public rows, those are
    measured whose noise is less than that; the others are as public rows have them. What is
    measured is combined with the public table by the method of moments
    (``inference.earlier.combine_with_earlier``).
    """

    round: Round
    public: PublicTable

    def measure_and_fit(self) -> FittedRows:
        """Measure one-way marginals and tables with the whole remaining budget; return the fit to
        these and to public tables."""
        round_ = self.round
        stage = round_.measure_one_ways(round_.planning.amount * ONE_WAY_SHARE)
        public = replace(self.public, groupings=stage.groupings)
        rows, phi = stage.marginals.rows, self._difference(stage)
        stage = replace(stage, marginals=self._with_public(stage.measured, public, rows))
        # The L1 distance of a pair from independence in the public rows, scaled to ``rows`` rows.
        scores = {}
        for pair in round_.planning.pairs:
            joint = public.shares(pair)
            product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
            scores[pair] = rows * float(np.abs(joint - product).sum())
        growth = round_.build_search(stage, scores)
        tables = self._tables_to_measure(growth, public, phi * rows)
        measured, marginals = round_.measure_tables(stage, scores, tables)
        shares = stage.shares
        known = [
            self._combine(table, public.shares_with_margins(table.attributes, shares), rows)
            for table in measured
        ]
        known += self._public_tables(growth, tables, public, shares, phi * rows, rows)
        return FittedRows(
            (round_.counted, *known),
            round_.sizes,
            self._with_public(marginals.measured, public, rows),
            stage.groupings,
            round_.planning.cap,
            round_.zeros,
            paid=(round_.counted, *marginals.measured, *measured),
        )

    def _tables_to_measure(
        self, growth: TableGrowth, public: PublicTable, squares: float
    ) -> list[Names]:
        """Return the attribute sets of tables that are more accurate when measured than when taken
        from public rows.

        squares   squared error of a public table, summed over its cells, in squared rows
        """
        rate, tables = growth.error.rate, list(growth.run())
        # The expected L1 errors of public tables, in rows, whose one-way marginals are known.
        errors = {}
        for names in tables:
            shares = public.shares(names)
            known = 1 + sum(size - 1 for size in shares.shape)
            freedom = max(0.0, shares.size - known) / shares.size
            errors[names] = float(np.sqrt(shares).sum()) * sqrt(2 / pi * squares * freedom)
        while tables:
            amounts = growth.error.divide(tables, growth.amount)[0].tolist()
            noise = [
                prod(growth.error.grouped[name] for name in names) * rate.mean_noise(amount)
                for names, amount in zip(tables, amounts, strict=True)
            ]
            ratios = [rows / errors[names] for rows, names in zip(noise, tables, strict=True)]
            if max(ratios) <= 1:
                break
            tables.pop(int(np.argmax(ratios)))
        return tables

    def _difference(self, stage: OneWayStage) -> float:
        """Return φ ≥ 1 of the class: the squared difference of private from public rows in a cell,
        divided by the rows of the cell."""
        rows = stage.marginals.rows
        squares, unsure = 0.0, 0.0
        for marginal in stage.measured:
            off = marginal.table - rows * self.public.shares(marginal.attributes)
            squares += float((off**2).sum()) - marginal.table.size * marginal.variance
            unsure += 5 * marginal.table.size * marginal.variance**2
        phi = (squares - sqrt(unsure)) / (rows * len(stage.measured))
        return max(1 + rows / max(1, self.public.rows), phi)

    def _with_public(
        self, measured: tuple[NoisyMarginal, ...], public: PublicTable, rows: float
    ) -> OneWays:
        combined = [
            self._combine(marginal, public.shares(marginal.attributes), rows)
            for marginal in measured
        ]
        return OneWays.of(combined, self.round.counted)

    def _combine(self, measured: NoisyMarginal, shares: FloatArray, rows: float) -> NoisyMarginal:
        """Return a noisy table combined with ``rows`` times the public shares of its cells, by the
        method of moments, and rounded to integers."""
        table = measured.table.astype(np.float64)
        # Two samples of one population differ by this in a cell.
        apart = rows * (1 + rows / max(1, self.public.rows)) / table.size
        values, variance = combine_with_earlier(
            table, measured.variance, rows * shares, apart, doubt=DOUBT
        )
        return assume_gaussian_noise(
            measured.attributes, np.rint(values).astype(np.int64), variance
        )

    def _public_tables(
        self,
        growth: TableGrowth,
        tables: Sequence[Names],
        public: PublicTable,
        shares: Mapping[str, FloatArray],
        squares: float,
        rows: float,
    ) -> list[NoisyMarginal]:
        """Return tables of the public rows, scaled to ``rows``, with pairs that no measured table
        has; all of them fit into a tree with the measured tables.

        shares    attribute → shares to which the tables are raked
        squares   squared error of a public table, summed over its cells, in squared rows
        """
        held_pairs = {pair for names in tables for pair in combinations(names, 2)}
        edges = tuple({*growth.edges, *held_pairs})
        added = []
        for names in replace(growth, edges=edges, amount=SURE * growth.amount).run():
            if not set(combinations(names, 2)) <= held_pairs:
                table = rows * public.shares_with_margins(names, shares)
                variance = max(1.0, squares / table.size)
                added.append(
                    assume_gaussian_noise(names, np.rint(table).astype(np.int64), variance)
                )
        return added
