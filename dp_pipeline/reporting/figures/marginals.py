"""Small multiples of released one-way marginals: one panel an attribute, one line a level."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_pipeline.config.encoding import FloatArray
from dp_pipeline.reporting.figures import picture
from dp_pipeline.reporting.figures.picture import Picture, list_first

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LEVELS = 10
"""Levels of one panel that have room for their names."""

_HEIGHT = 1.7
"""Inches of one panel."""

MOST_PANELS = 12
"""Attributes of one picture; a table with more has several pictures."""

_APART = 0.6
"""Distance of the dots of the first and the last release, in distances of two levels."""

Marginals = Mapping[str, np.ndarray]


def attributes_of(tables: Mapping[str, Marginals]) -> list[str]:
    """Return every attribute of some releases once, in the order in which they first occur.

    tables   release → ``SyntheticTable.tables()["marginals"]``
    """
    columns = (marginals["attribute"].tolist() for marginals in tables.values())
    return list(dict.fromkeys(chain.from_iterable(columns)))


def marginal_bars(
    tables: Mapping[str, Marginals], *, first: int = 0, title: str, items: str = "rows"
) -> Picture:
    """Return the picture of one-way marginals of up to ``MOST_PANELS`` attributes, a panel each:
    bars for one release, dots for several.

    tables   release → ``SyntheticTable.tables()["marginals"]``: attribute, level, probability; and
             ``error``, half the width of an interval, where it is known
    first    position of the first attribute that is shown
    items    what the shares are of, in words

    An attribute with many levels shows the most frequent; with many ordered levels it shows all,
    and names some."""
    attributes = attributes_of(tables)
    shown_names = attributes[first : first + MOST_PANELS]
    names = list(tables) if len(tables) > 1 else []
    figure, panels = picture.new_panels(len(shown_names), inches=_HEIGHT, title=title, names=names)
    largest_shares = []
    for panel, name in zip(panels, shown_names, strict=True):
        releases = tables.values()
        errors = [_shares(marginals, name, "error") for marginals in releases]
        shares = [_shares(marginals, name) for marginals in releases]
        _draw(panel, name, shares, errors)
        by_level = next(filter(None, shares))
        level = max(by_level, key=by_level.__getitem__)
        largest_shares.append(f"{name}: most often {level}, {100 * by_level[level]:.3g} %")
    footnote = f"Share of the released {items}."
    if len(shown_names) < len(attributes):
        footnote += f" Attributes {first + 1} to {first + len(shown_names)} of {len(attributes)}."
    if any("error" in marginals for marginals in tables.values()):
        footnote += " Thin lines hold the true share 95 times in 100."
    picture.set_footnote(figure, footnote)
    source = f"of {len(tables)} releases" if len(tables) > 1 else f"of the released {items}"
    return Picture(title, figure, f"Shares of levels {source}. {list_first(largest_shares)}")


def _shares(marginals: Marginals, name: str, column: str = "probability") -> dict[str, float]:
    if column not in marginals:
        return {}
    here = marginals["attribute"] == name
    levels, shares = marginals["level"][here], marginals[column][here]
    return dict(zip(levels.tolist(), shares.tolist(), strict=True))


def _draw(
    axes: Axes,
    name: str,
    releases: Sequence[Mapping[str, float]],
    errors: Sequence[Mapping[str, float]],
) -> None:
    levels = list(next(shares for shares in releases if shares))
    values = np.array([[shares.get(level, np.nan) for level in levels] for shares in releases])
    selected_levels = _select_levels(levels, values)
    heading = picture.shorten_label(name, width=24)
    if len(selected_levels) < len(levels):
        heading = f"{picture.shorten_label(name, width=18)}, top {len(selected_levels)}"
    ticks = range(0, len(selected_levels), math.ceil(len(selected_levels) / MOST_LEVELS) or 1)
    bars = values[0, selected_levels] if len(releases) == 1 else None
    draw_shares(axes, heading, [levels[level] for level in selected_levels], bars=bars, ticks=ticks)
    if bars is None:
        style: dict[str, Any] = {"markersize": 3.6, "markeredgewidth": 0, "clip_on": False}
        selected, steps = values[:, selected_levels], _steps(len(releases))
        for release, (shares, step) in enumerate(zip(selected, steps, strict=True)):
            marker = picture.MARKERS[release % len(picture.MARKERS)]
            style["color"] = picture.COLOURS[release % len(picture.COLOURS)]
            axes.plot(shares, np.arange(len(shares)) + step, marker, **style)
    reaches = np.array([[error.get(level, 0.0) for level in levels] for error in errors])
    values, reaches = values[:, selected_levels], reaches[:, selected_levels]
    if not reaches.any():
        return
    # Intervals are thin lines; the axis ends where long ones go beyond.
    highs = np.nan_to_num(np.minimum(1.0, values + reaches))
    axis_end = min(float(highs.max(initial=0.0)), 1.5 * float(np.nanmax(values, initial=0.0)))
    for shares, reach, step in zip(values, reaches, _steps(len(values)), strict=True):
        low, high = np.maximum(0.0, shares - reach), np.minimum(1.0, shares + reach)
        axes.hlines(np.arange(len(shares)) + step, low, high, color=picture.INK, linewidth=0.7)
    if axis_end:
        axes.set_xlim(0, 1.03 * axis_end)


def draw_shares(
    axes: Axes,
    heading: str,
    labels: Sequence[str],
    *,
    bars: FloatArray | None,
    ticks: Sequence[int],
) -> None:
    """Prepare axes for one attribute's shares, with a row for each level, and draw bars of them.

    labels   names of the levels
    bars     (levels,) shares, in 0..1; None: no bars
    ticks    positions of the levels that are named
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if bars is not None:
        style: dict[str, Any] = {"color": picture.COLOURS[0], "label": "synthetic"}
        axes.barh(range(len(labels)), bars, height=0.78, **style)
    axes.set_yticks(ticks, [picture.shorten_label(labels[level], width=19) for level in ticks])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlim(left=0)
    title = picture.shorten_label(heading, width=30)
    axes.set_title(title, loc="left", fontsize=9, color=picture.INK, pad=5)
    picture.style_frame(axes)
    axes.tick_params(axis="both", labelsize=7.5)
    axes.tick_params(axis="y", length=0, labelcolor=picture.INK)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g}%"))
    axes.grid(axis="x", color=picture.RULE, linewidth=0.6)
    axes.spines["left"].set_visible(False)


def _select_levels(levels: Sequence[str], values: FloatArray) -> np.ndarray:
    if len(levels) <= MOST_LEVELS or has_order(levels):
        return np.arange(len(levels))
    return np.argsort(-np.nanmean(values, axis=0), kind="stable")[:MOST_LEVELS]


_UNORDERED = 2
"""Levels outside the order: a missing value, and all other texts."""

_IN_ORDER = re.compile(r"\[|[-+]?\d")
"""The beginning of a bin, a number or a date."""


def has_order(levels: Sequence[str]) -> bool:
    """Return whether levels are bins, numbers or dates, apart from at most two others, which must
    be fewer than half.

    >>> has_order(["[0, 5)", "[5, 9]", "missing"]), has_order(["1", "2"]), has_order(["red", "1"])
    (True, True, False)
    """
    apart = sum(_IN_ORDER.match(level) is None for level in levels)
    return apart <= min(_UNORDERED, (len(levels) - 1) // 2)


def _steps(releases: int) -> FloatArray:
    return np.linspace(-_APART / 2, _APART / 2, releases) if releases > 1 else np.zeros(1)
