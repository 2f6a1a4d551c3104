"""AgreedTables: noisy tables that overlap, without negative cells and nearly consistent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.inference.consistency import (
    NoisyTable,
    agree_by_ripple,
    reconcile_tables,
    variance_of,
)
from dp_pipeline.results.measurement import marginal_of


@dataclass(frozen=True, eq=False)
class AgreedTables:
    """Noisy tables of one release, adjusted until they nearly agree with each other.

    cells       attributes → cells ≥ 0, in rows, axes in the order of all attributes; no set of
                attributes is inside another one
    variances   attributes → variance of a cell's noise as measured, in squared rows

    >>> from dp_pipeline.inference.consistency import TableEstimate
    >>> tall = TableEstimate(("a", "b"), np.array([[9.0, 0.0], [1.0, -2.0]]), 1.0)
    >>> wide = TableEstimate(("b", "c"), np.array([[6.0, 4.0], [-2.0, 0.0]]), 1.0)
    >>> tables = AgreedTables.of([tall, wide], {"a": 2, "b": 2, "c": 2})
    >>> tables.one_way("b").round(2).tolist(), tables.pair("a", "c")
    ([8.0, 0.0], None)
    """

    cells: Mapping[Names, FloatArray]
    variances: Mapping[Names, float]

    @classmethod
    def of(cls, measured: Sequence[NoisyTable], sizes: Mapping[str, int]) -> AgreedTables:
        """Return measured tables made ≥ 0 and nearly consistent, without those inside larger ones.

        They are fitted by least squares, weighted by noise, and then by ``agree_by_ripple``. If
        that empties a table, every table gets equal cells of sum 1 instead.

        measured   noisy tables, at least one of them over an attribute
        """
        _, tables = reconcile_tables(measured, sizes)
        variances = {names: variance_of(names, measured) for names in tables}
        deviation = sqrt(min(variances.values()))
        tables = agree_by_ripple(tables, deviation=deviation, variances=variances)
        if not all(table.any() for table in tables.values()):
            tables = {name: np.full(table.shape, 1 / table.size) for name, table in tables.items()}
        return cls(tables, variances)

    @property
    def rows(self) -> float:
        """The sum of the first table's cells, above 0; the others' sums are nearly equal."""
        return float(next(iter(self.cells.values())).sum())

    def one_way(self, name: str) -> FloatArray:
        """Return the rows in each level (levels,), from the first table that has the attribute."""
        names = next(names for names in self.cells if name in names)
        return marginal_of(self.cells[names], names, (name,))

    def pair(self, first: str, second: str) -> tuple[FloatArray, float] | None:
        """Return the counts over two attributes, axes in this order, and the variance of a cell;
        None if no table has both.

        The counts are the inverse-variance mean over all tables that have both."""
        total, precision = np.zeros(()), 0.0
        for names, table in self.cells.items():
            if first in names and second in names:
                cells = marginal_of(table, names, (first, second))
                weight = cells.size / (table.size * self.variances[names])
                total, precision = total + weight * cells, precision + weight
        return (total / precision, 1 / precision) if precision else None

    def pairs(self, names: Iterable[str]) -> dict[Names, FloatArray]:
        """Return two of the attributes, in their order → their counts (``pair``), for the pairs
        that a table has."""
        means = {pair: self.pair(*pair) for pair in combinations(names, 2)}
        return {pair: mean[0] for pair, mean in means.items() if mean is not None}
