"""Noisy marginals that overlap made one: the best linear unbiased estimate of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Protocol

import numpy as np

from dp_pipeline.schema.encoding import FloatArray, IntArray
from dp_pipeline.schema.errors import BoundaryViolation

Names = tuple[str, ...]


class Noisy(Protocol):
    """A noisy marginal: a NoisyMarginal, or sums of one."""

    @property
    def attributes(self) -> Names:
        """In the order of the axes."""
        ...

    @property
    def table(self) -> FloatArray | IntArray:
        """Counts; may be negative."""
        ...

    @property
    def variance(self) -> float:
        """Of every cell, in squared rows."""
        ...


@dataclass(frozen=True)
class Estimate:
    """A table made of noisy ones; see ``Noisy``."""

    attributes: Names
    table: FloatArray
    variance: float


def reconciled(
    measured: Sequence[Noisy], sizes: Mapping[str, int]
) -> tuple[float, dict[Names, FloatArray]]:
    """The number of rows, and every largest measured marginal, all of them consistent.

    measured   noisy tables, at least one; () is the number of rows
    sizes      levels of every attribute; marginals come out in this order of attributes
    returns    tables that may have negative cells; those inside another one are in it

    A table is a sum of orthogonal parts, one for every set S of its attributes: what S alone adds
    to the smaller sets. All tables that hold S measure its part with independent noise, and the
    parts are free of each other, so the mean of each part by inverse variance is the
    least-squares solution for all tables together (Xiao, He, Zhang, Kifer, "ResidualPlanner",
    NeurIPS 2023, for measured tables of any kind). BoundaryViolation for no table.

    >>> pair = Estimate(("a", "b"), np.array([[4.0, 1.0], [1.0, 4.0]]), 1.0)
    >>> way = Estimate(("a",), np.array([9.0, 5.0]), 1.0)
    >>> rows, tables = reconciled([pair, way], {"a": 2, "b": 2})
    >>> round(rows, 2), tables["a", "b"].sum(axis=1).round(2).tolist()
    (12.67, [7.67, 5.0])
    """
    if not measured:
        raise BoundaryViolation("reconciled: expected one or more noisy tables, got none")
    sums: dict[Names, FloatArray] = {}
    weights: dict[Names, float] = {}
    shapes = {}
    for one in measured:
        names, table = _ordered(one, sizes)
        shapes[names] = table.shape
        table = _reflected(table)
        for part, place, summed in _parts(names, sizes):
            weight = 1 / (one.variance * summed)
            sums[part] = sums.get(part, 0.0) + table[place] * (np.sqrt(summed) * weight)
            weights[part] = weights.get(part, 0.0) + weight
    tables = {}
    for names in _largest(shapes):
        table = np.zeros(shapes[names])
        for part, place, summed in _parts(names, sizes):
            table[place] = sums[part] / (weights[part] * np.sqrt(summed))
        tables[names] = _reflected(table)
    return float(sums[()] / weights[()]), tables


def _reflected(table: FloatArray) -> FloatArray:
    """Coefficients of a table in an orthonormal basis of every axis whose first vector is
    constant, or the table of such coefficients: a Householder reflection, its own inverse.
    """
    for axis, size in enumerate(table.shape):
        if size > 1:
            last = np.moveaxis(table, axis, -1)
            mirror = np.full(size, -(size**-0.5))
            mirror[0] += 1
            along = last @ mirror * (2 / (mirror @ mirror))
            table = np.moveaxis(last - along[..., None] * mirror, -1, axis)
    return table


def _ordered(one: Noisy, sizes: Mapping[str, int]) -> tuple[Names, FloatArray]:
    names = tuple(name for name in sizes if name in one.attributes)
    axes = [one.attributes.index(name) for name in names]
    return names, one.table.transpose(axes).astype(np.float64)


def _parts(
    names: Names, sizes: Mapping[str, int]
) -> Iterator[tuple[Names, tuple[slice | int, ...], int]]:
    """Every set of the attributes, where its coefficients are, and the cells that are summed."""
    for kept in product((False, True), repeat=len(names)):
        part = tuple(name for name, keep in zip(names, kept, strict=True) if keep)
        place = tuple(slice(1, None) if keep else 0 for keep in kept)
        yield part, place, prod(sizes[n] for n, keep in zip(names, kept, strict=True) if not keep)


def _largest(tables: Mapping[Names, tuple[int, ...]]) -> list[Names]:
    """The tables that are in no other one."""
    sets = {names: frozenset(names) for names in tables}
    return [names for names in tables if not any(sets[names] < sets[other] for other in tables)]
