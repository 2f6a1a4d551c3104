"""Bars on a log axis, each with its number: for run times that differ by powers of ten."""

from __future__ import annotations

from collections.abc import Sequence

from dp_pipeline.reporting.number_text import number_text
from dp_pipeline.reporting.picture import (
    COLOURS,
    INK,
    new_figure,
    plain,
    png,
    quiet,
    set_footnote,
    set_title,
)


def bar_chart(bars: Sequence[tuple[str, float]], *, label: str, title: str, footnote: str) -> bytes:
    """PNG of horizontal bars (name, value > 0), the first on top; at least one."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    figure = new_figure(6.0, 1.1 + 0.26 * len(bars))
    axes = figure.add_subplot()
    set_title(figure, title)
    places = [-index for index in range(len(bars))]
    values = [value for _, value in bars]
    axes.barh(places, values, height=0.68, color=COLOURS[0])
    axes.set_yticks(places, [plain(name, width=30) for name, _ in bars])
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 3, max(values) * 3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    # Every bar has its number; ticks of a short axis would say theirs in powers of ten.
    axes.xaxis.set_minor_formatter(NullFormatter())
    for place, value in zip(places, values, strict=True):
        text = f" {number_text(value)}"
        axes.text(value, place, text, va="center", fontsize=8.5, color=INK)
    axes.set_xlabel(plain(label))
    set_footnote(figure, footnote)
    quiet(axes)
    return png(figure)
