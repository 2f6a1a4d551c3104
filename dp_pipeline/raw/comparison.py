"""Distances between the marginals of a released table and those of the rows.

They are exact; for many rows they are those of a sample, with a bound on the error.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray, Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.marginals import MOST_COMPARED, attribute_sets
from dp_pipeline.metrics.unit_tables import UnitTables
from dp_pipeline.raw.counters.tables import cheapest_plan, count_plan, is_fusible, summed_tables

Codes = Mapping[str, NDArray[Any]]  # Attribute → codes (rows,) below the attribute's size
_DENSE_CELLS_A_ROW = 8
_MAX_DENSE_CELLS = 1 << 30  # Cells of a dense table of counts, at most, so that keys have 31 bits
_ROWS_A_STEP = 1 << 16
_CELLS_A_STEP = 1 << 16


@dataclass(frozen=True)
class EstimatedDistance:
    """A variation distance of two tables, which may be estimated from samples of their rows.

    value   in 0..1; NaN without real rows
    error   bound on the expected difference from that of all rows; None if all were compared
    """

    value: float
    error: float | None


def estimated_distances(
    real: Codes, released: Codes, sizes: Mapping[str, int], marginals: Mapping[str, Sequence[Names]]
) -> dict[str, EstimatedDistance]:
    """Return the mean variation distance over each list of marginals, by the name of the list.

    A table of more than ``MOST_COMPARED`` rows is replaced by a seeded sample of so many.

    *Error.* Let T be all rows, S their sample and d the variation distance. |d(S, R) − d(T, R)| ≤
    d(S, T) by the triangle inequality, and likewise for a sample of the released rows R. The
    expected distance from T to a sample of half the size is at most that between the two halves A
    and B of S: d(·, B) is convex, and B is a sample of the rest. And S, which is their mean, is no
    further away than they are on average. So E d(S, T) ≤ E d(A, B), which is computed: it is small
    for tables of few cells, and large where each row has a cell of its own, of which a sample says
    little.
    """
    all_marginals = list(dict.fromkeys(m for listed in marginals.values() for m in listed))
    names = sorted({name for marginal in all_marginals for name in marginal})
    halves = [_halves(table, names) for table in (real, released)]
    real, released = (
        {name: np.concatenate([half[name] for half in pair]) for name in names} for pair in halves
    )
    distance_of = distances(real, released, sizes, all_marginals)
    half_distances = [
        distances(pair[0], pair[1], sizes, all_marginals) for pair in halves if len(pair) == 2
    ]

    def mean(of: Mapping[Names, float], listed: Sequence[Names]) -> float:
        return float(np.mean([of[marginal] for marginal in listed]))

    return {
        name: EstimatedDistance(
            mean(distance_of, listed),
            sum(mean(of, listed) for of in half_distances) if half_distances else None,
        )
        for name, listed in marginals.items()
    }


def distances_of_table(
    domain: Domain, real: Codes, released: Codes
) -> dict[Names, EstimatedDistance]:
    """Return ``(name,)`` or ``(name, other)`` → variation distance, for attributes of ``real``.

    Of more than ``MOST_PAIRS`` attributes or pairs, a seeded sample of so many is compared. Where
    units have parts, attributes and pairs of units alone are compared over units, and all others
    over parts. ``(name, name)`` is an attribute of parts over the pairs of parts of one unit.
    """
    names, parts = tuple(real), domain.parts
    listed = [*((name,) for name in names), *attribute_sets(names, 2)]
    sizes = {name: domain[name].size for name in names}
    if parts is None:
        return _each_distance(real, released, sizes, listed)
    tables = UnitTables(domain, real), UnitTables(domain, released)
    of_parts = {*parts.attributes}
    of_units = [attributes for attributes in listed if of_parts.isdisjoint(attributes)]
    others = [attributes for attributes in listed if not of_parts.isdisjoint(attributes)]
    compared = {
        **_each_distance(tables[0].units, tables[1].units, sizes, of_units),
        **_each_distance(tables[0].parts, tables[1].parts, sizes, others),
    }
    for name in (name for name in names if name in of_parts):
        c, s = (table.pair_counts(name).sum(axis=0) for table in tables)
        if not tables[0].has_order:
            # The pairs of a set count in both orders.
            c, s = c + c.T, s + s.T
        n, m = int(c.sum()), int(s.sum())
        shares = s / m if m else np.full(s.shape, 1 / s.size)
        distance = float(np.abs(c / n - shares).sum()) / 2 if n else float("nan")
        compared[name, name] = EstimatedDistance(distance, None)
    return compared


def _each_distance(
    real: Codes, released: Codes, sizes: Mapping[str, int], listed: Sequence[Names]
) -> dict[Names, EstimatedDistance]:
    groups: Mapping[str, Sequence[Names]] = {str(i): [names] for i, names in enumerate(listed)}
    distances = estimated_distances(real, released, sizes, groups)
    return dict(zip(listed, distances.values(), strict=True))


def _halves(table: Codes, names: Sequence[str]) -> tuple[Codes, ...]:
    """Return the table alone, or two halves of a seeded sample of ``MOST_COMPARED`` of its rows.

    It is alone if it has no more rows than that."""
    rows = _row_count(table, names)
    if rows <= MOST_COMPARED:
        return ({name: table[name] for name in names},)
    chosen = np.random.default_rng(0).choice(rows, size=MOST_COMPARED, replace=False)
    halves = map(np.sort, np.split(chosen, [MOST_COMPARED // 2]))
    return tuple({name: np.asarray(table[name])[half] for name in names} for half in halves)


def _row_count(table: Codes, names: Sequence[str]) -> int:
    lengths = {len(table[name]) for name in names}
    if len(lengths) != 1:
        raise DeclarationError(
            f"A variation distance needs columns of one length, but they have {len(lengths)} "
            "lengths: pass all columns of one table"
        )
    return lengths.pop()


def distances(
    real: Codes, released: Codes, sizes: Mapping[str, int], marginals: Sequence[Names]
) -> dict[Names, float]:
    """Return the variation distance ½ Σ |c/n − s/m| of two tables over each marginal.

    real       the n rows that c counts, n · m below 2^62
    released   the m rows that s counts; without rows their distribution is taken as uniform
    marginals  each of different attributes of both tables

    It is in 0..1, and 0 for equal marginals; NaN without real rows. Tables over few attributes are
    counted together, which makes one call cheaper than many. DeclarationError for columns of
    different lengths in one table.
    Source: Zhang, Cormode, Procopiuc, Srivastava, Xiao, "PrivBayes", TODS 2017, §6.

    >>> real = {"a": np.array([0, 0, 1, 1]), "b": np.array([0, 1, 0, 1])}
    >>> released = {"a": np.array([0, 0]), "b": np.array([0, 1])}
    >>> distances(real, released, {"a": 2, "b": 2}, [("a", "b"), ("b",)])
    {('a', 'b'): 0.5, ('b',): 0.0}
    """
    names = sorted({name for marginal in marginals for name in marginal})
    n, m = _row_count(real, names), _row_count(released, names)
    kinds = {name: np.min_scalar_type(sizes[name] - 1) for name in names}
    real, released = (
        {name: np.asarray(table[name]).astype(kind, copy=False) for name, kind in kinds.items()}
        for table in (real, released)
    )
    pair = _TablePair(real, released, sizes, n, m)
    if n == 0:
        return dict.fromkeys(marginals, float("nan"))
    most = min(_DENSE_CELLS_A_ROW * (n + m), _MAX_DENSE_CELLS)
    dense = [marginal for marginal in marginals if pair.cells(marginal) <= most]
    fusible = [marginal for marginal in dense if is_fusible(sizes, marginal)]
    distance_of = dict(pair.fused_distances(fusible))
    # One buffer for all tables: allocating each would take longer than counting.
    buffer = np.empty((2, max(map(pair.cells, set(dense) - {*fusible}), default=0)), np.int32)
    for marginal in marginals:
        if frozenset(marginal) not in distance_of:
            cells = pair.cells(marginal)
            distance_of[frozenset(marginal)] = (
                pair.dense_distance(marginal, buffer[:, :cells])
                if cells <= most
                else pair.sparse_distance(marginal)
            )
    return {marginal: distance_of[frozenset(marginal)] for marginal in marginals}


@dataclass(frozen=True, eq=False)
class _TablePair:
    """Two tables to compare, of n real and m released rows."""

    real: Codes
    released: Codes
    sizes: Mapping[str, int]
    n: int
    m: int

    def cells(self, marginal: Names) -> int:
        return math.prod(self.sizes[name] for name in marginal)

    def fused_distances(self, marginals: Sequence[Names]) -> Iterator[tuple[frozenset[str], float]]:
        by_set = {frozenset(marginal): marginal for marginal in marginals}
        fused_tables = cheapest_plan(self.sizes, list(by_set.values()), rows=self.n + self.m)
        real = count_plan(fused_tables, self.real, rows=self.n)
        released = count_plan(fused_tables, self.released, rows=self.m)
        for (fused, c), (_, s) in zip(real, released, strict=True):
            # Sums of differences are differences of sums.
            differences = c * self.m - s * self.n if self.m else c
            for names, table in summed_tables(fused, differences).items():
                if self.m == 0:
                    yield frozenset(names), self._distance_to_uniform(table, table.size)
                else:
                    yield frozenset(names), int(np.abs(table).sum()) / (2 * self.n * self.m)

    def dense_distance(self, marginal: Names, buffer: NDArray[np.int32]) -> float:
        """Return the variation distance of a marginal, counted into ``buffer`` (2, cells)."""
        for table, counts in zip((self.real, self.released), buffer, strict=True):
            counts[:] = 0
            for start in range(0, len(table[marginal[0]]), _ROWS_A_STEP):
                step = slice(start, start + _ROWS_A_STEP)
                # Flat indices of the rows' cells, the last attribute fastest.
                keys = table[marginal[0]][step].astype(np.int32)
                for name in marginal[1:]:
                    keys *= np.int32(self.sizes[name])
                    keys += table[name][step]
                np.add.at(counts, keys.astype(np.int64), np.int32(1))
        return self._distance_of_counts(*buffer)

    def sparse_distance(self, marginal: Names) -> float:
        """Return the variation distance of a marginal with many more cells than rows."""
        keys, cells = np.zeros(1, dtype=np.int64), 1
        for name in marginal:
            # It only matters which rows share a cell, so occupied cells are renumbered.
            if cells * self.sizes[name] > _DENSE_CELLS_A_ROW * (self.n + self.m):
                keys, cells = _renumber(keys, cells)
            keys = keys * self.sizes[name] + np.concatenate([self.real[name], self.released[name]])
            cells *= self.sizes[name]
        keys, cells = _renumber(keys, cells)
        if self.m == 0:
            return self._distance_to_uniform(np.bincount(keys), self.cells(marginal))
        counts = np.zeros((2, cells), dtype=np.int32)
        np.add.at(counts[0], keys[: self.n], np.int32(1))
        np.add.at(counts[1], keys[self.n :], np.int32(1))
        return self._distance_of_counts(*counts)

    def _distance_to_uniform(self, counts: IntArray, cells: int) -> float:
        """Return ½ Σ |c/n − 1/cells|, where ``counts`` may omit cells without a real row."""
        occupied = counts[counts > 0]
        off = float(np.abs(occupied / self.n - 1 / cells).sum()) + (cells - len(occupied)) / cells
        return min(1.0, off / 2)

    def _distance_of_counts(self, c: NDArray[np.int32], s: NDArray[np.int32]) -> float:
        """Return ½ Σ |c/n − s/m|, which is 1 − Σ min(c/n, s/m) over the cells that both fill."""
        if self.m == 0:
            return self._distance_to_uniform(c.astype(np.int64), len(c))
        shared = 0
        for start in range(0, len(c), _CELLS_A_STEP):
            c_step, s_step = (counts[start : start + _CELLS_A_STEP] for counts in (c, s))
            both = np.flatnonzero((c_step > 0) & (s_step > 0))
            shares = c_step[both] * np.int64(self.m), s_step[both] * np.int64(self.n)
            shared += int(np.minimum(*shares).sum())
        return (self.n * self.m - shared) / (self.n * self.m)


def _renumber(keys: IntArray, cells: int) -> tuple[IntArray, int]:
    """Return keys (rows,) renumbered without the empty cells, and the number of occupied cells."""
    if cells > _DENSE_CELLS_A_ROW * len(keys):
        numbers = np.unique(keys, return_inverse=True)[1]
        return numbers, int(numbers.max(initial=0)) + 1
    is_occupied = np.zeros(cells, dtype=np.int32)
    is_occupied[keys] = 1
    numbers = np.cumsum(is_occupied, dtype=np.int64) - 1
    return numbers[keys], int(numbers[-1]) + 1
