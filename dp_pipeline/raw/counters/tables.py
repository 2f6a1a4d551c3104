"""Exact marginals of a table of codes, in as few passes over the rows as possible.

One contingency table needs one key a row: the codes read as digits of a number. Many tables over
one to three attributes need few passes by *super-columns*, several columns fused into one: tables
over pairs or triples of super-columns contain those over pairs or triples of columns as sums.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import IntArray, Names

Codes = Mapping[str, NDArray[Any]]  # Attribute → codes (n,) of an unsigned type
ROWS_A_CHUNK = 1 << 16  # Rows whose keys stay in the cache of one core


def cell_keys(
    codes: Codes, sizes: Mapping[str, int], names: Sequence[str], rows: slice
) -> IntArray:
    """Return the cell of each of these rows: its flat index in the table over ``names``.

    The last name is the fastest axis."""
    keys = codes[names[0]][rows].astype(np.int64)
    for name in names[1:]:
        keys *= sizes[name]
        keys += codes[name][rows]
    return keys


def occupied_cells(
    codes: Codes, sizes: Mapping[str, int], names: Sequence[str], *, rows: int
) -> IntArray:
    """Return the flat index and the count of every non-empty cell, int64 (m, 2), sorted by index.

    >>> codes = {"a": np.array([0, 1, 1]), "b": np.array([2, 0, 0])}
    >>> occupied_cells(codes, {"a": 2, "b": 3}, ("a", "b"), rows=3).tolist()
    [[2, 1], [3, 2]]
    """
    keys, counts = np.unique(cell_keys(codes, sizes, names, slice(0, rows)), return_counts=True)
    return np.stack([keys, counts.astype(np.int64)], axis=1)


def contingency_table(
    codes: Codes, sizes: Mapping[str, int], names: Sequence[str], *, rows: int
) -> IntArray:
    """Return the exact counts of rows over one or more different attributes, one axis for each.

    >>> codes = {"a": np.array([0, 1, 1]), "b": np.array([2, 0, 0])}
    >>> contingency_table(codes, {"a": 2, "b": 3}, ("a", "b"), rows=3).tolist()
    [[0, 0, 1], [2, 0, 0]]
    """
    shape = tuple(sizes[name] for name in names)
    table = np.zeros(int(np.prod(shape)), dtype=np.int64)
    for start in range(0, rows, ROWS_A_CHUNK):
        keys = cell_keys(codes, sizes, names, slice(start, start + ROWS_A_CHUNK))
        # bincount writes a whole new table, which takes too long for few rows and many cells.
        if table.size <= 2 * ROWS_A_CHUNK:
            table += np.bincount(keys, minlength=table.size)
        else:
            np.add.at(table, keys, 1)
    return table.reshape(shape)


CAPS = (32, 64, 256)  # Limits on a super-column's cells; of the plans for each the cheapest is used
MAX_FUSED = 3  # Attributes of a table over super-columns, at most; larger ones are counted directly
_MAX_COLUMNS = 16
_FUSED_CELLS = 1 << 20  # Cells of a fused table, at most; adding up larger blocks takes too long
_CELLS_AT_ONCE = 1 << 23
_CACHED_CELLS = 1 << 17
_ROWS_A_BLOCK = 1 << 18  # Rows whose keys are shared by tables; their int32 counts are added up
_ROWS_A_STEP = 1 << 15
_Keys = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class SuperColumn:
    """Several columns whose codes are read as one number, the last column its lowest digit.

    sizes   number of codes of each column
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of codes of the super-column."""
        return math.prod(self.sizes)


def fuse(sizes: Mapping[str, int], *, cap: int) -> tuple[SuperColumn, ...]:
    """Return columns fused, those of most codes first, into super-columns of at most ``cap`` codes.

    sizes   column → number of its codes; one with more than ``cap`` stays alone

    >>> [column.names for column in fuse({"a": 2, "b": 40, "c": 3}, cap=64)]
    [('b',), ('c', 'a')]
    """
    groups: list[list[str]] = []
    free_cells: list[int] = []
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        for index, group in enumerate(groups):
            if sizes[name] <= free_cells[index] and len(group) < _MAX_COLUMNS:
                group.append(name)
                free_cells[index] //= sizes[name]
                break
        else:
            groups.append([name])
            free_cells.append(cap // sizes[name])
    return tuple(SuperColumn(tuple(g), tuple(sizes[name] for name in g)) for g in groups)


@dataclass(frozen=True)
class FusedTable:
    """A table of counts over super-columns, with the tables over columns that are its sums.

    columns   one to three super-columns
    holds     names of the columns of each such table, in the order of ``columns``
    """

    columns: tuple[SuperColumn, ...]
    holds: tuple[Names, ...]

    @property
    def size(self) -> int:
        """The number of cells of the table."""
        return math.prod(column.size for column in self.columns)


def is_fusible(sizes: Mapping[str, int], names: Names) -> bool:
    """Return whether the table over these columns is small enough to count over super-columns."""
    cells = math.prod(sizes[name] for name in names)
    return len(names) <= MAX_FUSED and cells <= _FUSED_CELLS


def _cost(cells: int, rows: int) -> int:
    """Return the approximate time, in nanoseconds, to count a table and to sum it up."""
    return rows * (1 if cells <= _CACHED_CELLS else 2) + 4 * cells


def cheapest_plan(
    sizes: Mapping[str, int], tables: Collection[Names], *, rows: int
) -> tuple[FusedTable, ...]:
    """Return the cheapest of a few plans: fused tables that contain each of ``tables`` once.

    sizes    column → number of its codes
    tables   names of one to three columns each, in the plan maybe in another order
    rows     number of rows, from which the times are estimated

    >>> triangle = [("a", "b"), ("a", "c"), ("b", "c")]
    >>> [fused.holds for fused in cheapest_plan({"a": 2, "b": 3, "c": 2}, triangle, rows=1000)]
    [(('b', 'a'), ('a', 'c'), ('b', 'c'))]
    """
    names = dict.fromkeys(name for table in tables for name in table)
    used_sizes = {name: sizes[name] for name in names}
    plans = [_plan(fuse(used_sizes, cap=cap), sizes, tables, rows=rows) for cap in CAPS]
    return min(plans, key=lambda tables: sum(_cost(fused.size, rows) for fused in tables))


def _plan(
    columns: tuple[SuperColumn, ...],
    sizes: Mapping[str, int],
    tables: Collection[Names],
    *,
    rows: int,
) -> tuple[FusedTable, ...]:
    """Return fused tables over these super-columns that contain each of ``tables`` once.

    A table that is cheaper to count alone is fused with no other, and is at the end."""
    positions = {name: (i, j) for i, c in enumerate(columns) for j, name in enumerate(c.names)}
    by_group: dict[tuple[int, ...], list[Names]] = {}
    for table in tables:
        names = tuple(sorted(table, key=positions.__getitem__))
        group = tuple(sorted({positions[name][0] for name in names}))
        by_group.setdefault(group, []).append(names)
    fused: dict[tuple[int, ...], list[Names]] = {}
    covered: dict[tuple[int, ...], list[Names]] = {}
    unfused: list[FusedTable] = []
    for group in sorted(by_group, key=lambda group: (-len(group), group)):
        members = by_group[group]
        if group in covered:
            covered[group] += members
            continue
        cells = math.prod(columns[i].size for i in group)
        costs = (_cost(math.prod(sizes[name] for name in names), rows) for names in members)
        if cells <= _FUSED_CELLS and _cost(cells, rows) <= sum(costs):
            fused[group] = members
            subgroups = (part for k in range(1, len(group)) for part in combinations(group, k))
            covered |= dict.fromkeys(subgroups, members)
        else:
            for names in members:
                single = tuple(SuperColumn((name,), (sizes[name],)) for name in names)
                unfused.append(FusedTable(single, (names,)))
    # In this order neighbours share their first super-columns, whose keys are computed once.
    fused_tables = [
        FusedTable(tuple(columns[i] for i in group), tuple(fused[group])) for group in sorted(fused)
    ]
    return (*fused_tables, *unfused)


def count_plan(
    tables: Sequence[FusedTable], codes: Codes, *, rows: int
) -> Iterator[tuple[FusedTable, IntArray]]:
    """Yield each fused table with its counts (cells,), a few tables at a time to save memory."""
    for group in _groups(tables):
        counts = [np.zeros(fused.size, dtype=np.int64) for fused in group]
        for start in range(0, rows, _ROWS_A_BLOCK):
            keys = _BlockKeys(codes, slice(start, min(rows, start + _ROWS_A_BLOCK)))
            for index, fused in enumerate(group):
                counts[index] += keys.count(fused)
        yield from zip(group, counts, strict=True)


def _groups(tables: Sequence[FusedTable]) -> Iterator[list[FusedTable]]:
    group: list[FusedTable] = []
    cells = 0
    for fused in tables:
        cells += fused.size
        if group and cells > _CELLS_AT_ONCE:
            yield group
            group, cells = [], fused.size
        group.append(fused)
    if group:
        yield group


class _BlockKeys:
    """The cell numbers of one block of rows, computed once for all tables that share them."""

    def __init__(self, codes: Codes, rows: slice) -> None:
        self._codes, self._rows = codes, rows
        self._own: dict[SuperColumn, _Keys] = {}
        self._pair: tuple[tuple[SuperColumn, ...], _Keys] | None = None

    def count(self, table: FusedTable) -> NDArray[np.int32]:
        """Return the counts of the block, as int32 (cells,), which fits better in the cache."""
        counts = np.zeros(table.size, dtype=np.int32)
        first, last = self._leading_keys(table.columns[:-1]), table.columns[-1]
        own = self._column_keys(last)
        keys = np.empty(_ROWS_A_STEP, dtype=np.intp)
        for start in range(0, len(own), _ROWS_A_STEP):
            rows = slice(start, start + _ROWS_A_STEP)
            here = own[rows]
            if first is not None:
                here = _append_digit(first[rows], here, last.size, cells=table.size)
            step = keys[: len(here)]
            # NumPy counts no other type without a copy.
            step[:] = here
            np.add.at(counts, step, np.int32(1))
        return counts

    def _leading_keys(self, columns: tuple[SuperColumn, ...]) -> _Keys | None:
        if len(columns) < 2:
            return self._column_keys(columns[0]) if columns else None
        if self._pair is None or self._pair[0] != columns:
            first_keys, second_keys = map(self._column_keys, columns)
            cells = columns[0].size * columns[1].size
            self._pair = (
                columns,
                _append_digit(first_keys, second_keys, columns[1].size, cells=cells),
            )
        return self._pair[1]

    def _column_keys(self, column: SuperColumn) -> _Keys:
        if column not in self._own:
            kind: np.dtype[Any] = np.min_scalar_type(column.size)
            keys = self._codes[column.names[0]][self._rows].astype(kind)
            for name, size in zip(column.names[1:], column.sizes[1:], strict=True):
                keys *= kind.type(size)
                keys += self._codes[name][self._rows].astype(kind, copy=False)
            self._own[column] = keys
        return self._own[column]


def _append_digit(keys: _Keys, digits: _Keys, size: int, *, cells: int) -> _Keys:
    kind: np.dtype[Any] = np.min_scalar_type(cells)
    longer = keys.astype(kind)
    longer *= kind.type(size)
    longer += digits.astype(kind, copy=False)
    return longer


def summed_tables(fused: FusedTable, counts: IntArray) -> dict[Names, IntArray]:
    """Return the tables that a fused table contains, by their names, summed from its counts.

    Super-columns are summed one after the other, and tables share equal first sums.
    """
    sums: dict[tuple[Names, ...], IntArray] = {(): counts.reshape(1, -1)}
    sizes = {n: size for c in fused.columns for n, size in zip(c.names, c.sizes, strict=True)}
    tables: dict[Names, IntArray] = {}
    for names in fused.holds:
        path: tuple[Names, ...] = ()
        for column in fused.columns:
            table = sums[path]
            path = (*path, tuple(name for name in names if name in column.names))
            if path not in sums:
                # (before, column.size · after) becomes (before · cells of its names here, after).
                digits = table.reshape(len(table), *column.sizes, -1)
                axes = tuple(i for i, name in enumerate(column.names, 1) if name not in names)
                sums[path] = digits.sum(axis=axes).reshape(-1, digits.shape[-1])
        tables[names] = sums[path].reshape([sizes[name] for name in names])
    return tables


def exact_marginals(
    codes: Codes, sizes: Mapping[str, int], marginals: Sequence[Names], *, rows: int
) -> list[IntArray]:
    """Return the exact table of counts of each marginal, int64, one axis for each of its names.

    codes      attribute → codes (rows,), each below the attribute's size
    marginals  different names each; () is the number of rows, shape ()
    """
    sorted_names = {tuple(sorted(names)) for names in marginals if names}
    small = [names for names in sorted(sorted_names) if is_fusible(sizes, names)]
    counted = {
        names: contingency_table(codes, sizes, names, rows=rows)
        for names in sorted_names - {*small}
    }
    for fused, counts in count_plan(cheapest_plan(sizes, small, rows=rows), codes, rows=rows):
        counted |= summed_tables(fused, counts)
    by_set = {frozenset(names): (names, table) for names, table in counted.items()}
    # Copies, so that no answers share memory.
    tables: list[IntArray] = []
    for names in marginals:
        if names:
            axes, table = by_set[frozenset(names)]
            tables.append(table.transpose([axes.index(name) for name in names]).copy(order="C"))
        else:
            tables.append(np.array(rows, dtype=np.int64))
    return tables
