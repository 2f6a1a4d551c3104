"""Many exact marginals of one table of codes, each row read as few times as possible.

One contingency table by one key a row: the codes read as digits of one number.

Many tables over one to three attributes in few passes, by super-columns.

A super-column is several columns fused into one: its code names the codes of
all of them. Few tables over pairs or triples of super-columns hold many tables over pairs
or triples of columns, which are got from them by summing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import IntArray, Names

Codes = Mapping[str, NDArray[Any]]
"""Attribute → codes (n,) of an unsigned type."""

ROWS_A_CHUNK = 1 << 16
"""Keys of so many rows stay in the cache of one core."""


def keys_of(codes: Codes, sizes: Mapping[str, int], names: Sequence[str], rows: slice) -> IntArray:
    """Cell of every row of ``rows`` in the table over ``names``, last attribute fastest."""
    keys = codes[names[0]][rows].astype(np.int64)
    for name in names[1:]:
        keys *= sizes[name]
        keys += codes[name][rows]
    return keys


def add_counts(table: IntArray, keys: IntArray) -> None:
    """Add 1 to the cell of every key; ``table`` is flat."""
    # bincount writes a whole new table, which is too much when rows are few beside cells.
    if table.size <= 2 * ROWS_A_CHUNK:
        table += np.bincount(keys, minlength=table.size)
    else:
        np.add.at(table, keys, 1)


def occupied_cells(
    codes: Codes, sizes: Mapping[str, int], names: Sequence[str], *, rows: int
) -> IntArray:
    """Key and count of the cells with rows, int64 (m, 2), ascending by key; one pass and a sort.

    >>> codes = {"a": np.array([0, 1, 1]), "b": np.array([2, 0, 0])}
    >>> occupied_cells(codes, {"a": 2, "b": 3}, ("a", "b"), rows=3).tolist()
    [[2, 1], [3, 2]]
    """
    keys, counts = np.unique(keys_of(codes, sizes, names, slice(0, rows)), return_counts=True)
    return np.stack([keys, counts.astype(np.int64)], axis=1)


def contingency_table(
    codes: Codes, sizes: Mapping[str, int], names: Sequence[str], *, rows: int
) -> IntArray:
    """Exact counts over ``names`` (at least one, no two the same), one axis an attribute.

    >>> codes = {"a": np.array([0, 1, 1]), "b": np.array([2, 0, 0])}
    >>> contingency_table(codes, {"a": 2, "b": 3}, ("a", "b"), rows=3).tolist()
    [[0, 0, 1], [2, 0, 0]]
    """
    shape = tuple(sizes[name] for name in names)
    table = np.zeros(int(np.prod(shape)), dtype=np.int64)
    for start in range(0, rows, ROWS_A_CHUNK):
        add_counts(table, keys_of(codes, sizes, names, slice(start, start + ROWS_A_CHUNK)))
    return table.reshape(shape)


CAPS = (32, 64, 256)
"""Most cells of a super-column; a plan is made at each of them, and the cheapest one is taken."""

_MOST_COLUMNS = 16

MOST_FUSED = 3
"""Attributes of a table that super-columns hold; larger ones are counted by themselves."""

_FUSED_CELLS = 1 << 20
"""Cells of a table that blocks of rows are counted into, each by itself first: a larger one would
take longer to add than to count.
"""

_CELLS_AT_ONCE = 1 << 23
_CACHED_CELLS = 1 << 17

_ROWS_A_BLOCK = 1 << 18
"""Rows whose keys are kept, and after which small counts are added to large ones."""

_ROWS_A_STEP = 1 << 15

_Keys = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class SuperColumn:
    """Columns fused into one.

    names, sizes   of the columns, the last one fastest
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of codes."""
        return math.prod(self.sizes)


def fuse(sizes: Mapping[str, int], *, cap: int) -> tuple[SuperColumn, ...]:
    """Every column in one super-column of at most ``cap`` cells, or alone: first fit, large first.

    >>> [column.names for column in fuse({"a": 2, "b": 40, "c": 3}, cap=64)]
    [('b',), ('c', 'a')]
    """
    groups: list[list[str]] = []
    room: list[int] = []
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        for at, group in enumerate(groups):
            if sizes[name] <= room[at] and len(group) < _MOST_COLUMNS:
                group.append(name)
                room[at] //= sizes[name]
                break
        else:
            groups.append([name])
            room.append(cap // sizes[name])
    return tuple(SuperColumn(tuple(g), tuple(sizes[name] for name in g)) for g in groups)


@dataclass(frozen=True)
class FusedTable:
    """One table over super-columns, and the tables that are got from it by summing.

    columns   one to three of them
    holds     names of the columns of each; in the order of ``columns``
    """

    columns: tuple[SuperColumn, ...]
    holds: tuple[Names, ...]

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(column.size for column in self.columns)


def is_fusible(sizes: Mapping[str, int], names: Names) -> bool:
    """Whether a plan may have the table over ``names``: few attributes, and few cells."""
    cells = math.prod(sizes[name] for name in names)
    return len(names) <= MOST_FUSED and cells <= _FUSED_CELLS


def _cost(cells: int, rows: int) -> int:
    """About the nanoseconds that it takes to count a table, and to sum it up."""
    return rows * (1 if cells <= _CACHED_CELLS else 2) + 4 * cells


def plan(
    sizes: Mapping[str, int], wanted: Collection[Names], *, rows: int
) -> tuple[FusedTable, ...]:
    """The tables to count for tables over one to three different columns: the cheapest plan of
    those at the caps. Each wanted one is held once, by names in some order.

    >>> triangle = [("a", "b"), ("a", "c"), ("b", "c")]
    >>> [one.holds for one in plan({"a": 2, "b": 3, "c": 2}, triangle, rows=1000)]
    [(('b', 'a'), ('a', 'c'), ('b', 'c'))]
    """
    names = dict.fromkeys(name for table in wanted for name in table)
    some = {name: sizes[name] for name in names}
    plans = [_plan(fuse(some, cap=cap), sizes, wanted, rows=rows) for cap in CAPS]
    return min(plans, key=lambda tables: sum(_cost(one.size, rows) for one in tables))


def _plan(
    columns: tuple[SuperColumn, ...],
    sizes: Mapping[str, int],
    wanted: Collection[Names],
    *,
    rows: int,
) -> tuple[FusedTable, ...]:
    """Larger sets of super-columns first: they hold tables over some of their super-columns too."""
    places = {name: (at, i) for at, one in enumerate(columns) for i, name in enumerate(one.names)}
    held: dict[tuple[int, ...], list[Names]] = {}
    for table in wanted:
        names = tuple(sorted(table, key=places.__getitem__))
        held.setdefault(tuple(sorted({places[name][0] for name in names})), []).append(names)
    chosen: dict[tuple[int, ...], list[Names]] = {}
    inside: dict[tuple[int, ...], list[Names]] = {}
    alone: list[FusedTable] = []
    for home in sorted(held, key=lambda home: (-len(home), home)):
        if home in inside:
            inside[home] += held[home]
            continue
        cells = math.prod(columns[at].size for at in home)
        single = (math.prod(sizes[name] for name in names) for names in held[home])
        if cells <= _FUSED_CELLS and _cost(cells, rows) <= sum(_cost(one, rows) for one in single):
            chosen[home] = held[home]
            parts = (part for k in range(1, len(home)) for part in combinations(home, k))
            inside |= dict.fromkeys(parts, chosen[home])
        else:
            alone += [_by_itself(names, sizes) for names in held[home]]
    # In this order neighbours share their first super-columns, whose keys are made once.
    fused_tables = [
        FusedTable(tuple(columns[at] for at in home), tuple(chosen[home]))
        for home in sorted(chosen)
    ]
    return (*fused_tables, *alone)


def _by_itself(names: Names, sizes: Mapping[str, int]) -> FusedTable:
    return FusedTable(tuple(SuperColumn((name,), (sizes[name],)) for name in names), (names,))


def count_plan(
    tables: Sequence[FusedTable], codes: Codes, *, rows: int
) -> Iterator[tuple[FusedTable, IntArray]]:
    """Every table of a plan with its flat counts, few tables at a time in memory."""
    for some in _groups(tables):
        counts = [np.zeros(one.size, dtype=np.int64) for one in some]
        for start in range(0, rows, _ROWS_A_BLOCK):
            keys = _BlockKeys(codes, slice(start, min(rows, start + _ROWS_A_BLOCK)))
            for at, one in enumerate(some):
                counts[at] += keys.counted(one)
        yield from zip(some, counts, strict=True)


def _groups(tables: Sequence[FusedTable]) -> Iterator[list[FusedTable]]:
    """Neighbours of few cells together."""
    group: list[FusedTable] = []
    cells = 0
    for one in tables:
        cells += one.size
        if group and cells > _CELLS_AT_ONCE:
            yield group
            group, cells = [], one.size
        group.append(one)
    if group:
        yield group


class _BlockKeys:
    """Keys of one block of rows; those of a super-column, and of the first two of the table before,
    are made once.
    """

    def __init__(self, codes: Codes, rows: slice) -> None:
        self._codes, self._rows = codes, rows
        self._own: dict[SuperColumn, _Keys] = {}
        self._pair: tuple[tuple[SuperColumn, ...], _Keys] | None = None

    def counted(self, table: FusedTable) -> NDArray[np.int32]:
        """Flat counts of the block; small numbers, so that more of them stay in the cache."""
        counts = np.zeros(table.size, dtype=np.int32)
        first, last = self._first(table.columns[:-1]), table.columns[-1]
        own = self._of_one(last)
        keys = np.empty(_ROWS_A_STEP, dtype=np.intp)
        for start in range(0, len(own), _ROWS_A_STEP):
            rows = slice(start, start + _ROWS_A_STEP)
            here = own[rows]
            if first is not None:
                here = _appended(first[rows], here, last.size, cells=table.size)
            step = keys[: len(here)]
            # The only type that is counted without a copy.
            step[:] = here
            np.add.at(counts, step, np.int32(1))
        return counts

    def _first(self, columns: tuple[SuperColumn, ...]) -> _Keys | None:
        if len(columns) < 2:
            return self._of_one(columns[0]) if columns else None
        if self._pair is None or self._pair[0] != columns:
            one, other = map(self._of_one, columns)
            cells = columns[0].size * columns[1].size
            self._pair = (columns, _appended(one, other, columns[1].size, cells=cells))
        return self._pair[1]

    def _of_one(self, column: SuperColumn) -> _Keys:
        if column not in self._own:
            kind = _kind(column.size)
            keys = self._codes[column.names[0]][self._rows].astype(kind)
            for name, size in zip(column.names[1:], column.sizes[1:], strict=True):
                keys *= kind.type(size)
                keys += self._codes[name][self._rows].astype(kind, copy=False)
            self._own[column] = keys
        return self._own[column]


def _appended(keys: _Keys, digits: _Keys, size: int, *, cells: int) -> _Keys:
    """Keys with one digit more, of ``size`` values: those of so many cells."""
    kind = _kind(cells)
    longer = keys.astype(kind)
    longer *= kind.type(size)
    longer += digits.astype(kind, copy=False)
    return longer


def _kind(cells: int) -> np.dtype[Any]:
    """The fewest bytes for keys of so many cells, and for that number: a register holds many."""
    return np.min_scalar_type(cells)


def held_tables(fused: FusedTable, counts: IntArray) -> dict[Names, IntArray]:
    """The tables that ``fused.holds``, from its counts or from any sum of such counts.

    Super-columns are summed down one after the other, so tables that keep the same columns of the
    first one share that sum.
    """
    known: dict[tuple[Names, ...], IntArray] = {(): counts.reshape(1, -1)}
    found: dict[Names, IntArray] = {}
    for names in fused.holds:
        kept: tuple[Names, ...] = ()
        for column in fused.columns:
            before, kept = known[kept], (*kept, tuple(n for n in names if n in column.names))
            if kept not in known:
                known[kept] = _summed(before, column, kept[-1])
        sizes = {n: s for one in fused.columns for n, s in zip(one.names, one.sizes, strict=True)}
        found[names] = known[kept].reshape([sizes[name] for name in names])
    return found


def _summed(table: IntArray, column: SuperColumn, names: Names) -> IntArray:
    """(before, column.size · after) with the codes of ``column`` summed down to those of ``names``:
    (before · their cells, after).
    """
    digits = table.reshape(len(table), *column.sizes, -1)
    others = tuple(at for at, name in enumerate(column.names, 1) if name not in names)
    after = digits.shape[-1]
    summed: IntArray = digits.sum(axis=others).reshape(-1, after)
    return summed


def exact_marginals(
    codes: Codes, sizes: Mapping[str, int], marginals: Sequence[Names], *, rows: int
) -> list[IntArray]:
    """One int64 table a marginal, in the order asked and with its axes in the order asked.

    codes      attribute → codes (rows,), each below the attribute's size
    marginals  names all different inside one marginal; () is the number of rows, shape ()

    Marginals over the same attributes in another order are counted once.
    """
    wanted = {tuple(sorted(names)) for names in marginals if names}
    small = [names for names in sorted(wanted) if is_fusible(sizes, names)]
    tables = {
        names: contingency_table(codes, sizes, names, rows=rows) for names in wanted - {*small}
    }
    for fused, counts in count_plan(plan(sizes, small, rows=rows), codes, rows=rows):
        tables |= held_tables(fused, counts)
    by_set = {frozenset(names): (names, table) for names, table in tables.items()}
    return [
        _turned(*by_set[frozenset(names)], names) if names else np.array(rows, dtype=np.int64)
        for names in marginals
    ]


def _turned(stored: Names, table: IntArray, asked: Names) -> IntArray:
    """A copy with its axes in the order asked: two answers never share memory."""
    return table.transpose([stored.index(name) for name in asked]).copy(order="C")
