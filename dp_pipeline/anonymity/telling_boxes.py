"""Boxes cut by what each cut tells: of the label, and of a straight line through the label.

Worth: what counts as telling. Each way to count makes boxes of its own kind.

All boxes of one depth are cut together: a table of some thousand rows takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.boxes import BoxRecoding, BoxTree, Fork, bit_runs, level_starts
from dp_pipeline.anonymity.label_lines import SCORE_UNIT, label_scores
from dp_pipeline.anonymity.method import Bit, Recoded, Unchanged, cumulative_bits
from dp_pipeline.anonymity.partition import CodedRows, KAnonymityGuarantee
from dp_pipeline.spec.encoding import FloatArray, IntArray

MOST_CELLS_AT_ONCE = 1 << 22
"""Boxes × levels × labels that are counted together."""

_NO_CUT = -1


@dataclass(frozen=True)
class Worth:
    """What a cut is worth, in nats.

    label   count the fall of n·H(label | box), less (labels − 1) for the new box, Akaike's price;
            a fall that does not pay it counts as nothing
    line    count how far the cut parts the rows along a straight line through the label: the fall
            of the squares of ``label_scores``. Where a box has too few rows to show a share of a
            label, this is what all rows say of them

    Where the line counts, boxes are cut as long as the promise allows it, nearest to halves if no
    cut is worth anything: finer boxes tell a classifier more. By labels alone, they stay whole.
    """

    label: bool
    line: bool


def telling_boxes(rows: CodedRows, promise: KAnonymityGuarantee, worth: Worth) -> Recoded:
    """Boxes under which the rows keep the promise, cut by what is worth most each time.

    It depends on how many rows there are of each kind, not on their order. Nothing is left out.
    A promise of nothing keeps every value. TooFewRows as ``Method.recode``.
    """
    promise.require_possible(len(rows), int(np.count_nonzero(rows.target_counts)))
    nobody = np.zeros(len(rows), dtype=np.bool_)
    if promise.is_empty:
        return Recoded(Unchanged(rows.columns), nobody)
    tree = _Growth(_Table.of(rows, line=worth.line), promise, worth).tree()
    return Recoded(BoxRecoding(rows.columns, tree.boxes, tree), nobody)


@dataclass(frozen=True, eq=False)
class _Table:
    """What cuts are counted from. Levels of all columns lie in one line, and a bit is a run of it.

    line         (n, d) place in the line of each code
    scores       (n, scores) whole numbers
    columns      (bits,) the column of each bit
    first, end   (bits,) its run
    logs         (n + 1,) m·ln m of every m
    levels       in the line
    """

    rows: CodedRows
    bits: tuple[Bit, ...]
    line: IntArray
    scores: FloatArray
    columns: IntArray
    first: IntArray
    end: IntArray
    logs: FloatArray
    levels: int

    @classmethod
    def of(cls, rows: CodedRows, *, line: bool) -> _Table:
        from scipy.special import xlogy

        starts, bits = level_starts(rows.columns), cumulative_bits(rows.columns)
        scores = label_scores(rows) if line else np.zeros((len(rows), 0))
        columns = np.array([bit.column for bit in bits], dtype=np.int64)
        every = np.arange(len(rows) + 1)
        logs, places = np.asarray(xlogy(every, every)), rows.codes.astype(np.int64) + starts[:-1]
        runs = bit_runs(bits, rows.columns)
        return cls(rows, bits, places, scores, columns, *runs, logs, int(starts[-1]))

    def yes(self, members: IntArray, bits: IntArray) -> NDArray[np.bool_]:
        """The answers of some rows, each to a bit of its own."""
        place = self.line[members, self.columns[bits]]
        return np.asarray((place >= self.first[bits]) & (place < self.end[bits]))

    def on(self, members: IntArray, keys: IntArray, size: int, weights: Any = None) -> Any:
        """Totals (size, bits) over the rows of each key where each bit is true: of the rows, or
        of a number of theirs.
        """
        places = (keys[:, None] * self.levels + self.line[members]).ravel()
        each = None if weights is None else np.repeat(weights, self.line.shape[1])
        sums = np.bincount(places, each, minlength=size * self.levels).reshape(size, self.levels)
        before = np.zeros((size, self.levels + 1), dtype=sums.dtype)
        np.cumsum(sums, axis=1, out=before[:, 1:])
        return before[:, self.end] - before[:, self.first]


@dataclass(frozen=True, eq=False)
class _Boxes:
    """Boxes of one depth that may be cut, 0..size − 1.

    members   row numbers, those of each box together
    keys      (members,) the box of each
    """

    members: IntArray
    keys: IntArray
    size: int

    def some(self, at_once: int) -> Iterator[_Boxes]:
        """The same boxes, so many at a time, numbered anew."""
        for start in range(0, self.size, at_once):
            low, high = np.searchsorted(self.keys, [start, start + at_once])
            size = min(at_once, self.size - start)
            yield _Boxes(self.members[low:high], self.keys[low:high] - start, size)


@dataclass(frozen=True, eq=False)
class _Growth:
    table: _Table
    promise: KAnonymityGuarantee
    worth: Worth

    def tree(self) -> BoxTree:
        """From one box of all rows, depth by depth."""
        rows = self.table.rows
        nodes: list[Fork | None] = [None]
        places, boxes = np.zeros(1, dtype=np.int64), _Boxes(*_everyone(len(rows)), 1)
        while boxes.size:
            chosen = self._chosen(boxes)
            cut = chosen != _NO_CUT
            for place, bit in zip(places[cut].tolist(), chosen[cut].tolist(), strict=True):
                nodes[place] = Fork(self.table.bits[bit], no=len(nodes), yes=len(nodes) + 1)
                nodes += [None, None]
            sides = len(nodes) - 2 * int(cut.sum()) + np.arange(2 * int(cut.sum()))
            large, boxes = self._sides(boxes, chosen)
            places = sides[large]
        return BoxTree(rows.columns, tuple(nodes))

    def _sides(self, boxes: _Boxes, chosen: IntArray) -> tuple[NDArray[np.bool_], _Boxes]:
        """Which sides of the cuts have rows for another cut, and these sides."""
        cut = chosen != _NO_CUT
        inside = cut[boxes.keys]
        members, keys = boxes.members[inside], boxes.keys[inside]
        keys = 2 * (np.cumsum(cut) - 1)[keys] + self.table.yes(members, chosen[keys])
        enough = 2 * max(1, self.promise.k, self.promise.diversity)
        large = np.bincount(keys, minlength=2 * int(cut.sum())) >= enough
        members, keys = members[large[keys]], (np.cumsum(large) - 1)[keys[large[keys]]]
        order = np.argsort(keys, kind="stable")
        return large, _Boxes(members[order], keys[order], int(large.sum()))

    def _chosen(self, boxes: _Boxes) -> IntArray:
        """The bit that cuts each box, or _NO_CUT."""
        labels = len(self.table.rows.target_levels)
        if not self.table.bits:
            return np.full(boxes.size, _NO_CUT)
        at_once = max(1, MOST_CELLS_AT_ONCE // (self.table.levels * labels))
        return np.concatenate([self._best(some) for some in boxes.some(at_once)])

    def _best(self, boxes: _Boxes) -> IntArray:
        yes, no = self._counts(boxes)
        rows_yes, rows_no = yes.sum(axis=0), no.sum(axis=0)
        allowed = self._keeps(yes, rows_yes) & self._keeps(no, rows_no)
        told = np.zeros(allowed.shape)
        if self.worth.label:
            told += self._told(yes, no)
        if self.worth.line:
            told += self._parted(boxes, rows_yes, rows_no)
        best = np.where(allowed, told, -1.0).argmax(axis=1)
        each = np.arange(boxes.size)
        # What cannot be told from rounding is worth nothing.
        is_worth = told[each, best] >= _LEAST
        if self.worth.line:
            even = np.where(allowed, np.minimum(rows_yes, rows_no), -1).argmax(axis=1)
            best, is_worth = np.where(is_worth, best, even), np.ones_like(is_worth)
        return np.where(allowed[each, best] & is_worth, best, _NO_CUT)

    def _counts(self, boxes: _Boxes) -> tuple[IntArray, IntArray]:
        """Rows where each bit is true, and where it is not (labels, boxes, bits)."""
        labels = len(self.table.rows.target_levels)
        keys = self.table.rows.target[boxes.members] * boxes.size + boxes.keys
        size = labels * boxes.size
        totals = np.bincount(keys, minlength=size).reshape(labels, boxes.size, 1)
        yes = self.table.on(boxes.members, keys, size).reshape(labels, boxes.size, -1)
        return yes, totals - yes

    def _told(self, yes: IntArray, no: IntArray) -> FloatArray:
        """Nats that each cut tells of the label, its price paid, or 0 (boxes, bits)."""
        whole = self._uncertain(yes[:, :, :1] + no[:, :, :1])
        fall = whole - self._uncertain(yes) - self._uncertain(no)
        return np.maximum(0.0, fall - (len(yes) - 1))

    def _parted(self, boxes: _Boxes, yes: IntArray, no: IntArray) -> FloatArray:
        """The fall of the squares of all scores by every cut (boxes, bits)."""
        found = np.zeros(yes.shape)
        rows = np.maximum(1, np.bincount(boxes.keys, minlength=boxes.size))[:, None]
        for scores in self.table.scores.T:
            own = scores[boxes.members]
            total = np.bincount(boxes.keys, own, minlength=boxes.size)[:, None]
            on = self.table.on(boxes.members, boxes.keys, boxes.size, own)
            # n₁·n₂/n times the squared difference of the two means.
            apart = on * rows - total * yes
            found += apart**2 / (np.maximum(1, yes * no) * rows)
        return found / SCORE_UNIT**2

    def _keeps(self, counts: IntArray, rows: IntArray) -> NDArray[np.bool_]:
        """Whether there are rows, and they keep the promise (boxes, bits)."""
        enough = rows >= max(1, self.promise.k)
        if self.promise.diversity > 1:
            enough &= (counts > 0).sum(axis=0) >= self.promise.diversity
        return np.asarray(enough)

    def _uncertain(self, counts: IntArray) -> FloatArray:
        """n·H(label | side) in nats (boxes, bits), of counts (labels, boxes, bits)."""
        logs = self.table.logs
        return np.asarray(logs[counts.sum(axis=0)] - logs[counts].sum(axis=0))


_LEAST = 1e-9
"""Nats."""


def _everyone(rows: int) -> tuple[IntArray, IntArray]:
    return np.arange(rows), np.zeros(rows, dtype=np.int64)
