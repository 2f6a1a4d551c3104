"""Box: a set of codes in every column. What a class of rows is released as, where not by bits.

BoxRecoding: every row is released as the box it falls into.

BoxTree: boxes that are cut in two, bit by bit, as long as both sides keep the promise.

Growing a tree of boxes: the cuts that one box could have, and the loop that makes them.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.method import Bit, Recoded, Unchanged, bit_matrix, cumulative_bits
from dp_pipeline.anonymity.partition import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.spec.encoding import FloatArray, IntArray

Box = tuple[tuple[int, ...], ...]
"""Ascending codes, one tuple a column; never an empty one."""

_INTERVAL = re.compile(r"([\[(][^,]*), ([^,]*[\])])")


def whole_box(columns: Iterable[Column]) -> Box:
    """The box that holds every row there could be."""
    return tuple(tuple(range(column.size)) for column in columns)


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
        lacks = [code for code in range(column.size) if code not in codes]
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
    truth = bit_matrix(bits, codes, (column,)).astype(np.float64)
    return np.array([truth[list(chosen)].mean(axis=0) for chosen in sets]).reshape(
        len(sets), len(bits)
    )


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
        found, boxes = np.zeros(len(codes), dtype=np.int64), 0
        rows_at = {0: np.arange(len(codes))}
        for place, fork in enumerate(self.nodes):
            rows = rows_at.pop(place)
            if fork is None:
                found[rows] = boxes
                boxes += 1
            else:
                yes = fork.bit.of(codes[rows], self.source)
                rows_at[fork.no], rows_at[fork.yes] = rows[~yes], rows[yes]
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
    at = bit.column
    alone, codes = Bit(0, bit.code, bit.asks), np.array(box[at])
    true = alone.of(codes[:, None], (columns[at],))
    parts = [tuple(codes[side].tolist()) for side in (~true, true)]
    no, yes = ((*box[:at], part, *box[at + 1 :]) for part in parts)
    return no, yes


@dataclass(frozen=True, eq=False)
class Cuts:
    """What every cumulative bit would make of the rows of one box, as counts alone.

    levels    (levels, labels) rows of each level, column after column
    yes, no   (bits, labels) rows where each bit is true, and where it is not
    allowed   (bits,) whether both sides keep the promise
    """

    levels: IntArray
    yes: IntArray
    no: IntArray
    allowed: NDArray[np.bool_]

    @property
    def evenness(self) -> IntArray:
        """Rows on the smaller side of each cut (bits,)."""
        return np.asarray(np.minimum(self.yes.sum(axis=1), self.no.sum(axis=1)))


Choose = Callable[[Cuts], int]
"""Which of the allowed cuts is made, as the place of its bit; it is asked where there is one."""


def grow(rows: CodedRows, promise: KAnonymityGuarantee, choose: Choose) -> BoxTree:
    """Cut the box of all rows, and its sides, until no cut is allowed.

    It depends on how many rows there are of each kind, not on their order.
    """
    counter = _CutCounter.of(rows, promise)
    nodes: list[Fork | None] = [None]
    waiting = deque([(0, np.arange(len(rows)))])
    while waiting:
        place, members = waiting.popleft()
        # Two sides could not both keep the promise.
        if len(members) < 2 * max(1, promise.k):
            continue
        cuts = counter.cuts(members)
        if not cuts.allowed.any():
            continue
        bit = counter.bits[choose(cuts)]
        yes = bit.of(rows.codes[members], rows.columns)
        nodes[place] = Fork(bit, no=len(nodes), yes=len(nodes) + 1)
        waiting += [(len(nodes), members[~yes]), (len(nodes) + 1, members[yes])]
        nodes += [None, None]
    return BoxTree(rows.columns, tuple(nodes))


def boxed(
    rows: CodedRows, promise: KAnonymityGuarantee, choose: Choose, *, least: int = 1
) -> Recoded:
    """The boxes of a grown tree as a recoding under which the rows keep the promise.

    least   rows of every box that was cut from another, where the promise asks for less

    A promise of nothing keeps every value. TooFewRows as ``Method.recode``.
    """
    promise.require_possible(len(rows), int(np.count_nonzero(rows.target_counts)))
    nobody = np.zeros(len(rows), dtype=np.bool_)
    if promise.is_empty:
        return Recoded(Unchanged(rows.columns), nobody)
    tree = grow(rows, replace(promise, k=max(promise.k, least)), choose)
    return Recoded(BoxRecoding(rows.columns, tree.boxes, tree), nobody)


@dataclass(frozen=True, eq=False)
class _CutCounter:
    """Counts cuts. Levels of all columns lie in one line, and each bit is a run of them.

    target       (n,) labels
    cells        (n, d) place in the line of each code, times the labels, plus the row's label
    first, end   (bits,) the run of each bit
    """

    bits: tuple[Bit, ...]
    target: IntArray
    cells: IntArray
    first: IntArray
    end: IntArray
    shape: tuple[int, int]
    promise: KAnonymityGuarantee

    @classmethod
    def of(cls, rows: CodedRows, promise: KAnonymityGuarantee) -> _CutCounter:
        starts = level_starts(rows.columns)
        labels, bits = len(rows.target_levels), cumulative_bits(rows.columns)
        first, end = bit_runs(bits, rows.columns)
        cells = (rows.codes.astype(np.int64) + starts[:-1]) * labels + rows.target[:, None]
        return cls(bits, rows.target, cells, first, end, (int(starts[-1]), labels), promise)

    def cuts(self, members: IntArray) -> Cuts:
        """The cuts of some rows."""
        size = self.shape[0] * self.shape[1]
        levels = np.bincount(self.cells[members].ravel(), minlength=size).reshape(self.shape)
        before = np.vstack([np.zeros((1, self.shape[1]), dtype=np.int64), levels.cumsum(axis=0)])
        yes = before[self.end] - before[self.first]
        no = np.bincount(self.target[members], minlength=self.shape[1]) - yes
        return Cuts(levels, yes, no, self._keeps(yes) & self._keeps(no))

    def _keeps(self, counts: IntArray) -> NDArray[np.bool_]:
        """Whether there are rows, and they keep the promise (bits,)."""
        enough = counts.sum(axis=1) >= max(1, self.promise.k)
        return np.asarray(enough & (np.count_nonzero(counts, axis=1) >= self.promise.diversity))


def level_starts(columns: tuple[Column, ...]) -> IntArray:
    """Where the levels of each column start when all lie in one line, and its end (d + 1,)."""
    return np.cumsum([0, *(column.size for column in columns)])


def bit_runs(bits: Sequence[Bit], columns: tuple[Column, ...]) -> tuple[IntArray, IntArray]:
    """Where in the line of all levels each bit is true: from the first places to the second,
    (bits,) each.
    """
    starts = level_starts(columns)
    runs = [_run(bit, columns[bit.column], starts[bit.column]) for bit in bits]
    first, end = np.array(runs, dtype=np.int64).reshape(-1, 2).T
    return first, end


def _run(bit: Bit, column: Column, start: int) -> tuple[int, int]:
    end = column.values if bit.asks == "at_least" else bit.code + 1
    return start + bit.code, start + end
