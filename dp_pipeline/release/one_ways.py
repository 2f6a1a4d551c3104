"""OneWays: the one-way marginals of a table, and the number of rows that they agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dp_pipeline.release.grouping import Grouping
from dp_pipeline.release.measurement import NoisyMarginal
from dp_pipeline.release.reconciliation import Estimate, reconciled
from dp_pipeline.release.simplex import project_to_simplex
from dp_pipeline.schema.encoding import FloatArray


@dataclass(frozen=True)
class OneWays:
    """Noisy one-way marginals.

    measured   one table an attribute
    rows       number of rows, at least 1
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
        """Every table's total estimates the number of rows, as do those of ``others``: their mean
        by inverse variance. The shares are the nearest counts without negative ones that add up
        to it (projecting to a sum of 1 would leave the largest level alone).
        """
        rows = float(max(1, estimated_rows((*measured, *others))))
        sums: dict[str, FloatArray] = {}
        weights: dict[str, float] = {}
        for one in measured:
            name, weight = one.attributes[0], 1 / max(one.variance, 1e-100)
            sums[name] = np.asarray(sums.get(name, 0.0) + weight * one.table)
            weights[name] = weights.get(name, 0.0) + weight
        means = {name: project_to_simplex(sums[name] / weights[name], rows) for name in sums}
        return cls(tuple(measured), rows, {n: mean / mean.sum() for n, mean in means.items()})

    @classmethod
    def within(cls, measured: Sequence[NoisyMarginal], sizes: Mapping[str, int]) -> OneWays:
        """One-way marginals inside larger tables, which tell no more by being looked at alone."""
        rows, tables = reconciled(measured, sizes)
        rows = max(1.0, rows)
        shares = {}
        for name in sizes:
            names = next(names for names in tables if name in names)
            axes = tuple(axis for axis, other in enumerate(names) if other != name)
            shares[name] = project_to_simplex(tables[names].sum(axis=axes), rows) / rows
        return cls((), rows, shares)

    def grouped(self, groupings: dict[str, Grouping]) -> list[Estimate]:
        """The marginals over groups of levels; a sum of several levels has the noise of all."""
        estimates = []
        for one in self.measured:
            grouping = groupings[one.attributes[0]]
            levels_a_group = one.table.size / grouping.size
            table = grouping.summed(one.table)
            estimates.append(Estimate(one.attributes, table, one.variance * levels_a_group))
        return estimates


def estimated_rows(marginals: Sequence[NoisyMarginal]) -> int:
    """Inverse-variance mean of the tables' totals, at least 0: each total estimates n."""
    # At a very large ε the variance is 0 to every digit of a float.
    variances = np.array([one.table.size * max(one.variance, 1e-100) for one in marginals])
    weights = 1 / variances
    totals = np.array([one.table.sum() for one in marginals], dtype=np.float64)
    return max(0, round(float((weights * totals).sum() / weights.sum())))


def shares(marginal: NoisyMarginal, rows: float) -> FloatArray:
    """Probabilities of the cells: the nearest counts that add up to ``rows``, divided by them.

    Projecting the counts themselves to a sum of 1 would leave their largest cell alone.
    """
    counts = project_to_simplex(marginal.table, total=max(1.0, rows))
    return np.asarray(counts / counts.sum())
