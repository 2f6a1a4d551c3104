"""Noisy tables made to agree: least squares over tables that overlap, and cells ≥ 0."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.results.measurement import NoisyMarginal, marginal_of


def make_consistent(
    tables: Mapping[Names, FloatArray | IntArray], *, variances: Mapping[Names, float] | None = None
) -> dict[Names, FloatArray]:
    """Return new tables of which every two have equal marginals over the attributes they share.

    tables      attributes → cells, of any sign; one axis an attribute
    variances   attributes → variance of a cell; None: the same for all tables

    For every shared set I, small to large, the tables over C_l ⊇ I agree on
    ccnt_I = Σ w_l Tab_l / Σ w_l, w_l = 1/∏_{j ∈ C_l∖I} |Ω_j|, divided by the variance of a cell
    (the inverse variances of their marginals), and each spreads its difference evenly over its
    cells (Zhang et al., J. Computer Research and Development 55(12), 2018, Equations 14 and 15,
    for equal variances; Qardaji et al., SIGMOD 2014). The empty set is shared by all, so totals
    agree too. Cells may be negative afterwards.

    >>> tables = {("a",): np.array([2.0, 4.0]), ("a", "b"): np.array([[1.0, 1.0], [5.0, 1.0]])}
    >>> {names: table.round(2).tolist() for names, table in make_consistent(tables).items()}
    {('a',): [2.0, 4.67], ('a', 'b'): [[1.0, 1.0], [4.33, 0.33]]}
    """
    agreed = {names: table.astype(np.float64) for names, table in tables.items()}
    noise = dict.fromkeys(agreed, 1.0) if variances is None else variances
    for shared in shared_sets(tables):
        holding = [names for names in agreed if shared <= set(names)]
        if len(holding) < 2:
            continue
        order = tuple(name for name in holding[0] if name in shared)
        marginals = np.stack([marginal_of(agreed[names], names, order) for names in holding])
        # Cells of each table in one cell of its marginal: they share its difference alike.
        cells_apart = np.array([agreed[names].size for names in holding]) / marginals[0].size
        weights = 1 / (cells_apart * [noise[names] for names in holding])
        average = np.average(marginals, axis=0, weights=weights)
        for names, marginal, cells in zip(holding, marginals, cells_apart, strict=True):
            agreed[names] = agreed[names] + spread((average - marginal) / cells, order, names)
    return agreed


def shared_sets(cliques: Iterable[Names]) -> tuple[frozenset[str], ...]:
    """Return the empty set and all intersections of two or more cliques, from small to large.

    The sets are closed under intersection and every one comes after its subsets (a linear
    extension of ⊆, read off the Hasse diagram level by level), so no step of
    :func:`make_consistent` undoes an earlier one: tables that meet in I differ from their new
    marginal over J by what they disagree on over I ∩ J, and that was settled before.

    >>> [sorted(shared) for shared in shared_sets([("a", "b", "c"), ("b", "c", "d"), ("c", "e")])]
    [[], ['c'], ['b', 'c']]
    """
    seen: set[frozenset[str]] = set()
    closed: set[frozenset[str]] = {frozenset()}
    for clique in map(frozenset, cliques):
        closed |= {clique & other for other in seen | closed}
        seen.add(clique)
    return tuple(sorted(closed, key=lambda shared: (len(shared), sorted(shared))))


def ratio(dividend: FloatArray, divisor: FloatArray) -> FloatArray:
    """Return dividend / divisor, in the dividend's shape; 0 where the divisor is not above 0."""
    return np.divide(dividend, divisor, out=np.zeros_like(dividend), where=divisor > 0)


def spread(table: NDArray[Any], names: Names, over: Names) -> NDArray[Any]:
    """Return a table with axes ``names``, reshaped so that it broadcasts over the axes ``over``.

    >>> spread(np.ones((2, 3)), ("a", "b"), ("b", "c", "a")).shape
    (3, 1, 2)
    """
    inside = table.transpose([names.index(name) for name in over if name in names])
    sizes = iter(inside.shape)
    return inside.reshape([next(sizes) if name in names else 1 for name in over])


@dataclass(frozen=True)
class TableEstimate:
    """A noisy table that was computed from measured ones.

    attributes   in the order of the axes
    table        cells in rows, which may be negative
    variance     of the noise in each cell, in squared rows
    """

    attributes: Names
    table: FloatArray
    variance: float


NoisyTable = NoisyMarginal | TableEstimate


SMALLEST_VARIANCE = 1e-100
"""Least variance of noise that is divided by: at a very large ε the float of a variance is 0."""


def variance_of(names: Names, measured: Sequence[NoisyTable]) -> float:
    """Return the variance, above 0, of a cell in the inverse-variance mean of all tables measured
    over exactly these attributes, of which there is one at least."""
    same = (table.variance for table in measured if set(table.attributes) == set(names))
    return 1 / sum(1 / max(variance, SMALLEST_VARIANCE) for variance in same)


def average_tables(measured: Iterable[NoisyTable]) -> dict[Names, tuple[FloatArray, float]]:
    """Return attributes → (inverse-variance mean of the tables over exactly these attributes in
    this order, variance of a cell of that mean)."""
    sums: dict[Names, FloatArray] = {}
    weights: dict[Names, float] = {}
    for noisy in measured:
        names, weight = noisy.attributes, 1 / max(noisy.variance, SMALLEST_VARIANCE)
        sums[names] = np.asarray(sums.get(names, 0.0) + weight * noisy.table)
        weights[names] = weights.get(names, 0.0) + weight
    return {names: (sums[names] / weight, 1 / weight) for names, weight in weights.items()}


def reconcile_tables(
    measured: Sequence[NoisyTable], sizes: Mapping[str, int]
) -> tuple[float, dict[Names, FloatArray]]:
    """Return the estimated number of rows, and attributes → consistent cells of the measured tables
    that are inside no larger one.

    measured   noisy tables, at least one; one over () is a number of rows
    sizes      levels of every attribute, in the order that the returned tables' axes have

    Cells may be negative. What a table inside a larger one says is part of the larger one's cells.

    A table is a sum of orthogonal parts, one for every set S of its attributes: what S alone adds
    to the smaller sets. All tables that hold S measure its part with independent noise, and the
    parts are free of each other, so the mean of each part by inverse variance is the
    least-squares solution for all tables together (Xiao, He, Zhang, Kifer, "ResidualPlanner",
    NeurIPS 2023, for measured tables of any kind). BoundaryViolation for no table.

    >>> pair = TableEstimate(("a", "b"), np.array([[4.0, 1.0], [1.0, 4.0]]), 1.0)
    >>> way = TableEstimate(("a",), np.array([9.0, 5.0]), 1.0)
    >>> rows, tables = reconcile_tables([pair, way], {"a": 2, "b": 2})
    >>> round(rows, 2), tables["a", "b"].sum(axis=1).round(2).tolist()
    (12.67, [7.67, 5.0])
    """
    if not measured:
        raise BoundaryViolation("A reconciliation needs one or more noisy tables, not none")
    sums: dict[Names, FloatArray] = {}
    weights: dict[Names, float] = {}
    shapes = {}
    for noisy in measured:
        names = tuple(name for name in sizes if name in noisy.attributes)
        axes = [noisy.attributes.index(name) for name in names]
        table = noisy.table.transpose(axes).astype(np.float64)
        shapes[names] = table.shape
        table = _reflect(table)
        for part, place, summed in _parts(names, sizes):
            weight = 1 / (noisy.variance * summed)
            sums[part] = sums.get(part, 0.0) + table[place] * (np.sqrt(summed) * weight)
            weights[part] = weights.get(part, 0.0) + weight
    tables = {}
    for names, shape in shapes.items():
        # A table inside another one is in its sums.
        if any(set(names) < set(other) for other in shapes):
            continue
        table = np.zeros(shape)
        for part, place, summed in _parts(names, sizes):
            table[place] = sums[part] / (weights[part] * np.sqrt(summed))
        tables[names] = _reflect(table)
    return float(sums[()] / weights[()]), tables


def _reflect(table: FloatArray) -> FloatArray:
    """Return a table's coefficients in an orthonormal basis of every axis, or the table from these
    coefficients.

    The basis is a Householder reflection, its own inverse, whose first vector is constant."""
    for axis, size in enumerate(table.shape):
        if size > 1:
            last = np.moveaxis(table, axis, -1)
            mirror = np.full(size, -(size**-0.5))
            mirror[0] += 1
            along = last @ mirror * (2 / (mirror @ mirror))
            table = np.moveaxis(last - along[..., None] * mirror, -1, axis)
    return table


def _parts(
    names: Names, sizes: Mapping[str, int]
) -> Iterator[tuple[Names, tuple[slice | int, ...], int]]:
    """Yield (subset of a table's attributes, positions of its coefficients, number of the table's
    cells in a cell of the subset's marginal), for every subset."""
    for is_in in product((False, True), repeat=len(names)):
        part = tuple(name for name, keep in zip(names, is_in, strict=True) if keep)
        place = tuple(slice(1, None) if keep else 0 for keep in is_in)
        yield part, place, prod(sizes[n] for n, keep in zip(names, is_in, strict=True) if not keep)


def project_to_simplex(table: FloatArray | IntArray, total: float = 1.0) -> FloatArray:
    """Return the Euclidean projection of ``table`` onto {x ≥ 0, Σx = total}, in its shape.

    total   above 0

    A noisy table keeps its large cells' differences and loses its small cells' noise.

    >>> project_to_simplex(np.array([3.0, 1.0, -2.0]), total=2.0).tolist()
    [2.0, 0.0, 0.0]
    """
    cells = table.reshape(1, -1).astype(np.float64)
    return project_rows(cells, np.array([total])).reshape(table.shape)


def project_rows(table: FloatArray, totals: FloatArray) -> FloatArray:
    """Return each row of ``table`` (g, m) projected onto {x ≥ 0, Σx = its total}, totals (g,) ≥ 0.

    >>> project_rows(np.array([[3.0, 1.0], [1.0, -2.0]]), np.array([2.0, 0.0])).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    # A constant on a row changes nothing; below the largest, sums of huge cells stay exact.
    below = table - table.max(axis=1, keepdims=True)
    values = -np.sort(-below, axis=1)
    surplus = (np.cumsum(values, axis=1) - totals[:, None]) / np.arange(1, table.shape[1] + 1)
    # With a total above 0 the largest cell always stays; with 0 none does.
    last = np.maximum((values > surplus).sum(axis=1) - 1, 0)
    return np.asarray(np.maximum(below - surplus[np.arange(len(table)), last, None], 0.0))


SWEEPS = 1000
"""Most sweeps of Ripple, which are many where little is above 0."""

SETTLED = 1e-3
"""Negative part of a cell, in rows, that is left to the end: far below any noise."""


def ripple(table: FloatArray | IntArray, *, tolerance: float = SETTLED) -> FloatArray:
    """Return the table with cells ≥ 0 and the same total, its negative cells made up for by their
    neighbours; all 0 if the total is not above 0.

    tolerance   in rows; cells that are still negative are cut at 0 in the end, and all cells are
                then scaled back to the total

    Every negative cell becomes 0 and takes what it lacked from its neighbours, the cells that
    differ from it in one attribute, in equal parts; all negative cells at once, until none is at
    −tolerance or below, at most ``SWEEPS`` times (PriView: Qardaji, Yang, Li, SIGMOD 2014; there
    attributes are binary, and a cell of ℓ attributes has ℓ neighbours). Unlike a projection
    to the simplex it moves counts along the table's axes, which leaves marginals alone as far as it
    can.

    >>> ripple(np.array([[-2.0, 5.0], [5.0, 9.0]])).tolist()
    [[0.0, 4.0], [4.0, 9.0]]
    """
    total = float(table.sum())
    if total <= 0:
        return np.zeros(table.shape)
    cells = table.astype(np.float64)
    neighbours = sum(size - 1 for size in table.shape)
    for _ in range(SWEEPS):
        lacking = np.minimum(cells, 0.0)
        if lacking.min() > -tolerance:
            break
        share = lacking / neighbours
        cells -= lacking
        for axis in range(cells.ndim):
            cells += share.sum(axis=axis, keepdims=True) - share
    settled = np.maximum(cells, 0.0)
    return np.asarray(settled * (total / settled.sum()))


ROUNDS = 3
"""Rounds of making tables consistent and then ≥ 0, after which they disagree a little again."""


def agree_by_ripple(
    tables: Mapping[Names, FloatArray],
    *,
    deviation: float,
    variances: Mapping[Names, float] | None = None,
) -> dict[Names, FloatArray]:
    """Return the tables made nearly consistent and ≥ 0, with one total; all 0 if that would not be
    above 0.

    deviation   standard deviation of the noise in a cell, in rows: ``SETTLED`` of it, or of one
                row if that is more, is the tolerance of ``ripple``
    variances   attributes → variance of a cell; None: the same for all tables

    Consistency and Ripple in turn (PriView: Qardaji, Yang, Li, SIGMOD 2014, Sections 4.4, 4.5).
    """
    agreed, tolerance = dict(tables), SETTLED * max(1.0, deviation)
    for _ in range(ROUNDS):
        consistent = make_consistent(agreed, variances=variances)
        agreed = {names: ripple(table, tolerance=tolerance) for names, table in consistent.items()}
    return agreed
