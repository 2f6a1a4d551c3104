"""Small multiples of released one-way marginals: one panel an attribute, one line a level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dp_pipeline.reporting.panels import new_panels
from dp_pipeline.reporting.picture import (
    COLOURS,
    INK,
    MARKERS,
    RULE,
    plain,
    png,
    quiet,
    set_footnote,
)
from dp_pipeline.schema.encoding import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LEVELS = 10
"""Levels of one panel that have room for their names."""

_HEIGHT = 1.7
"""Inches of one panel."""

_APART = 0.6
"""Levels' distance is 1: so far apart are the dots of the first and the last model."""

Marginals = Mapping[str, np.ndarray]


def marginal_bars(tables: Mapping[str, Marginals], *, most: int = 6, title: str) -> bytes:
    """PNG of the one-way marginals of the first ``most`` attributes: bars of one release, dots of
    several.

    tables   release → ``SyntheticTable.tables()["marginals"]``: attribute, level, probability

    An attribute with many levels shows its largest; one with many bins shows all, and
    names some.
    """
    every = list(
        dict.fromkeys(name for one in tables.values() for name in one["attribute"].tolist())
    )
    shown = every[: max(1, most)]
    names = list(tables) if len(tables) > 1 else []
    figure, panels = new_panels(len(shown), inches=_HEIGHT, title=title, names=names)
    for panel, name in zip(panels, shown, strict=True):
        _draw(panel, name, [_shares(one, name) for one in tables.values()])
    set_footnote(figure, _footnote(len(shown), len(every)))
    return png(figure)


def _shares(marginals: Marginals, name: str) -> dict[str, float]:
    """Level → share; none for an attribute that is not in the release."""
    here = marginals["attribute"] == name
    levels, shares = marginals["level"][here], marginals["probability"][here]
    return dict(zip(levels.tolist(), shares.tolist(), strict=True))


def _draw(axes: Axes, name: str, releases: Sequence[Mapping[str, float]]) -> None:
    levels = list(next(shares for shares in releases if shares))
    values = np.array([[shares.get(level, np.nan) for level in levels] for shares in releases])
    kept = _kept(levels, values)
    places = np.arange(len(kept))
    if len(releases) == 1:
        axes.barh(places, values[0, kept], height=0.78, color=COLOURS[0])
    else:
        _draw_dots(axes, values[:, kept])
    named = places[:: math.ceil(len(kept) / MOST_LEVELS)]
    labels = [plain(levels[kept[place]], width=19) for place in named]
    axes.set_yticks(named, labels)
    axes.set_ylim(len(kept) - 0.4, -0.6)
    axes.set_xlim(left=0)
    heading = plain(name, width=24)
    if len(kept) < len(levels):
        heading = f"{plain(name, width=18)}, top {len(kept)}"
    axes.set_title(heading, loc="left", fontsize=9, color=INK, pad=5)
    _quiet_panel(axes)


def _kept(levels: Sequence[str], values: FloatArray) -> np.ndarray:
    """Places of the levels that are drawn: all bins, else the largest ones."""
    is_binned = all(level.startswith("[") for level in levels)
    if len(levels) <= MOST_LEVELS or is_binned:
        return np.arange(len(levels))
    return np.argsort(-np.nanmean(values, axis=0), kind="stable")[:MOST_LEVELS]


def _draw_dots(axes: Axes, values: FloatArray) -> None:
    """One dot a release and level; releases step aside, for their dots would hide each other."""
    steps = np.linspace(-_APART / 2, _APART / 2, len(values))
    for at, (shares, step) in enumerate(zip(values, steps, strict=True)):
        axes.plot(
            shares,
            np.arange(len(shares)) + step,
            MARKERS[at % len(MARKERS)],
            color=COLOURS[at % len(COLOURS)],
            markersize=3.6,
            markeredgewidth=0,
            clip_on=False,
        )


def _quiet_panel(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    quiet(axes)
    axes.tick_params(axis="both", labelsize=7.5)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g}%"))
    axes.grid(axis="x", color=RULE, linewidth=0.6)
    axes.spines["left"].set_visible(False)


def _footnote(shown: int, every: int) -> str:
    text = "Share of the released rows."
    return text if shown == every else f"{text} First {shown} of {every} attributes."
