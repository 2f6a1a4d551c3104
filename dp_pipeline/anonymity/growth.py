"""Growing a tree of boxes: each is cut in two as long as both sides keep the promise.

Cuts: what every bit would make of the boxes of one depth, as counts.

What makes one tree another is which of the allowed cuts is chosen; that is all a method says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.boxes import BoxRecoding, BoxTree, Fork, level_starts
from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.method import Bit, Recoded, cumulative_bits, kept_whole
from dp_pipeline.anonymity.partition import CodedRows, KAnonymityGuarantee
from dp_pipeline.config.encoding import FloatArray, IntArray

NO_CUT = -1


@dataclass(frozen=True, eq=False)
class Cuts:
    """The cuts of some boxes by all cumulative bits.

    boxes   the rows of each
    """

    line: _Line
    boxes: Groups
    promise: KAnonymityGuarantee

    @cached_property
    def levels(self) -> IntArray:
        """Rows of each level, column after column (labels, boxes, levels)."""
        labels, size = self.line.labels, self.boxes.size
        keys = self.line.rows.target[self.boxes.members] * size + self.boxes.keys
        found = self.line.on_levels(self.boxes.members, keys, labels * size)
        return np.asarray(found.reshape(labels, size, -1))

    @cached_property
    def yes(self) -> IntArray:
        """Rows where each bit is true (labels, boxes, bits)."""
        return np.asarray(self.line.on_bits(self.levels))

    @cached_property
    def no(self) -> IntArray:
        """Rows where each bit is false (labels, boxes, bits)."""
        return self.whole - self.yes

    @cached_property
    def whole(self) -> IntArray:
        """Rows of each box (labels, boxes, 1): those on all levels of one column."""
        one = self.line.rows.columns[0]
        return np.asarray(self.levels[..., : one.size].sum(axis=-1, keepdims=True))

    @cached_property
    def rows_yes(self) -> IntArray:
        """Rows of every label where each bit is true (boxes, bits)."""
        return np.asarray(self.yes.sum(axis=0))

    @cached_property
    def rows_no(self) -> IntArray:
        """Rows of every label where each bit is false (boxes, bits)."""
        return np.asarray(self.no.sum(axis=0))

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """Whether both sides keep the promise (boxes, bits)."""
        return self._keeps(self.yes, self.rows_yes) & self._keeps(self.no, self.rows_no)

    def best(self, worth: NDArray[Any], some: NDArray[np.bool_] | None = None) -> IntArray:
        """The allowed bit that is worth most to each box (boxes,), of equal ones the first; NO_CUT
        where there is none.

        worth   (boxes, bits), none negative
        some    (boxes, bits) which of the allowed bits are asked for; None: all
        """
        asked = self.allowed if some is None else self.allowed & some
        found = np.where(asked, worth, -1).argmax(axis=1)
        return np.where(asked.any(axis=1), found, NO_CUT)

    @property
    def evenness(self) -> IntArray:
        """Rows on the smaller side of each cut (boxes, bits)."""
        return np.asarray(np.minimum(self.rows_yes, self.rows_no))

    def totals(self, numbers: FloatArray) -> FloatArray:
        """Sums over the rows of each box where each bit is true (boxes, bits), of one number a
        row of the table.
        """
        boxes, own = self.boxes, numbers[self.boxes.members]
        return np.asarray(
            self.line.on_bits(self.line.on_levels(boxes.members, boxes.keys, boxes.size, own))
        )

    def _keeps(self, counts: IntArray, rows: IntArray) -> NDArray[np.bool_]:
        """Whether there are rows, and they keep the promise (boxes, bits)."""
        enough = rows >= max(1, self.promise.k)
        if self.promise.diversity > 1:
            enough &= np.count_nonzero(counts, axis=0) >= self.promise.diversity
        return np.asarray(enough)


Choose = Callable[[Cuts], IntArray]
"""Which cut is made of each box (boxes,), as the place of its bit, or NO_CUT. A cut that is not
allowed is not made, whatever is chosen.
"""


@dataclass(frozen=True, eq=False)
class _Line:
    """The levels of all columns in one line, of which each bit is a run.

    places       (n, d) place in the line of each code
    columns      (bits,) the column of each bit
    first, end   (bits,) its run
    levels       in the line
    """

    rows: CodedRows
    bits: tuple[Bit, ...]
    places: IntArray
    columns: IntArray
    first: IntArray
    end: IntArray
    levels: int

    @classmethod
    def of(cls, rows: CodedRows) -> _Line:
        starts, bits = level_starts(rows.columns), cumulative_bits(rows.columns)
        columns = np.array([bit.column for bit in bits], dtype=np.int64)
        runs = np.array([bit.run(rows.columns) for bit in bits], dtype=np.int64).reshape(-1, 2)
        first, end = (runs + starts[columns, None]).T
        places = rows.codes.astype(np.int64) + starts[:-1]
        return cls(rows, bits, places, columns, first, end, int(starts[-1]))

    @property
    def labels(self) -> int:
        return len(self.rows.target_levels)

    def yes(self, members: IntArray, bits: IntArray) -> NDArray[np.bool_]:
        """The answers of some rows, each to a bit of its own."""
        place = self.places[members, self.columns[bits]]
        return np.asarray((place >= self.first[bits]) & (place < self.end[bits]))

    def on_levels(
        self, members: IntArray, keys: IntArray, size: int, numbers: FloatArray | None = None
    ) -> NDArray[Any]:
        """Rows of each key on each level (size, levels), or sums of a number of theirs."""
        cells = (keys[:, None] * self.levels + self.places[members]).ravel()
        each = None if numbers is None else np.repeat(numbers, self.places.shape[1])
        return np.bincount(cells, each, minlength=size * self.levels).reshape(size, self.levels)

    def on_bits(self, on_levels: NDArray[Any]) -> NDArray[Any]:
        """The same where each bit is true (…, bits), of what there is on each level (…, levels)."""
        before = np.zeros((*on_levels.shape[:-1], self.levels + 1), dtype=on_levels.dtype)
        np.cumsum(on_levels, axis=-1, out=before[..., 1:])
        return np.asarray(before[..., self.end] - before[..., self.first])

    def chosen(self, boxes: Groups, promise: KAnonymityGuarantee, choose: Choose) -> IntArray:
        """The bit that cuts each box, or NO_CUT (boxes,)."""
        found = []
        for some in boxes.some(self.levels * self.labels):
            cuts = Cuts(self, some, promise)
            bits = choose(cuts)
            found.append(np.where(cuts.allowed[np.arange(some.size), bits], bits, NO_CUT))
        return np.concatenate(found)


def grow(rows: CodedRows, promise: KAnonymityGuarantee, choose: Choose) -> BoxTree:
    """Cut the box of all rows, and its sides, until no cut is allowed or chosen.

    It depends on how many rows there are of each kind, not on their order.
    """
    line, boxes = _Line.of(rows), Groups.one(len(rows))
    nodes: list[Fork | None] = [None]
    places = np.zeros(1, dtype=np.int64)
    while boxes.size and line.bits:
        chosen = line.chosen(boxes, promise, choose)
        cut = np.flatnonzero(chosen != NO_CUT)
        sides = np.zeros((boxes.size, 2), dtype=np.int64)
        sides[cut] = len(nodes) + np.arange(2 * len(cut)).reshape(-1, 2)
        for box in cut.tolist():
            no, yes = sides[box].tolist()
            nodes[places[box]] = Fork(line.bits[chosen[box]], no=no, yes=yes)
        nodes += [None] * (2 * len(cut))
        large, boxes = _large_sides(line, boxes, chosen, promise)
        places = sides.ravel()[large]
    return BoxTree(rows.columns, tuple(nodes))


def _large_sides(
    line: _Line, boxes: Groups, chosen: IntArray, promise: KAnonymityGuarantee
) -> tuple[NDArray[np.bool_], Groups]:
    """Which sides of the boxes have rows enough for another cut (2·boxes,), and these sides."""
    answers = line.yes(boxes.members, chosen[boxes.keys])
    sides = boxes.parted(2 * boxes.keys + answers, 2 * boxes.size)
    enough = 2 * max(1, promise.k, promise.diversity)
    large = np.bincount(sides.keys, minlength=sides.size) >= enough
    large &= np.repeat(chosen != NO_CUT, 2)
    return large, sides.only(large)


def boxed(
    rows: CodedRows, promise: KAnonymityGuarantee, choose: Choose, *, least: int = 1
) -> Recoded:
    """The boxes of a grown tree as a recoding under which the rows keep the promise.

    least   rows of every box that was cut from another, where the promise asks for less

    Nothing is left out. A promise of nothing keeps every value. TooFewRows as ``Method.recode``.
    """
    if (kept := kept_whole(rows, promise)) is not None:
        return kept
    tree = grow(rows, replace(promise, k=max(promise.k, least)), choose)
    nobody = np.zeros(len(rows), dtype=np.bool_)
    return Recoded(BoxRecoding(rows.columns, tree.boxes, tree), nobody)
