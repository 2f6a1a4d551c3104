"""Mondrian halves boxes where they are widest; Tree cuts them as a classification tree does."""

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

    A box is cut along the widest column that has an allowed cut. Width is the share of a column's
    levels that the rows of the box span: for an ordered column from their lowest value to their
    highest, missing values counting as one more level; for others, the levels that occur. The cut
    is the one nearest to halves, along this column or one equally wide: the median wherever the
    guarantee allows it. In a tie, the first.

    An ordered column is cut at a threshold: missing values stay on the lower side, or are cut off
    alone. In other columns one level is cut off from all others of the box, which are released as a
    set. The label is read only where the guarantee asks for diversity.

    Source: LeFevre, DeWitt, Ramakrishnan, "Mondrian multidimensional k-anonymity" (ICDE 2006). The
    cuts of columns without an order are ours, as the paper presumes a hierarchy for them; so is the
    choice between equally wide columns, where the first declared would always be cut.
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

    least   fewest rows of a leaf, where K is less

    Each box is cut by the bit that most lowers Gini impurity among those whose two sides keep the
    guarantee and have ``least`` rows, the first of equal ones. Where no cut makes a box purer, it
    is cut nearest to halves: the boxes are as fine as they may be.

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
