"""Utility over ε: one line a model, of one metric or of several beside each other.

Lines of quality numbers over ε in one pair of axes; bars are the noise of bought numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dp_pipeline.reporting.figures.picture import (
    COLOURS,
    INK,
    MARKERS,
    MUTED,
    RULE,
    WIDTH,
    name_lines,
    new_figure,
    new_panels,
    plain,
    png,
    quiet,
    say_nothing_to_show,
    set_footnote,
    set_title,
)
from dp_pipeline.reporting.metrics import Metric, Pivot, QualityRow, metric_named, pivot
from dp_pipeline.reporting.text import number_text
from dp_pipeline.spec.amounts import epsilon_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOG_FROM = 8.0
"""A largest value this many times the smallest is drawn on a log axis."""

_STEP_ASIDE, _WIDEST_ASIDE = 0.03, 0.12
LINE_STYLES = ("-", "--", ":")


def draw_lines(axes: Axes, table: Pivot, models: Sequence[str]) -> None:
    """One line a model over both scales; axes without labels. The table is not empty.

    models   those of the whole picture: the place in it decides colour and marker
    """
    for index, model in enumerate(models):
        if model in table.models:
            _draw_model(axes, table, models, index)
    _scale_axes(axes, table, drawn_rows(table))
    _draw_reference(axes, metric_named(table.metric))
    quiet(axes)


def drawn_rows(table: Pivot) -> list[QualityRow]:
    """The rows of a table."""
    return [row for cell in table.cells.values() for row in cell]


def is_drawn_log(rows: Sequence[QualityRow]) -> bool:
    """Whether the values are so far apart that lines of small ones would be flat."""
    values = [row.value for row in rows]
    return min(values) > 0 and max(values) > LOG_FROM * min(values)


def _draw_model(axes: Axes, table: Pivot, models: Sequence[str], index: int) -> None:
    model, aside = models[index], _aside(table, models, index)
    colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
    cells = {e: table.cells[model, e] for e in table.epsilons if (model, e) in table.cells}
    middles = [float(np.mean([row.value for row in cell])) for cell in cells.values()]
    style = LINE_STYLES[index // len(COLOURS) % len(LINE_STYLES)]
    at = [float(epsilon) * aside for epsilon in cells]
    axes.plot(at, middles, style, color=colour, linewidth=1.8, zorder=3)
    for row in (row for cell in cells.values() for row in cell):
        axes.errorbar(
            float(row.epsilon) * aside,
            row.value,
            yerr=row.deviation,
            fmt=marker,
            color=colour,
            markersize=6,
            markeredgecolor="white",
            elinewidth=1.3,
            capsize=3,
            zorder=4,
        )


def _aside(table: Pivot, models: Sequence[str], index: int) -> float:
    """Error bars of several models would hide each other: each steps a little to the side."""
    noisy = any(row.scale is not None for cell in table.cells.values() for row in cell)
    middle = (len(models) - 1) / 2
    step = min(_STEP_ASIDE, _WIDEST_ASIDE / max(1, len(models) - 1))
    return math.exp(step * (index - middle)) if noisy else 1.0


def _scale_axes(axes: Axes, table: Pivot, rows: Sequence[QualityRow]) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, NullLocator

    at = [float(epsilon) for epsilon in table.epsilons]
    axes.set_xscale("log")
    axes.set_xlim(at[0] / 1.25, at[-1] * 1.12)
    axes.xaxis.set_major_locator(FixedLocator(at))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FixedFormatter(_tick_texts(table.epsilons)))
    is_log = is_drawn_log(rows)
    _scale_values(axes, metric_named(table.metric), rows, is_log=is_log)
    axes.yaxis.set_major_formatter(FuncFormatter(_value_text(axes, is_log=is_log)))
    axes.grid(axis="y", color=RULE, linewidth=0.7)


def _tick_texts(epsilons: Sequence[Fraction]) -> list[str]:
    """Canonical ε; one that stands close to its left neighbour moves to a second line."""
    places = [math.log(epsilon) for epsilon in epsilons]
    close = 0.07 * (places[-1] - places[0])
    texts, is_low = [epsilon_text(epsilons[0])], False
    for epsilon, (left, right) in zip(epsilons[1:], pairwise(places), strict=True):
        is_low = right - left < close and not is_low
        texts.append("\n" * is_low + epsilon_text(epsilon))
    return texts


def _scale_values(axes: Axes, metric: Metric, rows: Sequence[QualityRow], *, is_log: bool) -> None:
    """From 0, or from the value of a method without privacy; log where a line would be flat."""
    from matplotlib.ticker import LogLocator, NullLocator

    low = min(row.value - (row.deviation or 0) for row in rows)
    high = max(row.value + (row.deviation or 0) for row in rows)
    if is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(min(row.value for row in rows) / 1.3, high * 1.3)
        return
    base = min(low, 0.0 if metric.reference is None else metric.reference)
    high = max(high, base, metric.reference or 0.0)
    room = (high - base or abs(high) or 1.0) * 0.08
    starts_at_zero = metric.reference is None and low >= 0
    axes.set_ylim(base if starts_at_zero else base - room, high + room)


def _value_text(axes: Axes, *, is_log: bool) -> Callable[[float, int], str]:
    """Tick texts with the same decimals on the whole axis; powers of ten where those are many."""
    ticks = axes.get_yticks()
    step = float(ticks[1] - ticks[0]) if len(ticks) > 1 else 1.0
    if is_log or not 1e-5 <= step < 1e6:
        return lambda value, _: f"{value:,.5g}" if 1e-4 <= value < 1e6 else number_text(value)
    decimals = max(0, -math.floor(math.log10(step * 1.000001)))
    decimals += round(step * 10**decimals, 6) % 1 > 0
    return lambda value, _: f"{value:,.{decimals}f}"


def _draw_reference(axes: Axes, metric: Metric) -> None:
    if metric.reference is None:
        return
    axes.axhline(metric.reference, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
    axes.annotate(
        "without privacy",
        (0.0, metric.reference),
        xycoords=("axes fraction", "data"),
        xytext=(4, 3),
        textcoords="offset points",
        fontsize=8,
        color=MUTED,
    )


def footnote(rows: Sequence[QualityRow]) -> str:
    """Where the numbers come from, and what their bars are."""
    bought = [row for row in rows if row.scale is not None]
    if not bought:
        return "Exact numbers on public benchmark rows."
    bars = "Bars: ± one standard deviation of the noise in the number itself."
    return bars if len(bought) == len(rows) else f"{bars} No bar: an exact number on public rows."


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
