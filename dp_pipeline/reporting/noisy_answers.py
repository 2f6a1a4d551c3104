"""NoisyAnswers: how far synthetic rows are from the noisy tables that they were made of, beside how
far noise alone puts those from the truth. Post-processing, which a reader may see.

The triangle inequality is all that is used. S is the synthetic table, M the noisy one and T the
true one: d(S, T) is at least d(S, M) − d(M, T) and at most their sum, and of d(M, T), which is
noise alone, mean and deviation are known. S is made from M and other tables, so d(S, M) may be
smaller than the noise: then noise is what this table costs, and nothing is seen of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from dp_pipeline.config.amounts import PURE
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.inference.earlier import EarlierTables
from dp_pipeline.metrics.marginals import MOST_PAIRS
from dp_pipeline.reporting.plausibility import DEVIATIONS, NoisyTotal
from dp_pipeline.reporting.text import noisy_text, number_text
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyCounts, least_noisy
from dp_pipeline.results.synthetic_table import SyntheticTable

SEEN = 2
"""Deviations of the noise that a distance must be above it before a model is blamed."""


def named(attributes: Names) -> str:
    """Attributes of one table as a line begins with them."""
    return " × ".join(attributes)


@dataclass(frozen=True)
class MeasuredTable:
    """How far the synthetic shares of some attributes are from the noisy answers about them.

    distance   ½ Σ |s/m − c/n| for noisy counts c; above 1 where these are mostly noise
    noise      the same distance between noisy answers and the truth, on average
    spread     standard deviation of that
    """

    attributes: Names
    distance: float
    noise: float
    spread: float

    @property
    def model(self) -> float:
        """How far the synthetic shares are from the truth at least, whatever the noise is within
        ``SEEN`` deviations of it; 0 where noise explains all that is seen.
        """
        return max(0.0, self.distance - self.noise - SEEN * self.spread)

    @property
    def most(self) -> float:
        """How far they are from the truth at most, on average."""
        return min(1.0, self.distance + self.noise)

    @property
    def cells(self) -> list[str]:
        """A line of a table: attributes, the distance, that of the noise, what is the model's."""
        model = f"at least {number_text(self.model)}" if self.model else "not seen"
        return [
            named(self.attributes),
            number_text(self.distance),
            noisy_text(self.noise, self.spread),
            model,
            number_text(self.most),
        ]


@dataclass(frozen=True)
class NoisyAnswers:
    """The measured tables of a release.

    tables      as they were paid for
    groupings   attribute → groups of its levels in tables of several attributes
    total       number of rows by all of them
    """

    tables: tuple[NoisyCounts, ...]
    groupings: Mapping[str, Grouping]
    total: NoisyTotal | None

    @classmethod
    def of_bundle(cls, bundle: Bundle, domain: Domain) -> NoisyAnswers | None:
        """From what is stored; None where no noisy count of a table is."""
        measured = bundle.tables.get("measured")
        if measured is None or "cells" not in bundle.tables:
            return None
        names = {name for text in measured["marginal"].tolist() for name in text.split(", ")}
        if not names - {""} <= set(domain.names):
            return None
        known = EarlierTables.of(bundle.tables, domain)
        if known is None:
            return None
        gaussian = bundle.budget != PURE
        tables = [
            NoisyCounts(one.attributes, one.table, one.variance**0.5, gaussian)
            for one in known.measured
        ]
        total = NoisyTotal.of_marginals(known.measured)
        return cls(tuple(tables), known.groupings, total)

    @classmethod
    def of_table(cls, table: SyntheticTable) -> NoisyAnswers:
        """From a release in memory."""
        total = NoisyTotal.of_marginals(table.measured)
        return cls(tuple(map(NoisyCounts.of, table.measured)), table.groupings, total)

    def compared(self, codes: Mapping[str, IntArray], domain: Domain) -> tuple[MeasuredTable, ...]:
        """Every column, and every pair that a measured table holds, against the least noisy answer:
        first those where the model is seen most, then those that may be furthest from the truth.
        None where the number of rows is not above its noise.

        codes   of the synthetic rows
        """
        total = self.total
        if total is None or total.rows <= DEVIATIONS * total.deviation:
            return ()
        ways = self._ways(codes)[: len(codes) + MOST_PAIRS]
        found = (self._table(way, codes, domain, rows=total.rows) for way in ways)
        return tuple(
            sorted(
                (one for one in found if one is not None),
                key=lambda one: (-one.model, -one.most, -one.distance),
            )
        )

    def unmeasured(self, codes: Mapping[str, IntArray]) -> int:
        """Pairs of attributes that no measured table holds."""
        pairs = {frozenset(way) for way in self._ways(codes) if len(way) == 2}
        return comb(len(codes), 2) - len(pairs)

    def _ways(self, codes: Mapping[str, IntArray]) -> list[Names]:
        order = {name: at for at, name in enumerate(codes)}
        names = {name for one in self.tables for name in one.attributes} & set(codes)
        singles = [(name,) for name in sorted(names, key=order.__getitem__)]
        pairs = dict.fromkeys(
            tuple(sorted(pair, key=order.__getitem__))
            for one in self.tables
            for pair in combinations(one.attributes, 2)
            if set(pair) <= names
        )
        return [*singles, *pairs]

    def _table(
        self, way: Names, codes: Mapping[str, IntArray], domain: Domain, *, rows: float
    ) -> MeasuredTable | None:
        """Over groups of levels where no table has the levels; None where no table has either."""
        sizes = {name: domain[name].size for name in way}
        grouped = {name: self.groupings[name] for name in way if name in self.groupings}
        for groups in ({}, grouped):
            shape = tuple(groups[n].size if n in groups else sizes[n] for n in way)
            answer = least_noisy(self.tables, way, shape)
            if answer is not None:
                shares = synthetic_shares(way, codes, shape, groups)
                distance = float(np.abs(shares - answer.table / rows).sum()) / 2
                return MeasuredTable(way, distance, *answer.noise_distance(rows))
        return None


def synthetic_shares(
    way: Names,
    codes: Mapping[str, IntArray],
    shape: tuple[int, ...],
    groups: Mapping[str, Grouping],
) -> FloatArray:
    """Share of the synthetic rows in each cell; uniform where there is no row."""
    keys = np.zeros(len(codes[way[0]]), dtype=np.int64)
    for name, size in zip(way, shape, strict=True):
        column = groups[name].labels[codes[name]] if name in groups else codes[name]
        keys = keys * size + column
    cells = int(np.prod(shape, dtype=np.int64))
    counts = np.bincount(keys, minlength=cells).reshape(shape)
    return np.asarray(counts / len(keys) if len(keys) else np.full(shape, 1 / cells))
