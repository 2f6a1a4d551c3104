"""Boxes: sets of codes, one for each column, as which rows are released."""

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
"""For each column the ascending codes of its levels in the box, at least one."""

_INTERVAL = re.compile(r"([\[(][^,]*), ([^,]*[\])])")


def boxes_around(
    codes: NDArray[np.integer], columns: Sequence[Column], groups: Groups
) -> tuple[Box, ...]:
    """Return the smallest box around the rows of each group, from the codes of all rows (n, d).

    No group may be empty. In an ordered column a box has every value from its lowest to its
    highest.
    """
    starts, boxes = level_starts(columns), list[Box]()
    positions, unit_weights = codes + starts[:-1], np.ones(len(codes))
    for part in groups.parts(starts[-1]):
        is_held = part.sum_by_level(positions, unit_weights, starts[-1]) > 0
        masks = fill_gaps(is_held, columns)
        boxes += zip(*map(_code_sets, masks), strict=True) if masks else [()] * part.size
    return tuple(boxes)


def level_starts(columns: Sequence[Column]) -> IntArray:
    """Return the number of levels in all columns before each column, and last in all columns
    (d + 1,).

    These are the positions at which the levels of each column start in one sequence of all."""
    return np.cumsum([0, *(column.size for column in columns)])


def fill_gaps(is_held: Mask, columns: Sequence[Column]) -> list[Mask]:
    """Return for each column a mask (groups, levels) of the levels that each group spans.

    is_held   (groups, levels of all columns) whether a group has rows with a level

    In an ordered column, a group spans all values between its lowest and its highest.
    """
    masks = [mask.copy() for mask in np.split(is_held, level_starts(columns)[1:], axis=1)[:-1]]
    for mask, column in zip(masks, columns, strict=True):
        if column.ordered:
            present = mask[:, : column.value_count]
            from_below, from_above = (
                np.logical_or.accumulate(side, axis=1) for side in (present, present[:, ::-1])
            )
            mask[:, : column.value_count] = from_below & from_above[:, ::-1]
    return masks


def _code_sets(mask: Mask) -> list[tuple[int, ...]]:
    # Eight levels a byte: rows of bytes are compared in one step, and rows of masks in many.
    packed = np.packbits(mask, axis=1)
    rows = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, firsts, numbers = np.unique(rows, return_index=True, return_inverse=True)
    sets = [tuple(np.flatnonzero(is_held).tolist()) for is_held in mask[firsts]]
    return [sets[number] for number in numbers.tolist()]


def text_of(codes: Sequence[int], column: Column) -> str:
    """Return ascending codes of a column as text: ``any`` for all, an interval, the levels, or
    ``not`` and the levels that are lacking.

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
    """A public rule that assigns every possible row to a box."""

    def box_numbers(self, codes: NDArray[np.integer]) -> IntArray:
        """Return the number of the box of each row (n,), from the codes of the rows (n, d)."""
        ...


@dataclass(frozen=True)
class BoxRule:
    """A rule that releases each row as its box.

    source   the quasi-identifiers
    boxes    all boxes by their number; rows of equal boxes are one equivalence class
    finder   the rule that assigns rows to boxes

    The levels of a released column are the sets of codes that the boxes have in it, in the order of
    their codes. They may overlap, so no released column is ordered.
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
    def source_positions(self) -> tuple[int, ...]:
        return tuple(range(len(self.source)))

    @cached_property
    def _codes(self) -> IntArray:
        """The codes of each box in the released columns (boxes, d)."""
        table = np.zeros((len(self.boxes), len(self.source)), dtype=np.int64)
        for i, sets in enumerate(self._sets):
            code_of = {codes: code for code, codes in enumerate(sets)}
            table[:, i] = [code_of[box[i]] for box in self.boxes]
        return table

    @cached_property
    def _features(self) -> FloatArray:
        parts = [np.zeros((len(self.boxes), 0))]
        for i, (column, sets) in enumerate(zip(self.source, self._sets, strict=True)):
            bits, levels = cumulative_bits((column,)), np.arange(column.size)[:, None]
            answers = bit_matrix(bits, levels, (column,))
            shares = np.array([answers[list(codes)].mean(axis=0) for codes in sets])
            parts.append(shares.reshape(len(sets), len(bits))[self._codes[:, i]])
        return np.hstack(parts)

    def recode(self, rows: CodedRows) -> CodedRows:
        codes = self._codes[self.finder.box_numbers(rows.codes)]
        return replace(rows, columns=self.columns, codes=codes)

    def features(self, rows: CodedRows) -> FloatArray:
        """Return for each row and cumulative bit the share of true levels among the levels that the
        row's box has in the bit's column (n, bits)."""
        return self._features[self.finder.box_numbers(rows.codes)]


class Fork(NamedTuple):
    """A node that sends rows with a code in first..end − 1 to the node ``yes``, others to ``no``.

    column   position of the column that is read
    """

    column: int
    first: int
    end: int
    no: int
    yes: int


@dataclass(frozen=True)
class BoxTree:
    """A tree that assigns rows to boxes.

    nodes   forks, and None for each box: the root first, and each fork before its two sides; boxes
            are numbered in this order
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
        """The five fields of each node's fork and its box number, −1 for none (6, nodes)."""
        is_box = np.array([node is None for node in self.nodes])
        table = np.full((6, len(self.nodes)), -1)
        forks = [fork for fork in self.nodes if fork is not None]
        table[:5, ~is_box] = np.array(forks, dtype=np.int64).reshape(-1, 5).T
        table[5, is_box] = np.arange(np.count_nonzero(is_box))
        return table

    def boxes(self, columns: Sequence[Column]) -> tuple[Box, ...]:
        """Return all boxes by their number; together they hold every possible row once."""
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
