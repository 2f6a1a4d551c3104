"""Tables without negative cells from noisy ones that overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_pipeline.release.consistency import make_consistent
from dp_pipeline.release.measurement import NoisyMarginal
from dp_pipeline.release.simplex import project_to_simplex
from dp_pipeline.schema.encoding import FloatArray

Names = tuple[str, ...]

ROUNDS = 3
"""Projecting tables makes them disagree again, less and less."""


def clique_counts(
    measured: Sequence[NoisyMarginal], *, total: float | None = None
) -> dict[Names, FloatArray]:
    """Cells ≥ 0 of one total for every set of attributes, nearly consistent.

    measured   at least one; where two are over the same attributes they count as one
    total      of every table; None: what the tables estimate, at least 1

    Tables are made consistent, each weighted by its own noise, and projected to the nearest
    ones without negative cells, in turn.

    >>> from fractions import Fraction
    >>> tall = NoisyMarginal(("a", "b"), np.array([[9, 0], [1, -2]]), Fraction(2))
    >>> one_way = NoisyMarginal(("a",), np.array([10, 0]), Fraction(1))
    >>> counts = clique_counts([tall, one_way])
    >>> [table.round(1).tolist() for table in counts.values()]
    [[[9.2, 0.3], [0.2, 0.0]], [9.7, 0.1]]
    """
    tables, variances = _pooled(measured)
    for _ in range(ROUNDS):
        tables = make_consistent(tables, variances=variances)
        if total is None:
            total = max(1.0, float(next(iter(tables.values())).sum()))
        tables = {names: project_to_simplex(table, total) for names, table in tables.items()}
    return tables


def _pooled(
    measured: Sequence[NoisyMarginal],
) -> tuple[dict[Names, FloatArray], dict[Names, float]]:
    """One table for every set of attributes, the inverse-variance mean, and its variance."""
    weights: dict[Names, float] = {}
    sums: dict[Names, FloatArray] = {}
    for one in measured:
        # At a very large ε the variance is 0 to every digit of a float.
        weight = 1 / max(one.variance, 1e-100)
        weights[one.attributes] = weights.get(one.attributes, 0.0) + weight
        before = sums.get(one.attributes, np.zeros(one.table.shape))
        sums[one.attributes] = before + weight * one.table
    means = {names: total / weights[names] for names, total in sums.items()}
    return means, {names: 1 / weight for names, weight in weights.items()}
