"""Mondrian: boxes are cut where they are widest, in the middle, without a look at the label.

Tree: boxes are cut where it tells most about the label, as by a classification tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.boxes import level_starts
from dp_pipeline.anonymity.growth import Cuts, boxed
from dp_pipeline.anonymity.method import Recoded, cumulative_bits
from dp_pipeline.anonymity.partition import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.parameters import integer


@dataclass(frozen=True)
class Mondrian:
    """Strict multidimensional partitioning: every box is cut as long as both sides can keep the
    promise, so no box of the result can be cut by any threshold or level.

    The column is the widest that has an allowed cut. Width is the share of a column's levels that
    the rows of the box span: for an ordered column from their lowest value to their highest,
    missing values counting as one level more; for others, the levels that they have. The cut is
    the one nearest to halves, of this column or of one equally wide; that is the median wherever
    the promise allows it. In a tie, the first.

    An ordered column is cut by a threshold: missing values go with the lower side, and can be cut
    off alone. Other columns have no order to cut along: one level goes against all others of the
    box, and what is left is released as a set of levels.

    The label is read where the promise asks for diversity, and for nothing else. Nothing is left
    out, whatever the promise allows to.

    Source: LeFevre, DeWitt, Ramakrishnan, "Mondrian multidimensional k-anonymity" (ICDE 2006).
    The rule for columns without an order is ours, as they presume a hierarchy for them; so is
    the choice between equally wide columns, without which the first declared would count most.
    """

    summary: ClassVar[str] = "boxes cut in halves along their widest column, without the label"

    def recode(self, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:  # noqa: ARG002
        """The boxes, and how they were cut."""
        bits, widths_of = cumulative_bits(rows.columns), _Widths.of(rows.columns)
        column_of = np.array([bit.column for bit in bits], dtype=np.int64)

        def most_even_of_widest(cuts: Cuts) -> IntArray:
            widths = widths_of.spanned(np.asarray(cuts.levels.any(axis=0)))[:, column_of]
            widest = np.where(cuts.allowed, widths, -1.0).max(axis=1, keepdims=True)
            return cuts.best(cuts.evenness, widths == widest)

        return boxed(rows, promise, most_even_of_widest)


@dataclass(frozen=True, eq=False)
class _Widths:
    """How wide rows are in each column. Levels of all columns lie in one line.

    starts   place in the line of each column's first level (d,)
    steps    between a column's levels, at least 1 (d,)
    place    of each level of the line in its column
    alone    levels that count by themselves, without those between them and others: missing
             values, and every level of a column without an order
    """

    starts: IntArray
    steps: IntArray
    place: IntArray
    alone: NDArray[np.bool_]

    @classmethod
    def of(cls, columns: tuple[Column, ...]) -> _Widths:
        starts = level_starts(columns)
        sizes = np.diff(starts)
        place = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
        in_order = [column.values if column.ordered else 0 for column in columns]
        alone = place >= np.repeat(np.array(in_order, dtype=np.int64), sizes)
        return cls(starts[:-1], np.maximum(1, sizes - 1), place, alone)

    def spanned(self, present: NDArray[np.bool_]) -> FloatArray:
        """Share of each column's levels that the rows of a box span (boxes, d), 0 where they
        have one level; by whether each level of the line is there (boxes, levels).
        """
        between = present & ~self.alone
        first = np.minimum.reduceat(
            np.where(between, self.place, len(self.place)), self.starts, axis=1
        )
        last = np.maximum.reduceat(np.where(between, self.place, -1), self.starts, axis=1)
        counted = np.add.reduceat((present & self.alone).astype(np.int64), self.starts, axis=1)
        return np.asarray((np.maximum(0, last - first + 1) + counted - 1) / self.steps)


@dataclass(frozen=True)
class Tree:
    """A classification tree over cumulative bits whose leaves keep the promise; what is released
    of a row is the box of its leaf.

    least   rows that a leaf has, where K asks for less

    Each box is cut by the bit that most lowers Gini impurity among those whose both sides keep
    the promise and have ``least`` rows, the first of equal ones. Where no cut makes a box purer,
    it is cut nearest to halves: the boxes are as fine as they may be, and no promise about labels
    needs pruning afterwards. Missing values are on the lower side of every threshold, and can be
    cut off alone. Nothing is left out, whatever the promise allows to.

    Source: Breiman, Friedman, Olshen, Stone, "Classification and regression trees" (1984).
    """

    summary: ClassVar[str] = "leaves of a classification tree with at least K rows each"

    least: int = integer(25, at_least=1, at_most=10**6, measuring=True)

    def recode(self, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:  # noqa: ARG002
        """The leaves, and how they were found."""
        return boxed(rows, promise, _purest, least=self.least)


def _purest(cuts: Cuts) -> IntArray:
    """The cut with the purest sides, or the most even one if none is purer than all."""
    purity = _purity(cuts.yes) + _purity(cuts.no)
    best = cuts.best(purity)
    # What cannot be told from rounding is no gain.
    of_all = _purity(cuts.whole)[:, 0] * (1 + 1e-12)
    is_purer = purity[np.arange(len(best)), best] > of_all
    return np.where(is_purer, best, cuts.best(cuts.evenness))


def _purity(counts: IntArray) -> FloatArray:
    """Rows less Gini impurity in rows: Σ_y n_y² / n of every count (boxes, bits)."""
    return np.asarray((counts**2).sum(axis=0) / np.maximum(1, counts.sum(axis=0)))
