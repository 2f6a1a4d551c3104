"""Tree: boxes are cut where it tells most about the label, as by a classification tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dp_pipeline.anonymity.box_growth import Cuts, boxed
from dp_pipeline.anonymity.coded_rows import CodedRows
from dp_pipeline.anonymity.method import Anonymized
from dp_pipeline.anonymity.promise import Promise
from dp_pipeline.schema.encoding import FloatArray, IntArray
from dp_pipeline.schema.parameters import integer


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

    def recode(self, rows: CodedRows, promise: Promise, *, seed: int) -> Anonymized:  # noqa: ARG002
        """The leaves, and how they were found."""
        return boxed(rows, promise, _purest, least=self.least)


def _purest(cuts: Cuts) -> int:
    """The allowed cut with the purest sides, or the most even one if none is purer than all."""
    purity = np.where(cuts.allowed, _purity(cuts.yes) + _purity(cuts.no), -np.inf)
    best = int(np.argmax(purity))
    # What cannot be told from rounding is no gain.
    if purity[best] > _purity(cuts.yes[:1] + cuts.no[:1])[0] * (1 + 1e-12):
        return best
    return int(np.argmax(np.where(cuts.allowed, cuts.evenness, -1)))


def _purity(counts: IntArray) -> FloatArray:
    """Rows less Gini impurity in rows: Σ_y n_y² / n of every count (bits, labels)."""
    return np.asarray((counts**2).sum(axis=1) / np.maximum(1, counts.sum(axis=1)))
