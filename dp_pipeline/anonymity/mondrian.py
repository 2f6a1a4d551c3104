"""Mondrian: boxes are cut where they are widest, in the middle, without a look at the label.

Tree: boxes are cut where it tells most about the label, as by a classification tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.boxes import fill_gaps
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.anonymity.growth import Cuts, cut_into_boxes, level_starts
from dp_pipeline.anonymity.method import Recoding
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.parameters import integer


@dataclass(frozen=True)
class Mondrian:
    """Strict multidimensional partitioning (Mondrian): boxes are cut while both sides can keep the
    guarantee.

    So no box of the result can be cut by any threshold or level.

    The column is the widest that has an allowed cut. Width is the share of a column's levels that
    the rows of the box span: for an ordered column from their lowest value to their highest,
    missing values counting as one level more; for others, the levels that they have. The cut is
    the one nearest to halves, of this column or of one equally wide; that is the median wherever
    the guarantee allows it. In a tie, the first.

    An ordered column is cut by a threshold: missing values go with the lower side, and can be cut
    off alone. Other columns have no order to cut along: one level goes against all others of the
    box, and the rest is released as a set of levels.

    The label is read where the guarantee asks for diversity, and for nothing else.

    Source: LeFevre, DeWitt, Ramakrishnan, "Mondrian multidimensional k-anonymity" (ICDE 2006).
    The rule for columns without an order is ours, as they presume a hierarchy for them; so is
    the choice between equally wide columns, without which the first declared would count most.
    """

    summary: ClassVar[str] = "boxes cut in halves along their widest column, without the label"

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:  # noqa: ARG002
        """Return the recoding by the boxes, with the tree of their cuts."""

        def most_even_of_widest(cuts: Cuts) -> IntArray:
            is_present = np.asarray(cuts.levels.any(axis=0))
            widths = spanned_shares(is_present, rows.columns)[:, cuts.line.columns]
            widest = np.where(cuts.allowed, widths, -1.0).max(axis=1, keepdims=True)
            return cuts.best(cuts.evenness, widths == widest)

        return cut_into_boxes(rows, guarantee, most_even_of_widest)


def spanned_shares(is_present: NDArray[np.bool_], columns: tuple[Column, ...]) -> FloatArray:
    """Return the share of each column's levels that the rows of a box span (boxes, d); 0 for one
    level.

    is_present   whether the box has rows on each level, column after column (boxes, levels)
    """
    starts = level_starts(columns)
    shares = np.zeros((len(is_present), len(columns)))
    for i, column in enumerate(columns):
        spanned = fill_gaps(is_present[:, starts[i] : starts[i + 1]], column)
        shares[:, i] = (spanned.sum(axis=1) - 1) / max(1, column.size - 1)
    return shares


@dataclass(frozen=True)
class Tree:
    """A classification tree over cumulative bits whose leaves keep the guarantee.

    A row is released as the box of its leaf.

    least   rows that a leaf has, where K is less

    Each box is cut by the bit that most lowers Gini impurity among those whose both sides keep
    the guarantee and have ``least`` rows, the first of equal ones. Where no cut makes a box purer,
    it is cut nearest to halves: the boxes are as fine as they may be, and no guarantee about labels
    needs pruning afterwards.

    Source: Breiman, Friedman, Olshen, Stone, "Classification and regression trees" (1984).
    """

    summary: ClassVar[str] = "leaves of a classification tree with at least K rows each"

    least: int = integer(25, at_least=1, at_most=10**6, measuring=True)

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:  # noqa: ARG002
        """Return the recoding by the leaves, with the tree of their cuts."""
        return cut_into_boxes(rows, guarantee, _purest, least=self.least)


def _purest(cuts: Cuts) -> IntArray:
    """Return the cut of each box with the purest sides, or the most even one if no cut makes it
    purer."""
    purity = _purity(cuts.yes) + _purity(cuts.no)
    best = cuts.best(purity)
    # A gain within rounding is none.
    of_box = _purity(cuts.box_counts)[:, 0] * (1 + 1e-12)
    is_purer = purity[np.arange(len(best)), best] > of_box
    return np.where(is_purer, best, cuts.best(cuts.evenness))


def _purity(counts: IntArray) -> FloatArray:
    """Return the purity Σ_y n_y² / n of every count in rows (boxes, bits)."""
    return np.asarray((counts**2).sum(axis=0) / np.maximum(1, counts.sum(axis=0)))
