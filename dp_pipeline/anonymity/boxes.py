"""Boxes: a set of codes in every column, which rows are released as where not by bits.

BoxRule: every row is released as the box it falls into.

BoxTree: boxes that were cut in two, again and again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.coded_rows import CodedRows, Column
from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.method import bit_matrix, cumulative_bits
from dp_pipeline.config.constraints import Mask
from dp_pipeline.config.encoding import FloatArray, IntArray

Box = tuple[tuple[int, ...], ...]
"""Ascending codes, one tuple a column; never an empty one."""

_INTERVAL = re.compile(r"([\[(][^,]*), ([^,]*[\])])")


def boxes_around(
    codes: NDArray[np.integer], columns: Sequence[Column], groups: Groups
) -> tuple[Box, ...]:
    """Return the smallest box around the rows of each non-empty group, from codes (n, d)."""
    code_sets = [
        [codes_of for part in groups.parts(column.size) for codes_of in _sets(values, column, part)]
        for values, column in zip(codes.T, columns, strict=True)
    ]
    return tuple(tuple(sets[group] for sets in code_sets) for group in range(groups.size))


def fill_gaps(is_held: Mask, column: Column) -> Mask:
    """Return a mask of each group's levels in one column (groups, levels); in an ordered one, all
    between its lowest and highest value are added."""
    is_held = is_held.copy()
    if column.ordered:
        present = is_held[:, : column.values]
        from_below, from_above = (
            np.logical_or.accumulate(side, axis=1) for side in (present, present[:, ::-1])
        )
        is_held[:, : column.values] = from_below & from_above[:, ::-1]
    return is_held


def _sets(values: NDArray[np.integer], column: Column, groups: Groups) -> list[tuple[int, ...]]:
    cells = groups.keys * column.size + values[groups.members]
    is_held = np.bincount(cells, minlength=groups.size * column.size) > 0
    is_held = fill_gaps(is_held.reshape(groups.size, column.size), column)
    keys = [mask.tobytes() for mask in is_held]
    masks = dict(zip(keys, is_held, strict=True))
    sets = {key: tuple(np.flatnonzero(mask).tolist()) for key, mask in masks.items()}
    return [sets[key] for key in keys]


def text_of(codes: Sequence[int], column: Column) -> str:
    """Return a set of codes as text: ``any``, an interval, its levels, or the levels that it lacks.

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
        lacking = [code for code in range(column.size) if code not in set(codes)]
        is_short = len(lacking) < len(codes)
        return f"not {_set(lacking, column)}" if is_short else _set(codes, column)
    values = [code for code in codes if code != column.missing]
    if not values:
        return column.levels[codes[0]]
    if len(values) == 1 or values[-1] - values[0] != len(values) - 1:
        text = _set(values, column)
    else:
        low, high = column.levels[values[0]], column.levels[values[-1]]
        lower, upper = _INTERVAL.fullmatch(low), _INTERVAL.fullmatch(high)
        text = f"{lower[1]}, {upper[2]}" if lower and upper else f"{low} to {high}"
    return f"{text} or {column.levels[codes[-1]]}" if len(values) < len(codes) else text


def _set(codes: Sequence[int], column: Column) -> str:
    levels = [column.levels[code] for code in codes]
    return levels[0] if len(levels) == 1 else "{" + ", ".join(levels) + "}"


class BoxFinder(Protocol):
    """A public rule that assigns a box to every possible row."""

    def box_numbers(self, codes: NDArray[np.integer]) -> IntArray:
        """Return the number of the box of every row (n,), from codes (n, d)."""
        ...


@dataclass(frozen=True)
class BoxRule:
    """A rule that releases each level as the set of levels of the row's box in that column.

    source   the quasi-identifiers
    boxes    the boxes that rows are released as; equal ones are one equivalence class
    finder   the rule by which a row gets its box

    Each column's released levels are the sets of codes that its boxes have, in order of their
    codes. They overlap, so they are not ordered, even where the column is.
    """

    source: tuple[Column, ...]
    boxes: tuple[Box, ...]
    finder: BoxFinder

    @cached_property
    def _sets(self) -> list[list[tuple[int, ...]]]:
        return [sorted({box[i] for box in self.boxes}) for i in range(len(self.source))]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        released = []
        for column, sets in zip(self.source, self._sets, strict=True):
            missing = len(sets) - 1 if sets and sets[-1] == (column.missing,) else None
            levels = tuple(text_of(codes, column) for codes in sets)
            released.append(Column(column.name, levels, missing=missing))
        return tuple(released)

    @property
    def about(self) -> tuple[int, ...]:
        return tuple(range(len(self.source)))

    @cached_property
    def _codes(self) -> IntArray:
        """The released codes of every box (boxes, d)."""
        table = np.zeros((len(self.boxes), len(self.source)), dtype=np.int64)
        for i, sets in enumerate(self._sets):
            code_of = {codes: code for code, codes in enumerate(sets)}
            table[:, i] = [code_of[box[i]] for box in self.boxes]
        return table

    @cached_property
    def _features(self) -> FloatArray:
        parts = [np.zeros((len(self.boxes), 0))]
        for i, (column, sets) in enumerate(zip(self.source, self._sets, strict=True)):
            is_held = np.zeros((len(sets), column.size), dtype=np.bool_)
            for codes, held in zip(sets, is_held, strict=True):
                held[list(codes)] = True
            bits, levels = cumulative_bits((column,)), np.arange(column.size)[:, None]
            answers = is_held.astype(np.float64) @ bit_matrix(bits, levels, (column,))
            parts.append((answers / is_held.sum(axis=1, keepdims=True))[self._codes[:, i]])
        return np.hstack(parts)

    def released(self, rows: CodedRows) -> CodedRows:
        codes = self._codes[self.finder.box_numbers(rows.codes)]
        return replace(rows, columns=self.columns, codes=codes)

    def features(self, rows: CodedRows) -> FloatArray:
        """Return the share of a box's levels for which each cumulative bit is true (n, bits).

        So ordered columns become numbers near the middle of their interval."""
        return self._features[self.finder.box_numbers(rows.codes)]


class Fork(NamedTuple):
    """A fork of a tree: rows with a code in first..end − 1 go to the node ``yes``, others to
    ``no``."""

    column: int
    first: int
    end: int
    no: int
    yes: int


@dataclass(frozen=True)
class BoxTree:
    """A tree of cuts, which assigns any row to a box.

    nodes   forks, the root first and each before its sides, and None for a box; boxes are numbered
            in this order
    """

    nodes: tuple[Fork | None, ...]

    def box_numbers(self, codes: NDArray[np.integer]) -> IntArray:
        column, first, end, no, yes, box = self._table
        numbers, rows = np.zeros(len(codes), dtype=np.int64), np.arange(len(codes))
        node = np.zeros(len(codes), dtype=np.int64)
        while len(rows):
            is_inside = box[node] < 0
            numbers[rows[~is_inside]] = box[node[~is_inside]]
            rows, node = rows[is_inside], node[is_inside]
            values = codes[rows, column[node]]
            is_yes = (values >= first[node]) & (values < end[node])
            node = np.where(is_yes, yes[node], no[node])
        return numbers

    @cached_property
    def _table(self) -> IntArray:
        """For every node, the fields of its fork and its box number, −1 for none (6, nodes)."""
        is_box = np.array([node is None for node in self.nodes])
        table = np.full((6, len(self.nodes)), -1)
        forks = [fork for fork in self.nodes if fork is not None]
        table[:5, ~is_box] = np.array(forks, dtype=np.int64).reshape(-1, 5).T
        table[5, is_box] = np.arange(np.count_nonzero(is_box))
        return table

    def boxes(self, columns: Sequence[Column]) -> tuple[Box, ...]:
        """Return every box that the cuts leave: for each column, the codes that lead to it."""
        boxes, pending = [], {0: tuple(tuple(range(column.size)) for column in columns)}
        for i, fork in enumerate(self.nodes):
            box = pending.pop(i)
            if fork is None:
                boxes.append(box)
                continue
            j, inside = fork.column, range(fork.first, fork.end)
            for side, is_yes in ((fork.no, False), (fork.yes, True)):
                codes = tuple(code for code in box[j] if (code in inside) == is_yes)
                pending[side] = (*box[:j], codes, *box[j + 1 :])
        return tuple(boxes)
