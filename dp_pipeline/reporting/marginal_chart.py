"""Small multiples of noisy one-way marginals: one panel an attribute, one bar a level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dp_pipeline.reporting.picture import (
    COLOURS,
    INK,
    MUTED,
    RULE,
    WIDTH,
    new_figure,
    plain,
    png,
    quiet,
    say_nothing_to_show,
    set_footnote,
    set_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LEVELS = 10
"""Bars of one panel that have room for their names."""

_BELOW_ZERO = "#b9c2cb"


def marginal_bars(marginals_table: Mapping[str, np.ndarray], *, most: int = 6, title: str) -> bytes:
    """PNG of the noisy one-way marginals of the first ``most`` attributes.

    marginals_table   ``ProductTable.tables()["marginals"]``: attribute, level, noisy_count

    An attribute with many levels shows its largest; one with many bins shows all, and
    names some. Bars below zero are noise and are drawn grey.
    """
    every = list(dict.fromkeys(marginals_table["attribute"].tolist()))
    shown = every[: max(1, most)]
    across = min(2, max(1, len(shown)))
    down = max(1, math.ceil(len(shown) / across))
    figure = new_figure(WIDTH, 0.9 + 1.7 * down)
    set_title(figure, title)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    for panel, name in zip(panels, shown, strict=False):
        here = marginals_table["attribute"] == name
        levels = marginals_table["level"][here].tolist()
        _draw(panel, name, levels, marginals_table["noisy_count"][here].astype(np.float64))
    if not shown:
        say_nothing_to_show(panels[0], "no attributes")
    set_footnote(figure, _footnote(len(shown), len(every)))
    return png(figure)


def _draw(axes: Axes, name: str, levels: Sequence[str], counts: np.ndarray) -> None:
    is_binned = all(level.startswith("[") for level in levels)
    kept = np.arange(len(levels))
    if len(levels) > MOST_LEVELS and not is_binned:
        kept = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    places = np.arange(len(kept))
    colours = np.where(counts[kept] < 0, _BELOW_ZERO, COLOURS[0]).tolist()
    axes.barh(places, counts[kept], height=0.78, color=colours)
    named = places[:: math.ceil(len(kept) / MOST_LEVELS)]
    labels = [plain(levels[kept[place]], width=19) for place in named]
    axes.set_yticks(named, labels)
    axes.invert_yaxis()
    axes.margins(y=0.02)
    heading = plain(name, width=28)
    if len(kept) < len(levels):
        heading += f", {len(kept)} largest of {len(levels)}"
    axes.set_title(heading, loc="left", fontsize=9, color=INK, pad=5)
    _quiet_panel(axes)


def _quiet_panel(axes: Axes) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    quiet(axes)
    axes.tick_params(axis="both", labelsize=7.5)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(axis="x", color=RULE, linewidth=0.6)
    axes.axvline(0.0, color=MUTED, linewidth=0.8)
    axes.spines["left"].set_visible(False)


def _footnote(shown: int, every: int) -> str:
    text = "Noisy numbers of rows; grey bars are below zero, which is noise."
    return text if shown == every else f"{text} First {shown} of {every} attributes."
