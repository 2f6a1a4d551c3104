"""Utility over ε or over K: one line a model or method, of one metric or of several beside each
other. Bars are the noise of numbers from a private evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dp_pipeline.reporting.figures.lines import Across, Line, Point, Up, draw_lines, line_chart
from dp_pipeline.reporting.figures.picture import INK, new_panels, plain, png, set_footnote
from dp_pipeline.reporting.metrics import FIGURES, Pivot, QualityRow, metric_named, pivot
from dp_pipeline.spec.amounts import epsilon_text

_EPSILON = "ε of the release (log scale; smaller protects more)"

_PANEL = 2.0
"""Inches of one of several pairs of axes."""


def utility_plot(rows: Sequence[QualityRow], *, metric: str, title: str) -> bytes:
    """PNG of ``metric`` over ε, both axes labelled, every line named at its end.

    Several numbers of one model and ε (replicates) are all marked; the line joins their means.
    """
    table, about = pivot(_finite(rows), metric), metric_named(metric)
    label = f"{plain(about.short)} ({plain(table.unit)})\n{about.better}"
    return line_chart(
        _lines(table, table.models),
        across=_over_epsilon(table),
        up=_up(table, label),
        title=title,
        footnote=_footnote(table.rows),
    )


def utility_panels(rows: Sequence[QualityRow], *, metrics: Sequence[str], title: str) -> bytes:
    """PNG of several metrics over ε, a panel each, two beside each other; a model has the same
    colour and marker in all of them.
    """
    tables = [table for table in (pivot(_finite(rows), one) for one in metrics) if table.models]
    models = sorted({model for table in tables for model in table.models})
    figure, panels = new_panels(len(tables), inches=_PANEL, title=title, names=models)
    for panel, table in zip(panels, tables, strict=True):
        lines = _lines(table, models)
        up = _up(table, plain(table.about.short, width=26))
        draw_lines(panel, lines, _over_epsilon(table), up)
        panel.tick_params(labelsize=7.5)
        panel.set_title(up.heading(lines), loc="left", fontsize=9, color=INK, pad=6)
    drawn = [row for table in tables for row in table.rows]
    if drawn:
        set_footnote(figure, f"Across: {_EPSILON}.\n{_footnote(drawn)}")
    return png(figure)


OverK = Mapping[str, Mapping[int, float]]
"""Method → K → value."""


def k_anonymity_plot(values: OverK, *, figure: str, title: str) -> bytes:
    """PNG of one of the ``FIGURES`` over K, both axes labelled, every line named at its end.

    Colour and marker are those of the method's place among all methods given, those without a
    finite value too: the same in every picture of the same methods. Where one K has no finite
    value a line is broken.
    """
    about = FIGURES[figure]
    numbers = {
        method: {k: one for k, one in points.items() if math.isfinite(one)}
        for method, points in values.items()
    }
    ks = sorted({k for points in numbers.values() for k in points})
    lines = [
        Line(method, place, [Point(k, points.get(k, math.nan)) for k in ks])
        for place, (method, points) in enumerate(numbers.items())
    ]
    ticks: dict[float, str] = {k: str(k) if k else "all bits" for k in ks}
    return line_chart(
        lines,
        across=Across("K: rows of every class, at least", "apart", ticks),
        up=Up(f"{about.short} ({about.unit})\n{about.better}"),
        title=title,
        footnote="Exact numbers on public benchmark rows; without ε.",
    )


def _finite(rows: Sequence[QualityRow]) -> list[QualityRow]:
    return [row for row in rows if math.isfinite(row.value)]


def _over_epsilon(table: Pivot) -> Across:
    return Across(_EPSILON, "log", {float(one): epsilon_text(one) for one in table.epsilons})


def _lines(table: Pivot, models: Sequence[str]) -> list[Line]:
    """One line a model that the table has.

    models   those of the whole picture: the place in it decides colour and marker
    """
    points = {
        model: [
            Point(float(epsilon), row.value, row.deviation or 0.0)
            for epsilon in table.epsilons
            for row in table.cells.get((model, epsilon), ())
        ]
        for model in table.models
    }
    return [
        Line(model, place, points[model]) for place, model in enumerate(models) if model in points
    ]


def _up(table: Pivot, label: str) -> Up:
    """From 0, or from the value of a method without privacy."""
    reference = table.about.reference
    if reference is None:
        return Up(label, floor=0.0)
    return Up(label, floor=reference, references=((reference, "without privacy"),))


def _footnote(rows: Sequence[QualityRow]) -> str:
    """Where the numbers come from, and what their bars are."""
    noisy = [row for row in rows if row.scale is not None]
    if not noisy:
        return "Exact numbers on public benchmark rows."
    bars = "Bars: ± one standard deviation of the noise in the number itself."
    return bars if len(noisy) == len(rows) else f"{bars} No bar: an exact number on public rows."
