"""Panels of quality over ε, over K and over time windows, with a line for each model or method."""

import math
from collections.abc import Mapping, Sequence

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
from dp_pipeline.reporting.metrics import FIGURES, Metric, Pivot, QualityRow, pivot, sample_words

NOISE_BARS = "Bars: ± one standard deviation of the noise in the number itself."
EXACT_OVER_K = "Exact numbers on public benchmark rows; without ε."


def utility_panels(rows: Sequence[QualityRow], metrics: Sequence[str]) -> list[Panel]:
    """Return a panel over ε for each metric, in the order given, that has a finite number.

    Numbers of one model and ε (replicates) are all marked, with bars for their noise; a line joins
    their means. A model has the same colour and marker in all panels.
    """
    finite = [row for row in rows if math.isfinite(row.value)]
    tables = [table for table in (pivot(finite, value) for value in metrics) if table.models]
    models = sorted({model for table in tables for model in table.models})
    return [_over_epsilon(table, models) for table in tables]


def _over_epsilon(table: Pivot, models: Sequence[str]) -> Panel:
    lines = []
    for model in table.models:
        rows = [row for epsilon in table.epsilons for row in table.cells.get((model, epsilon), ())]
        points = [Point(float(r.epsilon), r.value, r.deviation or r.error or 0.0) for r in rows]
        lines.append(Line(model, models.index(model), points))
    label = "ε of the release (log scale; smaller protects more)"
    ticks = {float(value): epsilon_text(value) for value in table.epsilons}
    # From 0, or from the value of a method without privacy.
    reference = table.about.reference
    references = () if reference is None else ((reference, "without privacy"),)
    y_axis = _up(table.about, table.unit, floor=reference or 0.0, references=references)
    return Panel(lines, HorizontalAxis(label, "log", ticks, symbol="ε"), y_axis)


def _up(
    about: Metric,
    unit: str,
    *,
    floor: float | None = None,
    references: Sequence[tuple[float, str]] = (),
) -> VerticalAxis:
    reading = picture.shorten_label(f"{unit}; {about.better}")
    label = picture.shorten_label(about.short, width=26)
    return VerticalAxis(label, floor=floor, references=references, reading=reading)


def utility_footnote(rows: Sequence[QualityRow]) -> str:
    """Return a footnote that says whether numbers are exact, and what their error bars mean."""
    noisy = [row for row in rows if row.scale is not None]
    if not noisy:
        return f"Exact numbers on public benchmark rows. {sample_words(rows)}".rstrip()
    if len(noisy) == len(rows):
        return NOISE_BARS
    return f"{NOISE_BARS} No bar: an exact number on public rows."


OverK = Mapping[str, Mapping[int, float]]
"""Method → K → value."""


def k_anonymity_panel(values: OverK, *, figure: str) -> Panel:
    """Return the panel over K of a figure of k-anonymous releases, with a line for each method.

    A method has the same colour and marker in every picture of the same methods, also without a
    finite value. A line is broken where a K has no finite value.

    values   method → K → value
    figure   name of the figure in ``FIGURES``
    """
    finite = (k for points in values.values() for k in points if math.isfinite(points[k]))
    ks = sorted(set(finite))
    lines = [
        Line(method, place, [Point(k, points.get(k, math.nan)) for k in ks])
        for place, (method, points) in enumerate(values.items())
    ]
    ticks: dict[float, str] = {k: str(k) if k else "all bits" for k in ks}
    x_axis = HorizontalAxis("K: rows of every class, at least", "apart", ticks, symbol="K")
    about = FIGURES[figure]
    return Panel(lines, x_axis, _up(about, about.unit or ""))


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
