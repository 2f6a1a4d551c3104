"""QualityRow: one quality number of one release, and tables of many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.release.measurement import NoisyNumber
from dp_pipeline.reporting.metric import metric_named, metric_rank
from dp_pipeline.reporting.number_text import noisy_text, number_text

MOST_METRICS = 3
"""Metric columns of one table: with model and ε that makes five."""


@dataclass(frozen=True)
class QualityRow:
    """One quality number of one release.

    epsilon   ε of the release, without that of its evaluation
    metric    one that ``reporting.metric`` knows, such as ``nicv``
    scale     scale of Laplace noise with the deviation of the number's own, when it was
              bought with ε; None for an exact number on benchmark data
    unit      of value and scale
    """

    model: str
    epsilon: Fraction
    metric: str
    value: float
    scale: float | None
    unit: str

    @classmethod
    def bought(
        cls, model: str, epsilon: Fraction, *, metric: str, number: NoisyNumber
    ) -> QualityRow:
        """The row of a number that was bought through the gate."""
        return cls(model, epsilon, metric, number.value, number.scale, number.unit)

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the noise, √2·scale; None for an exact number."""
        return None if self.scale is None else math.sqrt(2) * self.scale

    @property
    def text(self) -> str:
        """The value as a person reads it.

        >>> QualityRow("dpqt_kmeans", Fraction(1), "nicv", 12.34, 0.29, "rows").text
        '12.3 ± 0.4'
        """
        if self.deviation is None:
            return number_text(self.value)
        return noisy_text(self.value, self.deviation)


@dataclass(frozen=True)
class Pivot:
    """The rows of one metric as a table: models down, ε ascending across.

    cells   (model, ε) → its rows: none, one, or one a replicate
    """

    metric: str
    unit: str
    models: tuple[str, ...]
    epsilons: tuple[Fraction, ...]
    cells: Mapping[tuple[str, Fraction], tuple[QualityRow, ...]]

    def texts(self, model: str) -> tuple[str, ...]:
        """One text an ε; a dash where there is no number."""
        return tuple(_cell_text(self.cells.get((model, epsilon), ())) for epsilon in self.epsilons)


def sort_rows(rows: Iterable[QualityRow]) -> tuple[QualityRow, ...]:
    """By metric in reading order, then model, then ε ascending."""
    return tuple(sorted(rows, key=lambda r: (metric_rank(r.metric), r.model, r.epsilon)))


def metrics_of(rows: Iterable[QualityRow]) -> tuple[str, ...]:
    """The metrics that occur, in reading order."""
    return tuple(sorted({row.metric for row in rows}, key=metric_rank))


def pivot(rows: Iterable[QualityRow], metric: str) -> Pivot:
    """The rows of ``metric`` as models × ε; without such rows it has neither."""
    chosen = [row for row in sort_rows(rows) if row.metric == metric]
    cells: dict[tuple[str, Fraction], tuple[QualityRow, ...]] = {}
    for row in chosen:
        place = (row.model, row.epsilon)
        cells[place] = (*cells.get(place, ()), row)
    return Pivot(
        metric=metric,
        unit=metric_named(metric).unit or ", ".join(sorted({row.unit for row in chosen})),
        models=tuple(sorted({row.model for row in chosen})),
        epsilons=tuple(sorted({row.epsilon for row in chosen})),
        cells=cells,
    )


def markdown_lines(lines: Sequence[Sequence[str]]) -> str:
    """A markdown table: a head, then a line each; all columns but the first hold numbers."""
    head, *body = lines
    ruler = [":--", *("--:" for _ in head[1:])]
    written = ["| " + " | ".join(_plain(text) for text in line) + " |" for line in (head, *body)]
    written.insert(1, "| " + " | ".join(ruler) + " |")
    return "\n".join(written)


def _cell_text(rows: Sequence[QualityRow]) -> str:
    return "; ".join(row.text for row in rows) or "–"


def _plain(text: str) -> str:
    """Text that cannot end a cell or begin markup."""
    for mark, entity in (("&", "&amp;"), ("<", "&lt;"), ("|", "&#124;"), ("\n", " ")):
        text = text.replace(mark, entity)
    return text
