"""AgreedTables: noisy tables that overlap, without negative cells and nearly consistent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.inference.consistency import (
    NoisyTable,
    agree_by_ripple,
    reconciled,
    variance_of,
)
from dp_pipeline.results.measurement import marginal_of


@dataclass(frozen=True, eq=False)
class AgreedTables:
    """Noisy tables of one release, adjusted until they agree with each other.

    cells       attributes → cells ≥ 0, in rows, axes in the order of all attributes; no set of
                attributes is inside another one
    variances   attributes → of one cell, as it was measured, in squared rows

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
        """Return the agreed tables: least squares weighted by noise, then Ripple and consistency in
        turn.

        If a table comes out empty, each has equal cells and the total 1.

        measured   at least one of an attribute or more
        """
        _, tables = reconciled(measured, sizes)
        variances = {names: variance_of(names, measured) for names in tables}
        deviation = sqrt(min(variances.values()))
        tables = agree_by_ripple(tables, deviation=deviation, variances=variances)
        if not all(table.any() for table in tables.values()):
            tables = {name: np.full(table.shape, 1 / table.size) for name, table in tables.items()}
        return cls(tables, variances)

    @property
    def rows(self) -> float:
        """The total of every table in rows, above 0."""
        return float(next(iter(self.cells.values())).sum())

    def one_way(self, name: str) -> FloatArray:
        """Return the number of rows in every level, from the first table that has the attribute."""
        names = next(names for names in self.cells if name in names)
        return marginal_of(self.cells[names], names, (name,))

    def pair(self, first: str, second: str) -> tuple[FloatArray, float] | None:
        """Return the table over two attributes and the variance of one of its cells; None if no
        table has both.

        Axes are in this order; it is the mean of all tables that hold both, by inverse variance."""
        total, precision = np.zeros(()), 0.0
        for names, table in self.cells.items():
            if first in names and second in names:
                cells = marginal_of(table, names, (first, second))
                weight = cells.size / (table.size * self.variances[names])
                total, precision = total + weight * cells, precision + weight
        return (total / precision, 1 / precision) if precision else None
