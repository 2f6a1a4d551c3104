"""A marginal that no view holds, as the distribution of largest entropy that fits the views."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dp_pipeline.release.consistency import Names, marginal_of, spread
from dp_pipeline.schema.encoding import FloatArray

SWEEPS = 500
"""Most of them; consistent views settle in far fewer, others not at all."""

SETTLED = 1e-9
"""Largest change of a cell in one sweep, as a share of the total."""


def max_entropy(
    attributes: Names,
    views: Mapping[Names, FloatArray],
    sizes: Mapping[str, int],
    *,
    sweeps: int = SWEEPS,
) -> FloatArray:
    """The marginal over ``attributes``, of shape ``sizes`` of them, that the views leave open.

    views   attributes → cells ≥ 0 that agree on what they share, one axis an attribute
    sizes   cells of every attribute
    sweeps  most of them

    Iterative proportional fitting from equal cells: it is scaled to what each view says about
    ``attributes``, again and again, and among all tables that fit ends at the one of largest
    entropy (PriView: Qardaji, Yang, Li, SIGMOD 2014; Csiszár, Annals of Probability 3(1), 1975).
    The total is the mean of the views' totals, or 1 without views. Where no view has two of the
    attributes together they come out independent.

    >>> views = {("a", "b"): np.diag([2.0, 2.0]), ("b", "c"): np.diag([2.0, 2.0])}
    >>> max_entropy(("a", "c"), views, {"a": 2, "b": 2, "c": 2}).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    targets = _targets(attributes, views)
    total = float(np.mean([view.sum() for view in views.values()])) if views else 1.0
    shape = tuple(sizes[name] for name in attributes)
    table = np.full(shape, total / np.prod(shape, dtype=np.float64))
    for _ in range(sweeps):
        before = table
        for names, target in targets.items():
            now = marginal_of(table, attributes, names)
            factor = np.divide(target, now, out=np.zeros(target.shape), where=now > 0)
            table = table * spread(factor, names, attributes)
        if np.abs(table - before).max() <= SETTLED * total:
            break
    return np.asarray(table)


def _targets(attributes: Names, views: Mapping[Names, FloatArray]) -> dict[Names, FloatArray]:
    """What views say about ``attributes``; the sets that others contain follow from those."""
    shared: dict[Names, list[FloatArray]] = {}
    for names, view in views.items():
        inside = tuple(name for name in attributes if name in names)
        shared.setdefault(inside, []).append(marginal_of(view, names, inside))
    return {
        names: np.asarray(np.mean(tables, axis=0))
        for names, tables in shared.items()
        if not any(set(names) < set(other) for other in shared)
    }
