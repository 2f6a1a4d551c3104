"""Levels of missing values in noisy tables: most have no rows, where noise alone would put some."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf, log, pi, sqrt

from dp_pipeline.inference.consistency import SMALLEST_VARIANCE
from dp_pipeline.results.measurement import NoisyMarginal

MEAN_NOISE = sqrt(2 / pi)
"""Mean of Gaussian |noise|, in standard deviations: the error by a level that is not left out."""


def complete_attributes(
    measured: Sequence[NoisyMarginal],
    sizes: Mapping[str, int],
    groups: Mapping[str, int] | None = None,
) -> frozenset[str]:
    """Return the attributes whose last level, of missing values, has no more rows than noise.

    measured   noisy tables; those where the last level is grouped with others do not count for it
    sizes      attribute → number of its levels
    groups     attribute → number of groups of its levels in tables over groups, for attributes
               whose last level is a group of its own

    The m attributes whose last levels stand out most have more rows than noise, for the largest m
    such that noise alone would reach each of them with a chance of at most m/d, by Chernoff's bound
    and for d attributes. With Gaussian noise that is √(2 ln(d/m)) deviations: where many attributes
    have missing values, few are enough (Abramovich, Benjamini, Donoho, Johnstone, Annals of
    Statistics 34, 2006). The others are returned, but none if together they have more rows than
    noise, and no attribute that no table has.

    >>> import numpy as np
    >>> from fractions import Fraction
    >>> few = NoisyMarginal(("sex",), np.array([6, 9, 1]), Fraction(1))
    >>> many = NoisyMarginal(("smokes",), np.array([6, 2, 8]), Fraction(1))
    >>> sorted(complete_attributes([few, many], {"sex": 3, "smokes": 3}))
    ['sex']
    """
    shapes = [dict(zip(table.attributes, table.table.shape, strict=True)) for table in measured]
    rows = {}
    for name, size in sizes.items():
        lengths = (size, size if groups is None else groups.get(name, size))
        tables = [
            table for table, of in zip(measured, shapes, strict=True) if of.get(name) in lengths
        ]
        if tables:
            # Rows in the last level are averaged over tables by inverse variance.
            weighted = precision = fourth = 0.0
            for table in tables:
                cells = table.table.take(-1, table.attributes.index(name))
                weight = 1 / (cells.size * max(table.variance, SMALLEST_VARIANCE))
                weighted += weight * float(cells.sum())
                precision += weight
                fourth += 0.0 if table.gaussian else weight**2 / cells.size
            # In standard deviations of their noise, and the number of Laplace variables whose sum
            # has the fourth moment of that noise.
            rows[name] = weighted / sqrt(precision), precision**2 / fourth if fourth else inf
    evidence = {name: _evidence(*pair) for name, pair in rows.items()}
    order = sorted(rows, key=lambda name: -evidence[name])
    counts = [m for m, name in enumerate(order, 1) if evidence[name] >= log(len(order) / m)]
    weakest = order[max(counts, default=0) :]
    is_noise = sum(rows[name][0] for name in weakest) < MEAN_NOISE * len(weakest)
    return frozenset(weakest if is_noise else ())


def _evidence(deviations: float, laplaces: float) -> float:
    """Return −ln of Chernoff's bound on the chance that noise reaches z = ``deviations`` standard
    deviations; −∞ if z is below ``MEAN_NOISE``.

    For the sum of k = ``laplaces`` Laplace variables it is k(r − 1 − ln((r + 1)/2)) with
    r = √(1 + 2z²/k); for Gaussian noise, an infinite k, z²/2."""
    if deviations < MEAN_NOISE:
        return -inf
    if laplaces == inf:
        return deviations**2 / 2
    root = sqrt(1 + 2 * deviations**2 / laplaces)
    return laplaces * (root - 1 - log((root + 1) / 2))


def without_last_levels(table: NoisyMarginal, names: Collection[str]) -> NoisyMarginal:
    """Return the table without the cells of the last level of each attribute in ``names``."""
    levels = tuple(slice(-1) if name in names else slice(None) for name in table.attributes)
    return replace(table, table=table.table[levels])
