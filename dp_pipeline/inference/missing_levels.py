"""Levels of missing values, the last of an attribute, in noisy tables: most attributes have no row
there, and noise alone would put some.

Post-processing: it reads noisy tables alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf, log, sqrt

from dp_pipeline.inference.consistency import SMALLEST_VARIANCE
from dp_pipeline.results.measurement import NoisyMarginal


def complete_attributes(
    measured: Sequence[NoisyMarginal], sizes: Mapping[str, int]
) -> frozenset[str]:
    """Return the attributes whose rows with a missing value are not above their noise.

    measured   tables; one over fewer groups of an attribute's levels says nothing about it
    sizes      attribute → levels, the last of which is of missing values

    Of d attributes, those m are above noise for which noise alone has so many rows with a chance of
    at most m/d, by Chernoff's bound, and one standard deviation at least; of such m the largest. Of
    Gaussian noise that is √(2 ln(d/m)) deviations: where many attributes have missing values, few
    are enough (Abramovich, Benjamini, Donoho, Johnstone, Annals of Statistics 34, 2006). An
    attribute that no table tells of is not complete.

    >>> import numpy as np
    >>> from fractions import Fraction
    >>> few = NoisyMarginal(("sex",), np.array([6, 9, 1]), Fraction(1))
    >>> many = NoisyMarginal(("smokes",), np.array([6, 2, 8]), Fraction(1))
    >>> sorted(complete_attributes([few, many], {"sex": 3, "smokes": 3}))
    ['sex']
    """
    evidence = {
        name: _evidence_of_rows(tables, name)
        for name, size in sizes.items()
        if (tables := [table for table in measured if _has_levels(table, name, size)])
    }
    order = sorted(evidence, key=lambda name: -evidence[name])
    counts = [m for m, name in enumerate(order, 1) if evidence[name] >= log(len(order) / m)]
    return frozenset(order[max(counts, default=0) :])


def _has_levels(table: NoisyMarginal, name: str, size: int) -> bool:
    """Return whether a table has all levels of an attribute."""
    return dict(zip(table.attributes, table.table.shape, strict=True)).get(name) == size


def _evidence_of_rows(tables: Sequence[NoisyMarginal], name: str) -> float:
    """Return −ln of a bound on the chance that noise alone has so many rows in the last level;
    −∞ below one standard deviation.

    Tables are averaged by inverse variance. Noise is taken for a sum of k Laplace variables with
    the same fourth moment, whose Chernoff bound is exp(−k(r − 1 − ln((r + 1)/2))) at z standard
    deviations, r = √(1 + 2z²/k); and exp(−z²/2) of Gaussian noise, where k is infinite.
    """
    rows = precision = fourth = 0.0
    for table in tables:
        cells = table.table.take(-1, table.attributes.index(name))
        weight = 1 / (cells.size * max(table.variance, SMALLEST_VARIANCE))
        rows, precision = rows + weight * float(cells.sum()), precision + weight
        fourth += 0.0 if table.gaussian else weight**2 / cells.size
    deviations, laplaces = rows / sqrt(precision), precision**2 / fourth if fourth else inf
    if deviations < 1:
        return -inf
    if laplaces == inf:
        return deviations**2 / 2
    root = sqrt(1 + 2 * deviations**2 / laplaces)
    return laplaces * (root - 1 - log((root + 1) / 2))


def without_last_levels(table: NoisyMarginal, names: Collection[str]) -> NoisyMarginal:
    """Return a table without the last level of these attributes."""
    levels = tuple(slice(-1) if name in names else slice(None) for name in table.attributes)
    return replace(table, table=table.table[levels])
