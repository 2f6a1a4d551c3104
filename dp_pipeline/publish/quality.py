"""Exact comparison of synthetic rows with real ones, as a QualityReport: the steward's side.

Nothing here is private, and nothing of it is published unless the real rows are a benchmark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.metrics.classification import held_out, told
from dp_pipeline.metrics.marginals import ways_of
from dp_pipeline.raw.closest_record import distance_to_closest_record, share_of_copies
from dp_pipeline.raw.comparison import estimated_distances
from dp_pipeline.reporting.quality import (
    ComparedTable,
    LearnedLabel,
    Likeness,
    QualityReport,
    worst_first,
)
from dp_pipeline.spec.domain import Attribute, Domain
from dp_pipeline.spec.encoding import Bins, FloatArray, Names
from dp_pipeline.spec.errors import DeclarationError, one_of

Codes = Mapping[str, NDArray[Any]]
"""Attribute → codes (rows,), whole numbers below the attribute's size."""

MOST_LEVELS = 20
"""Levels of a column that classifiers tell: they learn once a level."""


@dataclass(frozen=True)
class Comparison:
    """Two tables over the same attributes.

    real, synthetic   codes of every attribute of the domain
    """

    domain: Domain
    real: Codes
    synthetic: Codes

    def report(self, *, label: str | None = None) -> QualityReport:
        """Everything that is known of both.

        label   an attribute that classifiers learn to tell from the others; None for none

        DeclarationError for a label that is not among the attributes or has more than
        ``MOST_LEVELS`` cells.
        """
        learned = () if label is None else (self.learned(label),)
        copies, twins = share_of_copies(self.real, self.synthetic)
        return QualityReport(
            rows=_rows(self.synthetic),
            real=_rows(self.real),
            compared=self.compared(),
            learned=learned,
            likeness=Likeness(copies, twins, distance_to_closest_record(self.real, self.synthetic)),
        )

    def compared(self) -> tuple[ComparedTable, ...]:
        """Every column and every pair, the worst first; of very many pairs a sample that the names
        decide.
        """
        names = tuple(self.real)
        ways = [*((name,) for name in names), *ways_of(names, 2)]
        sizes = {name: self.domain[name].size for name in names}
        each: Mapping[str, Sequence[Names]] = {str(at): [way] for at, way in enumerate(ways)}
        found = estimated_distances(self.real, self.synthetic, sizes, each)
        moved = self._correlations()
        return worst_first(
            ComparedTable(way, one.value, one.error, moved.get(way))
            for way, one in zip(ways, found.values(), strict=True)
        )

    def learned(self, label: str) -> LearnedLabel:
        """What logistic regression tells of one attribute: learned from the synthetic rows, and
        from four fifths of the real ones; both tested on the other fifth, which a seed decides.
        """
        names = tuple(self.real)
        if label not in names:
            raise DeclarationError(f"label: expected {one_of(names, label)}")
        sizes = {name: self.domain[name].size for name in names}
        if not 2 <= sizes[label] <= MOST_LEVELS:
            raise DeclarationError(
                f"label: expected a column of 2 to {MOST_LEVELS} cells, got {label!r:.60} "
                f"with {sizes[label]}"
            )
        own, tested = (
            {name: codes[rows] for name, codes in self.real.items()}
            for rows in held_out(_rows(self.real), seed=0)
        )
        accuracy, auc = told("logistic", self.synthetic, tested, label, sizes)
        real_accuracy, real_auc = told("logistic", own, tested, label, sizes)
        most = np.bincount(own[label], minlength=1).argmax()
        majority = float((tested[label] == most).mean()) if len(tested[label]) else float("nan")
        return LearnedLabel(label, accuracy, auc, real_accuracy, real_auc, majority)

    def _correlations(self) -> dict[Names, float]:
        """Pair of numbers → synthetic correlation less the real one, of the middles of their bins;
        none where one of them is constant.
        """
        numbers = [name for name in self.real if isinstance(self.domain[name].cells, Bins)]
        if len(numbers) < 2:
            return {}
        real, synthetic = (
            _correlations({name: _middles(self.domain[name], table[name]) for name in numbers})
            for table in (self.real, self.synthetic)
        )
        moved = synthetic - real
        pairs = combinations(range(len(numbers)), 2)
        return {
            (numbers[a], numbers[b]): float(moved[a, b])
            for a, b in pairs
            if np.isfinite(moved[a, b])
        }


def _rows(table: Codes) -> int:
    return len(next(iter(table.values())))


def _correlations(columns: Mapping[str, FloatArray]) -> FloatArray:
    """Pearson's, of the rows in which neither number is missing."""
    import pandas as pd

    return np.asarray(pd.DataFrame(columns).corr())


def _middles(attribute: Attribute, codes: NDArray[Any]) -> FloatArray:
    """The middle of the bin of every row; NaN where it is missing."""
    assert isinstance(attribute.cells, Bins)
    edges = np.asarray(attribute.cells.edges, dtype=np.float64)
    middles = np.append((edges[:-1] + edges[1:]) / 2, np.nan)
    return np.asarray(middles[codes])
