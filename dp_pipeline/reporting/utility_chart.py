"""Utility over ε: one line a model, of one metric or of several beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dp_pipeline.reporting.line_names import name_lines
from dp_pipeline.reporting.metric import metric_named
from dp_pipeline.reporting.panels import new_panels
from dp_pipeline.reporting.picture import (
    INK,
    WIDTH,
    new_figure,
    plain,
    png,
    say_nothing_to_show,
    set_footnote,
    set_title,
)
from dp_pipeline.reporting.rows import Pivot, QualityRow, pivot
from dp_pipeline.reporting.utility_lines import draw_lines, drawn_rows, footnote, is_drawn_log

_EPSILON = "ε of the release (log scale; smaller protects more)"

_LINE, _AROUND = 0.19, 1.1
"""Inches from one name to the next, and above and below the axes."""

_PANEL = 2.0
"""Inches of one of several pairs of axes."""


def utility_plot(rows: Sequence[QualityRow], *, metric: str, title: str) -> bytes:
    """PNG of ``metric`` over ε, both axes labelled, every line named at its end.

    Several numbers of one model and ε (replicates) are all marked; the line joins their means.
    """
    table = pivot(_finite(rows), metric)
    height = max(3.5, _AROUND + 1.4 * _LINE * len(table.models))
    figure = new_figure(WIDTH, height)
    axes = figure.add_subplot()
    set_title(figure, title)
    if not table.models:
        say_nothing_to_show(axes, "no numbers yet")
        return png(figure)
    draw_lines(axes, table, table.models)
    axes.set_xlabel(_EPSILON)
    axes.set_ylabel(_value_label(table))
    name_lines(axes, table, gap=_LINE / (height - _AROUND))
    set_footnote(figure, footnote(drawn_rows(table)))
    return png(figure)


def utility_panels(rows: Sequence[QualityRow], *, metrics: Sequence[str], title: str) -> bytes:
    """PNG of several metrics over ε, a panel each, two beside each other; a model has the same
    colour and marker in all of them.
    """
    tables = [table for table in (pivot(_finite(rows), one) for one in metrics) if table.models]
    models = sorted({model for table in tables for model in table.models})
    figure, panels = new_panels(len(tables), inches=_PANEL, title=title, names=models)
    for panel, table in zip(panels, tables, strict=True):
        draw_lines(panel, table, models)
        panel.tick_params(labelsize=7.5)
        panel.set_title(_heading(table), loc="left", fontsize=9, color=INK, pad=6)
    drawn = [row for table in tables for row in drawn_rows(table)]
    if drawn:
        set_footnote(figure, f"Across: {_EPSILON}.\n{footnote(drawn)}")
    return png(figure)


def _finite(rows: Sequence[QualityRow]) -> list[QualityRow]:
    return [row for row in rows if math.isfinite(row.value)]


def _value_label(table: Pivot) -> str:
    metric = metric_named(table.metric)
    scale = ", log scale" if is_drawn_log(drawn_rows(table)) else ""
    return f"{plain(metric.short)} ({plain(table.unit)})\n{metric.better}{scale}"


def _heading(table: Pivot) -> str:
    scale = ", log scale" if is_drawn_log(drawn_rows(table)) else ""
    return plain(metric_named(table.metric).short, width=26) + scale
