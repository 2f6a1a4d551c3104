"""Boxes cut by what each cut tells: of the label, and of straight lines through the labels.

Worth: what counts as telling. Each way to count makes boxes of its own kind.

Telling: what cuts are worth, and which one is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.growth import NO_CUT, Cuts, boxed
from dp_pipeline.anonymity.label_lines import SCORE_UNIT, LinedRows
from dp_pipeline.anonymity.method import Recoded
from dp_pipeline.config.encoding import FloatArray, IntArray

_LEAST = 1e-9
"""Nats."""


@dataclass(frozen=True)
class Worth:
    """What a cut is worth, in nats.

    label   count the fall of n·H(label | box), less (labels − 1) for the new box, Akaike's price;
            a fall that does not pay it counts as nothing
    line    count how far the cut parts the rows along straight lines through the labels: the fall
            of the squares of scores. Where a box has too few rows to show a share of a label, this
            is what all rows say of them

    Where the line counts, boxes are cut as long as the promise allows it, nearest to halves if no
    cut is worth anything: finer boxes tell a classifier more. By labels alone, they stay whole.
    """

    label: bool
    line: bool


def telling_boxes(lined: LinedRows, worth: Worth) -> Recoded:
    """Boxes under which the rows keep the promise, cut by what is worth most each time.

    It depends on how many rows there are of each kind, not on their order. Nothing is left out.
    A promise of nothing keeps every value. TooFewRows as ``Method.recode``.
    """
    return boxed(lined.rows, lined.promise, Telling(lined, worth).chosen)


@dataclass(frozen=True, eq=False)
class Telling:
    """What cuts of some rows are worth, and which of them is made."""

    lined: LinedRows
    worth: Worth

    @cached_property
    def _logs(self) -> FloatArray:
        """m·ln m of every m up to all rows (n + 1,)."""
        # Late: a plan has methods built, and none asked.
        from scipy.special import xlogy

        every = np.arange(len(self.lined.rows) + 1)
        return np.asarray(xlogy(every, every))

    def chosen(self, cuts: Cuts, some: NDArray[np.bool_] | None = None) -> IntArray:
        """The cut of most worth. Where none is worth anything, the most even one for the line's
        sake, or none.

        some   (boxes, bits) which of the allowed cuts are asked for; None: all
        """
        told = self.worth_of(cuts)
        best = cuts.best(told, some)
        # What cannot be told from rounding is worth nothing.
        is_worth = told[np.arange(len(best)), best] >= _LEAST
        even = cuts.best(cuts.evenness, some) if self.worth.line else NO_CUT
        return np.where(is_worth, best, even)

    def worth_of(self, cuts: Cuts) -> FloatArray:
        """Nats that every cut is worth (boxes, bits)."""
        told = np.zeros(cuts.allowed.shape)
        if self.worth.label:
            told += self._told(cuts)
        if self.worth.line:
            told += self._parted(cuts)
        return told

    def _told(self, cuts: Cuts) -> FloatArray:
        """Nats that each cut tells of the label, its price paid, or 0 (boxes, bits)."""
        fall = self._uncertain(cuts.whole) - self._uncertain(cuts.yes) - self._uncertain(cuts.no)
        return np.maximum(0.0, fall - (len(cuts.yes) - 1))

    def _uncertain(self, counts: IntArray) -> FloatArray:
        """n·H(label | side) in nats (boxes, bits), of counts (labels, boxes, bits)."""
        return np.asarray(self._logs[counts.sum(axis=0)] - self._logs[counts].sum(axis=0))

    def _parted(self, cuts: Cuts) -> FloatArray:
        """The fall of the squares of all scores by every cut (boxes, bits)."""
        # Floats: a product of three numbers of rows is beyond 2^63 from some million rows on.
        found, yes = np.zeros(cuts.allowed.shape), cuts.rows_yes.astype(np.float64)
        rows = np.maximum(1, cuts.whole.sum(axis=0))
        for scores in self.lined.scores.T:
            total = cuts.boxes.total(scores[cuts.boxes.members])[:, None]
            # n₁·n₂/n times the squared difference of the two means.
            apart = cuts.totals(scores) * rows - total * yes
            found += apart**2 / (np.maximum(1.0, yes * (rows - yes)) * rows)
        return found / SCORE_UNIT**2
