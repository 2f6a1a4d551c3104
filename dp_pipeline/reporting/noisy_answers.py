"""The distance of synthetic rows from measured noisy tables, and the part that noise explains.

By the triangle inequality, for the synthetic table S, the noisy one M and the true one T: d(S, T)
is at least d(S, M) − d(M, T) and at most their sum; the mean and deviation of d(M, T), which is
noise alone, are known. S is made from M and other tables, so d(S, M) may be smaller than the noise:
then no error of the model is visible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb, sqrt

import numpy as np

from dp_pipeline.config.amounts import PURE
from dp_pipeline.config.domain import Attribute, Domain, pair_count
from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.inference.earlier import StoredTables
from dp_pipeline.metrics.marginals import MOST_PAIRS
from dp_pipeline.metrics.unit_tables import UnitTables
from dp_pipeline.reporting.plausibility import DEVIATIONS, NoisyTotal
from dp_pipeline.reporting.text import noisy_text, number_text
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyCounts, is_of_pairs, least_noisy
from dp_pipeline.results.synthetic_table import SyntheticTable

SEEN = 2
"""Deviations of the noise by which a distance must exceed its mean to be an error of the model."""


SHOWN_MISSING = 0.005
"""Share of missing cells below which a column is not listed by name."""


def attribute_text(attributes: Names) -> str:
    return " × ".join(attributes)


@dataclass(frozen=True)
class MeasuredTable:
    """The distance between synthetic and noisy measured shares of some attributes.

    distance   ½ Σ |s/m − c/n| over cells, for s of m synthetic rows and noisy counts c of n rows;
               above 1 where these are mostly noise
    noise      mean of the same distance between noisy counts and the truth
    spread     standard deviation of that distance
    """

    attributes: Names
    distance: float
    noise: float
    spread: float

    @property
    def name(self) -> str:
        return attribute_text(self.attributes)

    @property
    def model_error(self) -> float:
        """A lower bound of the model's error: ``distance`` − ``noise`` − 2 ``spread``, or 0."""
        return max(0.0, self.distance - self.noise - SEEN * self.spread)

    @property
    def distance_bound(self) -> float:
        """A bound of the expected distance from true shares: distance + noise, at most 1."""
        return min(1.0, self.distance + self.noise)

    @property
    def cells(self) -> list[str]:
        """The texts of a table line: attributes, distance, noise, model error, distance bound."""
        model = f"at least {number_text(self.model_error)}" if self.model_error else "not seen"
        noise = noisy_text(self.noise, self.spread)
        return [
            self.name,
            number_text(self.distance),
            noise,
            model,
            number_text(self.distance_bound),
        ]


@dataclass(frozen=True)
class NoisyAnswers:
    """The noisy tables that a release measured, to compare synthetic rows with.

    tables      noisy tables, each of which counts every row, or unit, once
    groupings   attribute → groups of its levels in tables of several attributes
    total       noisy number of rows, or units, by all tables; None without tables
    pairs       attribute of parts → noisy counts (cells,) of pairs of parts of one unit
    """

    tables: tuple[NoisyCounts, ...]
    groupings: Mapping[str, Grouping]
    total: NoisyTotal | None
    pairs: Mapping[str, NoisyCounts] = field(default_factory=dict)

    @classmethod
    def of_bundle(cls, bundle: Bundle, domain: Domain) -> NoisyAnswers | None:
        """Return the noisy tables that a stored release measured; None as ``StoredTables.of``."""
        stored = StoredTables.of(bundle.tables, domain)
        if stored is None:
            return None
        tables = [
            replace(NoisyCounts.of(marginal), gaussian=bundle.model_currency != PURE)
            for marginal in stored.measured
        ]
        return cls._of_counts(tables, stored.groupings, domain)

    @classmethod
    def of_table(cls, table: SyntheticTable) -> NoisyAnswers:
        """Return the noisy tables from which a synthetic table was made."""
        return cls._of_counts(table.noisy_counts, table.groupings, table.domain)

    @classmethod
    def _of_counts(
        cls, counts: Sequence[NoisyCounts], groupings: Mapping[str, Grouping], domain: Domain
    ) -> NoisyAnswers:
        rows = tuple(table for table in counts if not is_of_pairs(table.attributes))
        pairs = {}
        for table in counts:
            if is_of_pairs(table.attributes):
                cells = _cells_of_pairs(table.table, domain)
                terms, summed = len(cells), cells.sum(axis=0)
                deviation = table.deviation * sqrt(terms)
                pairs[table.attributes[1]] = replace(
                    table, table=summed, deviation=deviation, terms=terms
                )
        return cls(rows, groupings, NoisyTotal.of_counts(rows), pairs)

    def compare(self, codes: Mapping[str, IntArray], domain: Domain) -> tuple[MeasuredTable, ...]:
        """Return the distances of synthetic rows from noisy counts over some attributes.

        These are each measured attribute, at most ``MOST_PAIRS`` measured pairs of attributes, and
        each attribute of pairs of parts; of several counts, those with the least noise. () if the
        noisy number of rows is unknown or mostly noise.

        codes    attribute → codes of the synthetic rows (rows,)
        domain   declared attributes

        They are sorted by ``model_error`` and then ``distance_bound``, the largest first.
        """
        total = self.total
        if total is None or total.rows <= DEVIATIONS * total.deviation:
            return ()
        attribute_sets = self._attribute_sets(codes)[: len(codes) + MOST_PAIRS]
        units = None if domain.parts is None else UnitTables(domain, codes)
        weights = None if units is None else units.weights
        compared = (
            self._table(names, codes, domain, rows=total.rows, weights=weights)
            for names in attribute_sets
        )
        tables = [table for table in compared if table is not None]
        if units is not None:
            for name, noisy in self.pairs.items():
                shares, noise = noisy.table / total.rows, noisy.noise_distance(total.rows)
                # The pairs of parts of one unit share a weight of 1; a unit of one part has none.
                cells = _cells_of_pairs(units.pair_counts(name), domain)
                many = [pair_count(2 + i, in_order=units.has_order) for i in range(len(cells))]
                weighted = (cells / np.reshape(many, (-1, 1))).sum(axis=0)
                weighted = weighted / max(1.0, float(units.weights.sum()))
                distance = float(np.abs(weighted - shares).sum()) / 2
                tables.append(MeasuredTable((name, name), distance, *noise))
        return tuple(sorted(tables, key=lambda t: (-t.model_error, -t.distance_bound, -t.distance)))

    def most_missing(self, attribute: Attribute) -> float | None:
        """Return the largest plausible share, in 0..1, of missing cells of an attribute that may
        have some: ``DEVIATIONS`` above the noisy share.

        None if no noisy table has all levels of the attribute."""
        counts = (
            replace(table, table=table.table.take([-1], table.attributes.index(attribute.name)))
            for table in self.tables
            if (attribute.name, attribute.size)
            in zip(table.attributes, table.table.shape, strict=True)
        )
        missing = NoisyTotal.of_counts(counts)
        if missing is None or self.total is None:
            return None
        return min(1.0, max(0.0, missing.upper_bound) / max(1.0, self.total.rows))

    def count_unmeasured(self, codes: Mapping[str, IntArray]) -> int:
        """Return the number of pairs of attributes in ``codes`` that no noisy table has."""
        pairs = [names for names in self._attribute_sets(codes) if len(names) == 2]
        return comb(len(codes), 2) - len(pairs)

    def _attribute_sets(self, codes: Mapping[str, IntArray]) -> list[Names]:
        """Return the attributes of noisy tables, then the pairs in one table, each once."""
        measured = [[name for name in codes if name in t.attributes] for t in self.tables]
        singles = [(name,) for name in codes if any(name in names for names in measured)]
        pairs = dict.fromkeys(pair for names in measured for pair in combinations(names, 2))
        return [*singles, *pairs]

    def _table(
        self,
        attributes: Names,
        codes: Mapping[str, IntArray],
        domain: Domain,
        *,
        rows: float,
        weights: FloatArray | None,
    ) -> MeasuredTable | None:
        sizes = {name: domain[name].size for name in attributes}
        grouped = {name: self.groupings[name] for name in attributes if name in self.groupings}
        for groups in ({}, grouped):
            shape = tuple(groups[n].size if n in groups else sizes[n] for n in attributes)
            answer = least_noisy(self.tables, attributes, shape)
            if answer is not None:
                shares = synthetic_shares(attributes, codes, shape, groups, weights)
                distance = float(np.abs(shares - answer.table / rows).sum()) / 2
                return MeasuredTable(attributes, distance, *answer.noise_distance(rows))
        return None


def synthetic_shares(
    attributes: Names,
    codes: Mapping[str, IntArray],
    shape: tuple[int, ...],
    groups: Mapping[str, Grouping],
    weights: FloatArray | None = None,
) -> FloatArray:
    """Return the share of the synthetic rows in each cell over some attributes, in ``shape``; equal
    shares without rows.

    codes     attribute → codes (rows,)
    shape     number of each attribute's levels, or of groups of them where ``groups`` has any
    groups    attribute → groups of its levels
    weights   weight of each row (rows,); None: 1
    """
    columns = tuple(
        groups[name].group_of_level[codes[name]] if name in groups else codes[name]
        for name in attributes
    )
    keys = np.ravel_multi_index(columns, shape)
    cells = int(np.prod(shape, dtype=np.int64))
    counts = np.bincount(keys, weights, minlength=cells).reshape(shape)
    return np.asarray(counts / counts.sum() if len(keys) else np.full(shape, 1 / cells))


def missing_line(missing: Mapping[str, float], answers: NoisyAnswers | None, domain: Domain) -> str:
    """Return the shares of missing cells as one line of text, largest first; empty without any.

    missing   attribute → share, in 0..1, of the synthetic rows
    answers   noisy tables of the release; None where none are stored

    Attributes below ``SHOWN_MISSING`` are not named. Noise may hide missing cells of these: the
    line says how large their share may be.
    """
    listed = [name for name in missing if missing[name] >= SHOWN_MISSING]
    listed.sort(key=lambda name: -missing[name])
    parts = [f"{name} {_percent(missing[name])}" for name in listed]
    unnamed = [name for name in missing if name not in listed]
    if unnamed:
        bounds = [answers.most_missing(domain[name]) for name in unnamed] if answers else []
        measured = [bound for bound in bounds if bound is not None]
        words = "at most" if measured else "in the synthetic rows less than"
        columns = f"{len(unnamed)} {'other ' * bool(listed)}column{'s' * (len(unnamed) > 1)}"
        parts.append(f"{words} {_percent(max([SHOWN_MISSING, *measured]))} in {columns}")
    return ", ".join(parts)


def _percent(share: float) -> str:
    return f"{float(f'{100 * share:.2g}'):g} %"


def _cells_of_pairs(table: IntArray | FloatArray, domain: Domain) -> IntArray | FloatArray:
    """Return a table of pairs of parts as (sizes, cells): a row for each number of parts of a unit,
    from 2 on, and a cell for each pair of codes.

    table   (sizes, k, k) by both codes; where parts are a set, the smaller code is first
    """
    assert domain.parts is not None
    of_pairs = table[2 - domain.parts.fewest :]
    k = table.shape[-1]
    in_order = bool(domain.parts.order)
    return of_pairs.reshape(-1, k * k) if in_order else of_pairs[:, *np.triu_indices(k)]
