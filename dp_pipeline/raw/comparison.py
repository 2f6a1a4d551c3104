"""How close the k-way marginals of a released table are to those of the rows: exact, and counted as
the counters count; of many rows, those of a sample with a bound of its error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import IntArray, Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.marginals import MOST_COMPARED
from dp_pipeline.raw.counters.tables import count_plan, is_fusible, plan, summed_tables

Codes = Mapping[str, NDArray[Any]]
"""Attribute → codes (rows,), whole numbers below the attribute's size."""

_DENSE_CELLS_A_ROW = 8
_MOST_DENSE_CELLS = 1 << 30
"""A table of counts is made where it has at most so many cells; keys of 31 bits reach them."""

_ROWS_A_STEP = 1 << 16
_CELLS_A_STEP = 1 << 16


def average_distance(
    real: Codes, released: Codes, sizes: Mapping[str, int], marginals: Sequence[Names]
) -> float:
    """Return average k-way variation distance: the mean over marginals of ½ Σ |c/n − s/m|.

    real       the n rows that c counts
    released   the m rows that s counts; their distribution is uniform where there are none
    marginals       the marginals, each of different attributes of both tables

    In 0..1, 0 where all marginals are equal; NaN without real rows: nothing can be divided by
    them. DeclarationError for no marginals, and for columns of two lengths in one table.
    Source: Zhang, Cormode, Procopiuc, Srivastava, Xiao, "PrivBayes", TODS 2017, §6.

    >>> import numpy as np
    >>> one = {"a": np.array([0, 0, 1, 1]), "b": np.array([0, 1, 0, 1])}
    >>> other = {"a": np.array([0, 0]), "b": np.array([0, 1])}
    >>> average_distance(one, other, {"a": 2, "b": 2}, [("a", "b"), ("a",), ("b",)])
    0.3333333333333333
    """
    if not marginals:
        raise DeclarationError("variation distance: expected at least one marginal, got none")
    distance_of = distances(real, released, sizes, marginals)
    return float(np.mean([distance_of[marginal] for marginal in marginals]))


@dataclass(frozen=True)
class EstimatedDistance:
    """A number of samples in place of whole tables.

    error   how far it is from that of all rows, at most in expectation; None where all rows were
            looked at
    """

    value: float
    error: float | None


def estimated_distances(
    real: Codes, released: Codes, sizes: Mapping[str, int], marginals: Mapping[str, Sequence[Names]]
) -> dict[str, EstimatedDistance]:
    """Return average distances of some lists of marginals, of at most ``MOST_COMPARED`` rows a
    table.

    *Error.* T is all rows, S their sample and d the variation distance. |d(S, R) − d(T, R)| ≤
    d(S, T) by the triangle inequality, and likewise for a sample of the released rows R. What a
    sample of half the size is away from T is, in expectation, no more than what the two halves A
    and B of S are away from each other: d(·, B) is convex, and B is a sample of the rest. And S,
    which is their mean, is no further away than they are on average. So E d(S, T) ≤ E d(A, B),
    which is computed: small for tables of few cells, and large for those of which each row has
    a cell of its own, about which a sample says little.
    """
    all_marginals = list(
        dict.fromkeys(marginal for listed in marginals.values() for marginal in listed)
    )
    names = sorted({name for marginal in all_marginals for name in marginal})
    halves = [_halves(table, names) for table in (real, released)]
    real_sample, released_sample = (_join_halves(listed) for listed in halves)
    distance_of = distances(real_sample, released_sample, sizes, all_marginals)
    half_distances = [
        distances(listed[0], listed[1], sizes, all_marginals)
        for listed in halves
        if len(listed) == 2
    ]
    return {
        name: EstimatedDistance(
            float(np.mean([distance_of[marginal] for marginal in listed])),
            sum(
                float(np.mean([distance_of_half[marginal] for marginal in listed]))
                for distance_of_half in half_distances
            )
            if half_distances
            else None,
        )
        for name, listed in marginals.items()
    }


def _halves(table: Codes, names: Sequence[str]) -> tuple[Codes, ...]:
    """Return the table itself, or two halves of a sample of its rows that a fixed seed decides."""
    rows = _rows(table, names)
    if rows <= MOST_COMPARED:
        return ({name: table[name] for name in names},)
    chosen = np.random.default_rng(0).choice(rows, size=MOST_COMPARED, replace=False)
    halves = np.split(chosen, [MOST_COMPARED // 2])
    return tuple(
        {name: np.asarray(table[name])[np.sort(half)] for name in names} for half in halves
    )


def _join_halves(halves: Sequence[Codes]) -> Codes:
    if len(halves) == 1:
        return halves[0]
    return {name: np.concatenate([half[name] for half in halves]) for name in halves[0]}


def distances(
    real: Codes, released: Codes, sizes: Mapping[str, int], marginals: Sequence[Names]
) -> dict[Names, float]:
    """Return each marginal → its variation distance, as ``average_distance`` defines it.

    Tables over few attributes are counted together, so many ways in one call are cheaper than
    in many. n · m is below 2^62.
    """
    names = sorted({name for marginal in marginals for name in marginal})
    n, m = _rows(real, names), _rows(released, names)
    if n == 0:
        return dict.fromkeys(marginals, float("nan"))
    real, released = (_smallest_types(table, names, sizes) for table in (real, released))
    most = min(_DENSE_CELLS_A_ROW * (n + m), _MOST_DENSE_CELLS)
    small = [
        marginal
        for marginal in marginals
        if is_fusible(sizes, marginal) and _cells(sizes, marginal) <= most
    ]
    dense = {marginal for marginal in marginals if _cells(sizes, marginal) <= most}.difference(
        small
    )
    distance_of = dict(_fused_distances(real, released, sizes, small, n=n, m=m))
    # One room for all tables: a new one each time would cost more than counting.
    buffer = np.empty(
        (2, max((_cells(sizes, marginal) for marginal in dense), default=0)), dtype=np.int32
    )
    for marginal in marginals:
        if marginal in dense:
            c, s = buffer[:, : _cells(sizes, marginal)]
            _count(_steps(real, sizes, marginal), c)
            _count(_steps(released, sizes, marginal), s)
            distance_of[frozenset(marginal)] = _distance_of_counts(c, s, n=n, m=m)
        elif frozenset(marginal) not in distance_of:
            distance_of[frozenset(marginal)] = _sparse_distance(
                real, released, sizes, marginal, n=n, m=m
            )
    return {marginal: distance_of[frozenset(marginal)] for marginal in marginals}


def _cells(sizes: Mapping[str, int], marginal: Names) -> int:
    return math.prod(sizes[name] for name in marginal)


def _rows(table: Codes, names: Sequence[str]) -> int:
    lengths = {len(table[name]) for name in names}
    if len(lengths) != 1:
        raise DeclarationError(
            f"variation distance: expected columns of one length, got {len(lengths)} lengths"
        )
    return lengths.pop()


def _smallest_types(table: Codes, names: Sequence[str], sizes: Mapping[str, int]) -> Codes:
    """Return the columns in their smallest types, without a copy of those that are."""
    return {
        name: np.asarray(table[name]).astype(np.min_scalar_type(sizes[name] - 1), copy=False)
        for name in names
    }


def _fused_distances(
    real: Codes,
    released: Codes,
    sizes: Mapping[str, int],
    marginals: Sequence[Names],
    *,
    n: int,
    m: int,
) -> Iterator[tuple[frozenset[str], float]]:
    """Yield distances of the marginals that are counted together."""
    by_set = {frozenset(marginal): marginal for marginal in marginals}
    planned = plan(sizes, list(by_set.values()), rows=n + m)
    for (fused, c), (_, s) in zip(
        count_plan(planned, real, rows=n), count_plan(planned, released, rows=m), strict=True
    ):
        # A sum over cells of differences is the difference of the sums.
        differences = c * m - s * n if m else c
        for names, table in summed_tables(fused, differences).items():
            yield frozenset(names), _half_sum(table, n=n, m=m)


def _half_sum(table: IntArray, *, n: int, m: int) -> float:
    """Return ½ Σ |c/n − s/m| of a table of c·m − s·n, and of one of c where m = 0."""
    if m == 0:
        return min(1.0, float(np.abs(table / n - 1 / table.size).sum()) / 2)
    return int(np.abs(table).sum()) / (2 * n * m)


def _sparse_distance(
    real: Codes, released: Codes, sizes: Mapping[str, int], marginal: Names, *, n: int, m: int
) -> float:
    """Return the distance of one marginal with many more cells than rows."""
    keys, key_bound = _sparse_keys(real, released, sizes, marginal)
    if m == 0:
        # Every cell without a real row is 1/cells off.
        cells = _cells(sizes, marginal)
        counts = np.unique(keys, return_counts=True)[1]
        total = float(np.abs(counts / n - 1 / cells).sum()) + (cells - len(counts)) / cells
        return min(1.0, total / 2)
    if key_bound > _DENSE_CELLS_A_ROW * (n + m):
        return _distance_of_keys(keys[:n], keys[n:])
    c, s = np.empty((2, key_bound), dtype=np.int32)
    _count(iter((keys[:n],)), c)
    _count(iter((keys[n:],)), s)
    return _distance_of_counts(c, s, n=n, m=m)


def _steps(table: Codes, sizes: Mapping[str, int], marginal: Names) -> Iterator[IntArray]:
    """Yield cell of every row, last attribute fastest, some rows at a time."""
    rows = len(table[marginal[0]])
    for start in range(0, rows, _ROWS_A_STEP):
        step = slice(start, start + _ROWS_A_STEP)

        keys = table[marginal[0]][step].astype(np.int32)
        for name in marginal[1:]:
            keys *= np.int32(sizes[name])
            keys += table[name][step]
        yield keys.astype(np.int64)


def _count(steps: Iterator[IntArray], counts: NDArray[np.int32]) -> None:
    """Count the rows of every cell; in small numbers, so that more of them stay in the cache."""
    counts[:] = 0
    for keys in steps:
        np.add.at(counts, keys, np.int32(1))


def _distance_of_counts(c: NDArray[np.int32], s: NDArray[np.int32], *, n: int, m: int) -> float:
    """Return ½ Σ |c/n − s/m| = 1 − Σ min(c/n, s/m): few of many cells have rows of both tables."""
    if m == 0:
        return _half_sum(c.astype(np.int64), n=n, m=0)
    shared = 0
    for start in range(0, len(c), _CELLS_A_STEP):
        step = slice(start, start + _CELLS_A_STEP)
        shared_cells = np.flatnonzero((c[step] > 0) & (s[step] > 0))
        shared += int(
            np.minimum(
                c[step][shared_cells] * np.int64(m), s[step][shared_cells] * np.int64(n)
            ).sum()
        )
    return (n * m - shared) / (n * m)


def _sparse_keys(
    real: Codes, released: Codes, sizes: Mapping[str, int], marginal: Names
) -> tuple[IntArray, int]:
    """Return a key a row of both tables, equal for rows of one cell, and a bound of all keys.

    Only equality counts, so occupied cells are renumbered where there are many more cells.
    """
    columns = (np.concatenate([real[name], released[name]]) for name in marginal)
    keys, cells = np.zeros(1, dtype=np.int64), 1
    for name, column in zip(marginal, columns, strict=True):
        if cells * sizes[name] > _DENSE_CELLS_A_ROW * len(column):
            keys, cells = _renumber(keys, cells)
        keys = keys * sizes[name] + column
        cells *= sizes[name]
    return keys, cells


def _renumber(keys: IntArray, cells: int) -> tuple[IntArray, int]:
    """Return the same classes of keys by the numbers of occupied cells."""
    if cells > _DENSE_CELLS_A_ROW * len(keys):
        numbers = np.unique(keys, return_inverse=True)[1]
        return numbers, int(numbers.max(initial=0)) + 1
    is_occupied = np.zeros(cells, dtype=np.int32)
    is_occupied[keys] = 1
    numbers = np.cumsum(is_occupied, dtype=np.int64) - 1
    return numbers[keys], int(numbers[-1]) + 1


def _distance_of_keys(real: IntArray, released: IntArray) -> float:
    """Return ½ Σ |c/n − s/m| over the cells that occur."""
    n, m = len(real), len(released)
    (cells, c), (released_cells, s) = (
        np.unique(keys, return_counts=True) for keys in (real, released)
    )
    keys = np.concatenate([cells, released_cells])
    differences = np.concatenate([c * m, -s * n])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return int(np.abs(np.add.reduceat(differences[order], starts)).sum()) / (2 * n * m)
