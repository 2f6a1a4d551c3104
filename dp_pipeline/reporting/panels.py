"""Small multiples: panels two beside each other, with one list of names for all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dp_pipeline.reporting.picture import (
    COLOURS,
    INK,
    MARKERS,
    WIDTH,
    new_figure,
    plain,
    say_nothing_to_show,
    set_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AROUND, _LINE = 0.9, 0.21
"""Inches for title and footnote, and of one line of names."""

_ACROSS = 3
"""Names beside each other."""


def new_panels(
    many: int, *, inches: float, title: str, names: Sequence[str] = ()
) -> tuple[Figure, list[Axes]]:
    """A figure with ``many`` empty panels of some inches' height; without any it says so.

    names   in the order of colours and markers, listed below the panels
    """
    across, down = min(2, max(1, many)), max(1, math.ceil(many / 2))
    below = _LINE * math.ceil(len(names) / _ACROSS)
    figure = new_figure(WIDTH, _AROUND + inches * down + below)
    set_title(figure, title)
    grid = figure.add_gridspec(
        down + bool(names), across, height_ratios=[inches] * down + [below] * bool(names)
    )
    if not many:
        say_nothing_to_show(figure.add_subplot(grid[0, 0]), "nothing to show yet")
    if names:
        _list_names(figure.add_subplot(grid[down, :]), names)
    return figure, [figure.add_subplot(grid[at // across, at % across]) for at in range(many)]


def _list_names(axes: Axes, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=COLOURS[at % len(COLOURS)],
            marker=MARKERS[at % len(MARKERS)],
            label=plain(name, width=24),
            linewidth=0,
        )
        for at, name in enumerate(names)
    ]
    axes.set_axis_off()
    axes.legend(
        handles=handles,
        loc="upper left",
        borderaxespad=0.0,
        ncols=_ACROSS,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handletextpad=0.3,
    )
