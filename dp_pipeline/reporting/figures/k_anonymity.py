"""Charts over K: how well classifiers learn from k-anonymous releases, and how long a choice took.

The K stand side by side, a step apart: that is nearly a log axis, and has room for 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dp_pipeline.reporting.figures.picture import (
    COLOURS,
    MARKERS,
    RULE,
    WIDTH,
    End,
    name_ends,
    new_figure,
    png,
    quiet,
    say_nothing_to_show,
    set_footnote,
    set_title,
)
from dp_pipeline.reporting.figures.utility import LINE_STYLES, LOG_FROM
from dp_pipeline.reporting.k_anonymous_promise import AnonymousRelease
from dp_pipeline.reporting.metrics import FIGURES, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OverK = Mapping[str, Mapping[int, float]]
"""Method → K → value."""

_LINE, _AROUND = 0.19, 1.1
"""Inches from one name to the next, and above and below the axes."""


_FOOTNOTE = "Exact numbers on public benchmark rows; without ε."


def figure_over_k(releases: Sequence[AnonymousRelease], name: str) -> OverK:
    """A figure of every release that has it, methods in the order of the releases."""
    found: dict[str, dict[int, float]] = {}
    for one in releases:
        if name in one.figures:
            found.setdefault(one.method, {})[one.k] = one.figures[name]
    return found


def anonymity_plot(values: OverK, *, figure: str, title: str) -> bytes:
    """PNG of one of the ``FIGURES`` over K, both axes labelled, every line named at its end.

    Colour and marker are those of the method's place among all methods given, those without a
    finite value too: the same in every picture of the same methods. Where one K has no finite
    value a line is broken.
    """
    metric, methods = FIGURES[figure], list(values)
    drawn = {method: _finite(values[method]) for method in methods}
    numbers = [value for points in drawn.values() for value in points.values()]
    height = max(3.5, _AROUND + 1.4 * _LINE * len(methods))
    picture = new_figure(WIDTH, height)
    axes = picture.add_subplot()
    set_title(picture, title)
    if not numbers:
        say_nothing_to_show(axes, "no numbers yet")
        return png(picture)
    ks = sorted({k for points in drawn.values() for k in points})
    is_log = min(numbers) > 0 and max(numbers) > LOG_FROM * min(numbers)
    _scale_k(axes, ks)
    _scale_values(axes, metric, numbers, is_log=is_log)
    for index, points in enumerate(drawn.values()):
        _draw(axes, index, [(at, points.get(k, math.nan)) for at, k in enumerate(ks)])
    quiet(axes)
    name_ends(axes, _ends(drawn, ks), gap=_LINE / (height - _AROUND))
    set_footnote(picture, _FOOTNOTE)
    return png(picture)


def _finite(values: Mapping[int, float]) -> dict[int, float]:
    return {k: value for k, value in values.items() if math.isfinite(value)}


def _draw(axes: Axes, index: int, points: Sequence[tuple[int, float]]) -> None:
    at, heights = zip(*points, strict=True)
    axes.plot(
        at,
        heights,
        LINE_STYLES[index // len(COLOURS) % len(LINE_STYLES)],
        color=COLOURS[index % len(COLOURS)],
        marker=MARKERS[index % len(MARKERS)],
        markersize=6,
        markeredgecolor="white",
        markeredgewidth=0.5,
        linewidth=1.6,
    )


def _ends(drawn: OverK, ks: Sequence[int]) -> list[End]:
    """The last point of every line that has one."""
    last = {method: max(points) for method, points in drawn.items() if points}
    return [
        End(method, place, float(ks.index(last[method])), drawn[method][last[method]])
        for place, method in enumerate(drawn)
        if method in last
    ]


def _scale_k(axes: Axes, ks: Sequence[int]) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator

    axes.set_xlim(-0.25, len(ks) - 1 + 0.15)
    axes.xaxis.set_major_locator(FixedLocator(list(range(len(ks)))))
    axes.xaxis.set_major_formatter(FixedFormatter([str(k) if k else "all bits" for k in ks]))
    axes.set_xlabel("K: rows of every class, at least")


def _scale_values(axes: Axes, metric: Metric, numbers: Sequence[float], *, is_log: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if is_log:
        is_wide = max(numbers) > 100 * min(numbers)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if is_wide else (1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.5g}"))
        axes.set_ylim(min(numbers) / 1.5, max(numbers) * 1.5)
    else:
        low, high = min(numbers), max(numbers)
        room = (high - low or abs(high) or 1.0) * 0.08
        axes.set_ylim(low - room, high + room)
    scale = ", log scale" if is_log else ""
    axes.set_ylabel(f"{metric.short} ({metric.unit})\n{metric.better}{scale}")
    axes.grid(axis="y", color=RULE, linewidth=0.7)
