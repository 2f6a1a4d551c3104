"""The summary of a comparison: one line a model, a few numbers each, the best model first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_pipeline.reporting.metric import metric_named
from dp_pipeline.reporting.rows import QualityRow, markdown_lines, metrics_of, pivot
from dp_pipeline.schema.epsilon import epsilon_text

MOST_NUMBERS = 4
"""Numbers of one line: with the model that makes five columns."""


@dataclass(frozen=True)
class SummaryTable:
    """Every model at the largest ε that was evaluated.

    caption   what it shows
    head      ``model`` and the metrics that a person wants to read first
    body      one line a model, the best by the first metric first
    """

    caption: str
    head: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, rows: Sequence[QualityRow]) -> SummaryTable | None:
        """The summary of quality rows; None where there are none."""
        if not rows:
            return None
        epsilon = max(row.epsilon for row in rows)
        here = [row for row in rows if row.epsilon == epsilon]
        metrics = metrics_of(here)[:MOST_NUMBERS]
        tables = [pivot(here, metric) for metric in metrics]
        models = sorted({row.model for row in here}, key=lambda model: _rank(here, metrics, model))
        body = [(model, *(_text(table.texts(model)) for table in tables)) for model in models]
        return cls(
            caption=f"Every model at ε = {epsilon_text(epsilon)}, the best first",
            head=("model", *(metric_named(metric).short for metric in metrics)),
            body=tuple(body),
        )

    def markdown(self) -> str:
        """The table in markdown, without its caption."""
        return markdown_lines([self.head, *self.body])


def _rank(
    rows: Sequence[QualityRow], metrics: Sequence[str], model: str
) -> tuple[tuple[int, float], str]:
    """By the first metric that the model has; models that share it stand together."""
    for place, metric in enumerate(metrics):
        values = [row.value for row in rows if row.model == model and row.metric == metric]
        if values and not np.isnan(values).all():
            sign = -1 if metric_named(metric).better == "higher is better" else 1
            return (place, sign * float(np.nanmean(values))), model
    return (len(metrics), 0.0), model


def _text(texts: Sequence[str]) -> str:
    return texts[0] if texts else "–"
