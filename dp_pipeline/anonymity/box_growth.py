"""Growing a tree of boxes: the cuts that one box could have, and the loop that makes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.bit import Bit, cumulative_bits
from dp_pipeline.anonymity.box_recoding import BoxRecoding
from dp_pipeline.anonymity.box_tree import BoxTree, Fork
from dp_pipeline.anonymity.coded_rows import CodedRows, Column
from dp_pipeline.anonymity.method import Anonymized
from dp_pipeline.anonymity.promise import Promise
from dp_pipeline.anonymity.unchanged import Unchanged
from dp_pipeline.schema.encoding import IntArray


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


def grow(rows: CodedRows, promise: Promise, choose: Choose) -> BoxTree:
    """Cut the box of all rows, and its sides, until no cut is allowed.

    It depends on how many rows there are of each kind, not on their order.
    """
    counter = _CutCounter.of(rows, promise)
    nodes: list[Fork | None] = [None]
    waiting = deque([(0, np.arange(len(rows)))])
    while waiting:
        place, members = waiting.popleft()
        cuts = counter.cuts(members)
        if not cuts.allowed.any():
            continue
        bit = counter.bits[choose(cuts)]
        yes = bit.of(rows.codes[members], rows.columns)
        nodes[place] = Fork(bit, no=len(nodes), yes=len(nodes) + 1)
        waiting += [(len(nodes), members[~yes]), (len(nodes) + 1, members[yes])]
        nodes += [None, None]
    return BoxTree(rows.columns, tuple(nodes))


def boxed(rows: CodedRows, promise: Promise, choose: Choose, *, least: int = 1) -> Anonymized:
    """The boxes of a grown tree as a recoding under which the rows keep the promise.

    least   rows of every box that was cut from another, where the promise asks for less

    A promise of nothing keeps every value. TooFewRows as ``Method.recode``.
    """
    promise.require_possible(len(rows), int(np.count_nonzero(rows.target_counts)))
    nobody = np.zeros(len(rows), dtype=np.bool_)
    if promise.is_empty:
        return Anonymized(Unchanged(rows.columns), nobody)
    tree = grow(rows, replace(promise, k=max(promise.k, least)), choose)
    return Anonymized(BoxRecoding(rows.columns, tree.boxes, tree), nobody)


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
    promise: Promise

    @classmethod
    def of(cls, rows: CodedRows, promise: Promise) -> _CutCounter:
        starts = level_starts(rows.columns)
        labels, bits = len(rows.target_levels), cumulative_bits(rows.columns)
        runs = [_run(bit, rows.columns[bit.column], starts[bit.column]) for bit in bits]
        first, end = np.array(runs, dtype=np.int64).reshape(-1, 2).T
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


def _run(bit: Bit, column: Column, start: int) -> tuple[int, int]:
    end = column.values if bit.asks == "at_least" else bit.code + 1
    return start + bit.code, start + end
