"""Box: a set of codes in every column. What a class of rows is released as, where not by bits.

BoxRecoding: every row is released as the box it falls into.

BoxTree: boxes that were cut in two, bit by bit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.method import Bit, bit_matrix, cumulative_bits
from dp_pipeline.anonymity.partition import CodedRows, Column
from dp_pipeline.config.encoding import FloatArray, IntArray

Box = tuple[tuple[int, ...], ...]
"""Ascending codes, one tuple a column; never an empty one."""

_INTERVAL = re.compile(r"([\[(][^,]*), ([^,]*[\])])")


def whole_box(columns: Iterable[Column]) -> Box:
    """The box that holds every row there could be."""
    return tuple(tuple(range(column.size)) for column in columns)


def boxes_around(codes: IntArray, columns: Sequence[Column], groups: Groups) -> tuple[Box, ...]:
    """The smallest box that holds the rows of each group, which has some, of codes (n, d)."""
    sets = [
        [one for some in groups.some(column.size) for one in _sets(codes[:, at], column, some)]
        for at, column in enumerate(columns)
    ]
    return tuple(tuple(one[group] for one in sets) for group in range(groups.size))


def _sets(codes: IntArray, column: Column, groups: Groups) -> list[tuple[int, ...]]:
    """The codes of one column in each group; of an ordered one those between them too."""
    cells = groups.keys * column.size + codes[groups.members]
    held = np.bincount(cells, minlength=groups.size * column.size) > 0
    held = held.reshape(groups.size, column.size)
    if column.ordered:
        values = held[:, : column.values]
        from_below, from_above = (
            np.logical_or.accumulate(side, axis=1) for side in (values, values[:, ::-1])
        )
        held[:, : column.values] = from_below & from_above[:, ::-1]
    different, places = np.unique(held, axis=0, return_inverse=True)
    sets = [tuple(np.flatnonzero(one).tolist()) for one in different]
    return [sets[at] for at in places.ravel().tolist()]


def text_of(codes: Sequence[int], column: Column) -> str:
    """What a reader sees of a set of codes: ``any``, an interval, the levels or those it lacks.

    >>> ages = Column("age", ("[0, 20)", "[20, 40)", "[40, 60]", "?"), ordered=True, missing=3)
    >>> [text_of(codes, ages) for codes in ((1,), (0, 1), (1, 2, 3), (0, 1, 2, 3))]
    ['[20, 40)', '[0, 40)', '[20, 60] or ?', 'any']
    >>> jobs = Column("job", ("baker", "cook", "smith"))
    >>> text_of((0,), jobs), text_of((0, 2), jobs)
    ('baker', 'not cook')
    """
    if len(codes) == column.size:
        return "any"
    if not column.ordered:
        held = set(codes)
        lacks = [code for code in range(column.size) if code not in held]
        return f"not {_set(lacks, column)}" if len(lacks) < len(codes) else _set(codes, column)
    values = [code for code in codes if code != column.missing]
    parts = [_values(values, column)] if values else []
    missing = [column.levels[code] for code in codes if code == column.missing]
    return " or ".join(parts + missing)


def _values(values: Sequence[int], column: Column) -> str:
    """Values of an ordered column: one interval where they follow one another."""
    if len(values) == 1 or values[-1] - values[0] != len(values) - 1:
        return _set(values, column)
    low, high = column.levels[values[0]], column.levels[values[-1]]
    lower, upper = _INTERVAL.fullmatch(low), _INTERVAL.fullmatch(high)
    return f"{lower[1]}, {upper[2]}" if lower and upper else f"{low} to {high}"


def _set(codes: Sequence[int], column: Column) -> str:
    levels = [column.levels[code] for code in codes]
    return levels[0] if len(levels) == 1 else "{" + ", ".join(levels) + "}"


class BoxFinder(Protocol):
    """A public rule from a row to a box. Every row there could be has one."""

    def places(self, codes: NDArray[np.integer]) -> IntArray:
        """The number of the box of every row (n,), of codes (n, d)."""
        ...


@dataclass(frozen=True)
class BoxRecoding:
    """The columns are released as they are, with sets of levels in place of levels.

    source   the quasi-identifiers
    boxes    what is released; equal ones are one equivalence class
    finder   which of them a row falls into

    Each column's released levels are the sets of codes that its boxes have, in order of their
    codes. They overlap, so they are not ordered, even where the column is.
    """

    source: tuple[Column, ...]
    boxes: tuple[Box, ...]
    finder: BoxFinder

    @cached_property
    def _sets(self) -> list[list[tuple[int, ...]]]:
        """The different sets of codes of every column, ascending."""
        return [sorted({box[at] for box in self.boxes}) for at in range(len(self.source))]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """One released column a quasi-identifier, of the same name."""
        pairs = zip(self.source, self._sets, strict=True)
        return tuple(_released_column(column, sets) for column, sets in pairs)

    @property
    def about(self) -> tuple[int, ...]:
        """Every column tells of itself."""
        return tuple(range(len(self.source)))

    @cached_property
    def _codes(self) -> IntArray:
        """Released codes of every box (boxes, d)."""
        places = [{codes: at for at, codes in enumerate(sets)} for sets in self._sets]
        table = [[places[at][codes] for at, codes in enumerate(box)] for box in self.boxes]
        return np.array(table, dtype=np.int64).reshape(len(self.boxes), len(self.source))

    @cached_property
    def _features(self) -> FloatArray:
        """For every box and every cumulative bit, the share of the box's levels where it is
        true (boxes, bits).
        """
        shares = [
            _shares(column, sets) for column, sets in zip(self.source, self._sets, strict=True)
        ]
        parts = [table[self._codes[:, at]] for at, table in enumerate(shares)]
        return np.hstack([np.zeros((len(self.boxes), 0)), *parts])

    def released(self, rows: CodedRows) -> CodedRows:
        """The box of every row."""
        codes = self._codes[self.finder.places(rows.codes)]
        return replace(rows, columns=self.columns, codes=codes)

    def features(self, rows: CodedRows) -> FloatArray:
        """What is known of each cumulative bit of a row by its box: how likely it is true when
        the levels of the box are equally likely. Ordered columns so become numbers near the
        middle of their interval, with a bend at each edge; nominal ones, membership.
        """
        return self._features[self.finder.places(rows.codes)]


def _released_column(column: Column, sets: list[tuple[int, ...]]) -> Column:
    missing = len(sets) - 1 if sets and sets[-1] == (column.missing,) else None
    return Column(column.name, tuple(text_of(codes, column) for codes in sets), missing=missing)


def _shares(column: Column, sets: list[tuple[int, ...]]) -> FloatArray:
    """Share of each set (sets,) where each cumulative bit of the column is true (sets, bits)."""
    bits, codes = cumulative_bits((column,)), np.arange(column.size)[:, None]
    sizes = np.array([len(chosen) for chosen in sets], dtype=np.int64)
    held = np.zeros((len(sets), column.size))
    held[np.repeat(np.arange(len(sets)), sizes), [code for chosen in sets for code in chosen]] = 1
    return np.asarray(held @ bit_matrix(bits, codes, (column,)) / sizes[:, None])


@dataclass(frozen=True)
class Fork:
    """Rows where the bit is true go to the node ``yes``, the others to the node ``no``."""

    bit: Bit
    no: int
    yes: int


@dataclass(frozen=True)
class BoxTree:
    """The cuts, which are real rules: they know where a row goes that they were not made of.

    source   the columns
    nodes    the root first, a fork before its sides; None is a box. Boxes are numbered in this
             order
    """

    source: tuple[Column, ...]
    nodes: tuple[Fork | None, ...]

    def places(self, codes: NDArray[np.integer]) -> IntArray:
        """The number of the box of every row (n,), of codes (n, d)."""
        column, low, high, no, yes, box = self._table
        at = np.zeros(len(codes), dtype=np.int64)
        rows = np.flatnonzero(box[at] < 0)
        while len(rows):
            node = at[rows]
            values = codes[rows, column[node]]
            is_yes = (values >= low[node]) & (values < high[node])
            at[rows] = np.where(is_yes, yes[node], no[node])
            rows = rows[box[at[rows]] < 0]
        return np.asarray(box[at])

    @cached_property
    def _table(self) -> IntArray:
        """Of every node its column, the codes from which and below which rows go to ``yes``, both
        sides, and the number of its box, −1 of a fork (6, nodes).
        """
        found = np.full((6, len(self.nodes)), -1)
        for place, fork in enumerate(self.nodes):
            if fork is not None:
                runs = fork.bit.run(self.source)
                found[:5, place] = fork.bit.column, *runs, fork.no, fork.yes
        is_box = found[0] < 0
        found[5, is_box] = np.arange(np.count_nonzero(is_box))
        return found

    @property
    def boxes(self) -> tuple[Box, ...]:
        """All rows that the cuts send to each box: together they are every row there could be."""
        found, box_at = [], {0: whole_box(self.source)}
        for place, fork in enumerate(self.nodes):
            box = box_at.pop(place)
            if fork is None:
                found.append(box)
            else:
                box_at[fork.no], box_at[fork.yes] = _sides(box, fork.bit, self.source)
        return tuple(found)


def _sides(box: Box, bit: Bit, columns: tuple[Column, ...]) -> tuple[Box, Box]:
    """The part of a box where a bit is false, and the part where it is true."""
    at, (first, end) = bit.column, bit.run(columns)
    true = tuple(code for code in box[at] if first <= code < end)
    false = tuple(code for code in box[at] if not first <= code < end)
    no, yes = ((*box[:at], part, *box[at + 1 :]) for part in (false, true))
    return no, yes


def level_starts(columns: tuple[Column, ...]) -> IntArray:
    """Where the levels of each column start when all lie in one line, and its end (d + 1,)."""
    return np.cumsum([0, *(column.size for column in columns)])
