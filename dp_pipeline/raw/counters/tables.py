"""Many exact marginals of one table of codes, each row read as few times as possible.

One contingency table by one key a row: the codes read as digits of one number.

Many one- and two-way tables in one pass, by super-columns.

A super-column is several columns fused into one: its code names the codes of
all of them. Few tables over pairs of super-columns hold many tables over pairs
of columns, which are got from them by summing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.spec.encoding import IntArray, Names

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


CAPS = (64, 256)
"""Most cells of a super-column: the small one for few rows, the large one for many."""

_MOST_COLUMNS = 16


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
class Plan:
    """Which pairs of super-columns are counted.

    tables   pairs of places in ``columns``, the first not after the second
    """

    columns: tuple[SuperColumn, ...]
    tables: tuple[tuple[int, int], ...]

    def cost(self, rows: int) -> int:
        """Keys to count and cells to sum, about."""
        cells = sum(self.columns[i].size * self.columns[j].size for i, j in self.tables)
        return len(self.tables) * rows + cells


def plan(sizes: Mapping[str, int], wanted: Collection[tuple[str, ...]], *, rows: int) -> Plan:
    """The cheaper of the plans at the two caps for one- and two-way tables ``wanted``."""
    names = dict.fromkeys(name for table in wanted for name in table)
    plans = []
    for cap in CAPS:
        columns = fuse({name: sizes[name] for name in names}, cap=cap)
        home = {name: at for at, column in enumerate(columns) for name in column.names}
        needed = {(min(at), max(at)) for at in ([home[name] for name in t] for t in wanted)}
        plans.append(Plan(columns, tuple(sorted(needed))))
    return min(plans, key=lambda one: one.cost(rows))


def count_plan(plan: Plan, codes: Codes, *, rows: int) -> dict[tuple[str, ...], IntArray]:
    """Every table that the plan holds: (a,) and (a, b) for columns of its pairs, in that order."""
    tables: dict[tuple[str, ...], IntArray] = {}
    for (i, j), counts in _count_supers(plan, codes, rows).items():
        if i == j:
            tables |= _within(plan.columns[i], counts)
        else:
            tables |= _between(plan.columns[i], plan.columns[j], counts)
    return tables


def _count_supers(plan: Plan, codes: Codes, rows: int) -> dict[tuple[int, int], IntArray]:
    """Flat tables over the pairs of super-columns; of one super-column where both are the same."""
    sizes = [column.size for column in plan.columns]
    counts = {
        (i, j): np.zeros(sizes[i] * (sizes[j] if i != j else 1), dtype=np.int64)
        for i, j in plan.tables
    }
    used = sorted({at for pair in plan.tables for at in pair})
    for start in range(0, rows, ROWS_A_CHUNK):
        chunk = slice(start, start + ROWS_A_CHUNK)
        keys = {at: _keys(plan.columns[at], codes, chunk) for at in used}
        for (i, j), table in counts.items():
            add_counts(table, keys[i] if i == j else keys[i] * sizes[j] + keys[j])
    return counts


def _keys(column: SuperColumn, codes: Codes, rows: slice) -> IntArray:
    sizes = dict(zip(column.names, column.sizes, strict=True))
    return keys_of(codes, sizes, column.names, rows)


def _within(column: SuperColumn, counts: IntArray) -> dict[tuple[str, ...], IntArray]:
    """Tables over the columns of one super-column, and over pairs of them."""
    tables: dict[tuple[str, ...], IntArray] = {}
    for at, (name, size) in enumerate(zip(column.names, column.sizes, strict=True)):
        later = column.sizes[at + 1 :]
        width = size * math.prod(later)
        table = counts.reshape(-1, width).sum(axis=0).reshape(size, -1).T
        tables[name,] = table.sum(axis=0)
        for other, partner in enumerate(column.names[at + 1 :]):
            tables[name, partner] = _sum_to(table, later, other).T
    return tables


def _between(
    left: SuperColumn, right: SuperColumn, counts: IntArray
) -> dict[tuple[str, ...], IntArray]:
    """Tables over pairs of a column of the one and a column of the other super-column."""
    table = counts.reshape(left.size, right.size)
    tables: dict[tuple[str, ...], IntArray] = {}
    for at, name in enumerate(left.names):
        half = np.ascontiguousarray(_sum_to(table, left.sizes, at).T)
        for other, partner in enumerate(right.names):
            tables[name, partner] = _sum_to(half, right.sizes, other).T
    return tables


def _sum_to(table: IntArray, sizes: tuple[int, ...], at: int) -> IntArray:
    """Axis 0, whose codes have the digits ``sizes``, summed down to one digit."""
    before, after = math.prod(sizes[:at]), math.prod(sizes[at + 1 :])
    summed: IntArray = table.reshape(before, sizes[at], after, -1).sum(axis=(0, 2))
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
    small = {names for names in wanted if len(names) <= 2}
    fused = plan(sizes, small, rows=rows)
    # Fusing pays when pairs of super-columns are fewer than the tables that they hold.
    tables = count_plan(fused, codes, rows=rows) if len(fused.tables) < len(small) else {}
    for names in wanted:
        if names not in tables and names[::-1] not in tables:
            tables[names] = contingency_table(codes, sizes, names, rows=rows)
    by_set = {frozenset(names): (names, table) for names, table in tables.items()}
    return [
        _turned(*by_set[frozenset(names)], names) if names else np.array(rows, dtype=np.int64)
        for names in marginals
    ]


def _turned(stored: Names, table: IntArray, asked: Names) -> IntArray:
    """A copy with its axes in the order asked: two answers never share memory."""
    return table.transpose([stored.index(name) for name in asked]).copy(order="C")
