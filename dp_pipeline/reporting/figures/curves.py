"""Panels of quality over ε, over K and over time windows, with a line for each model or method."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.windows import Windows
from dp_pipeline.reporting.figures import picture
from dp_pipeline.reporting.figures.lines import (
    HorizontalAxis,
    Line,
    Panel,
    Point,
    VerticalAxis,
    day_of,
)
from dp_pipeline.reporting.metrics import Pivot, QualityRow, pivot, sample_words

NOISE_BARS = "Bars: ± one standard deviation of the noise in the number itself."
EXACT_OVER_K = "Exact numbers on public benchmark rows; without ε."


def utility_panels(
    rows: Sequence[QualityRow], metrics: Sequence[str], level: Literal["ε", "K"] = "ε"
) -> list[Panel]:
    """Return a panel over ε or K for each metric, in the order given, that has a finite number.

    Numbers of one model and ε (replicates) are all marked, with bars for their noise; a line joins
    their means. It is broken at a K without a finite number. A model has the same colour and marker
    in all panels, also where another one has no number.
    """
    models = sorted({row.model for row in rows if row.metric in metrics})
    finite = [row for row in rows if math.isfinite(row.value)]
    tables = [table for table in (pivot(finite, value) for value in metrics) if table.models]
    return [_over_levels(table, models, level) for table in tables]


def _over_levels(table: Pivot, models: Sequence[str], level: Literal["ε", "K"]) -> Panel:
    lines = []
    for model in table.models:
        points = []
        for value in table.levels:
            cell = table.cells.get((model, value), ())
            points += [Point(float(value), r.value, r.deviation or r.error or 0.0) for r in cell]
            if not cell and level == "K":
                points.append(Point(float(value), math.nan))
        lines.append(Line(model, models.index(model), points))
    ticks = {float(value): epsilon_text(value) for value in table.levels}
    if level == "K":
        ticks |= {0.0: "all bits"} if 0.0 in ticks else {}
        x_axis = HorizontalAxis("K: rows of every class, at least", "apart", ticks, symbol="K")
    else:
        label = "ε of the release (log scale; smaller protects more)"
        x_axis = HorizontalAxis(label, "log", ticks, symbol="ε")
    about, reference = table.about, table.about.reference
    y_axis = VerticalAxis(
        picture.shorten_label(about.short, width=26),
        # Over ε from 0, or from the value of a method without privacy.
        floor=None if level == "K" else reference or 0.0,
        references=() if reference is None else ((reference, "without privacy"),),
        reading=picture.shorten_label(f"{table.unit}; {about.better}"),
    )
    return Panel(lines, x_axis, y_axis)


def utility_footnote(rows: Sequence[QualityRow]) -> str:
    """Return a footnote that says whether numbers are exact, and what their error bars mean."""
    noisy = [row for row in rows if row.scale is not None]
    if not noisy:
        return f"Exact numbers on public benchmark rows. {sample_words(rows)}".rstrip()
    if len(noisy) == len(rows):
        return NOISE_BARS
    return f"{NOISE_BARS} No bar: an exact number on public rows."


OverWindows = Mapping[str, Sequence[tuple[str, float, float]]]
"""Model → (time window, number, deviation of its noise: 0 if it is exact)."""


def window_panel(values: OverWindows, windows: Windows, y_axis: VerticalAxis) -> Panel:
    """Return the panel of numbers, each at the first day of its window; a line for each model."""
    names = {window for numbers in values.values() for window, _, _ in numbers}
    ticks = {first_day(windows, name): name for name in sorted(names, key=windows.start)}
    lines = []
    for place, (model, numbers) in enumerate(values.items()):
        points = [Point(first_day(windows, window), *number) for window, *number in numbers]
        lines.append(Line(model, place, points))
    return Panel(lines, window_axis(windows, ticks), y_axis)


def window_axis(
    windows: Windows, ticks: Mapping[float, str], *, last: float | None = None
) -> HorizontalAxis:
    """Return the horizontal axis of a chart over time windows, with a margin at both ends.

    ticks   first day of a window, in days since 1970 → its name
    last    end of the axis; None: the last first day
    """
    first, end = min(ticks, default=0.0), max(ticks, default=0.0) if last is None else last
    margin = max(end - first, 1.0) * 0.03
    label = f"{windows.every}, by its first day ({windows.clock.zone})"
    return HorizontalAxis(label, "time", ticks, span=(first - margin, end + margin))


def first_day(windows: Windows, name: str) -> float:
    """Return the beginning of a time window, by the clock of its zone, in days since 1970."""
    return day_of(windows.clock.wall_time(windows.start(name)))
