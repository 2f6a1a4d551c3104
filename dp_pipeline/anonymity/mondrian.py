"""Mondrian: boxes are cut where they are widest, in the middle, without a look at the label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.bit import cumulative_bits
from dp_pipeline.anonymity.box_growth import Cuts, boxed, level_starts
from dp_pipeline.anonymity.coded_rows import CodedRows, Column
from dp_pipeline.anonymity.method import Anonymized
from dp_pipeline.anonymity.promise import Promise


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

    def recode(self, rows: CodedRows, promise: Promise, *, seed: int) -> Anonymized:  # noqa: ARG002
        """The boxes, and how they were cut."""
        bits, starts = cumulative_bits(rows.columns), level_starts(rows.columns)
        column_of = np.array([bit.column for bit in bits], dtype=np.int64)

        def most_even_of_widest(cuts: Cuts) -> int:
            present = np.split(cuts.levels.any(axis=1), starts[1:-1])
            pairs = zip(rows.columns, present, strict=True)
            widths = np.array([_width(column, levels) for column, levels in pairs])[column_of]
            widest = cuts.allowed & (widths == widths[cuts.allowed].max())
            return int(np.argmax(np.where(widest, cuts.evenness, -1)))

        return boxed(rows, promise, most_even_of_widest)


def _width(column: Column, present: NDArray[np.bool_]) -> float:
    """Share of the column's levels that are spanned, 0 where the rows have one level."""
    if not column.ordered:
        spanned = int(present.sum())
    else:
        found = np.flatnonzero(present[: column.values])
        of_values = int(found[-1] - found[0]) + 1 if len(found) else 0
        spanned = of_values + int(present[column.values :].sum())
    return (spanned - 1) / max(1, column.size - 1)
