"""A map of one clustering: noisy boxes shaded by density, released centres on top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dp_pipeline.reporting.cluster_view import ClusterView
from dp_pipeline.reporting.density import Density
from dp_pipeline.reporting.picture import (
    MUTED,
    RULE,
    WIDTH,
    new_figure,
    plain,
    png,
    quiet,
    set_footnote,
    set_title,
)
from dp_pipeline.schema.encoding import Coordinate, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_OUTLINES = 2500
"""Boxes that an eye still tells apart by their outlines."""

_SHADES = ("#ffffff", "#d6e8f5", "#94c3e4", "#4594cb", "#1a659e", "#0c2c52")
_CENTRE = "#d55e00"


def cluster_map(
    columns: Sequence[str],
    centres: FloatArray,
    synopsis_table: Mapping[str, np.ndarray],
    box: Sequence[Coordinate],
    *,
    title: str,
) -> bytes:
    """PNG of a released synopsis and centres on the first two columns.

    centres          float (k, d), data units
    synopsis_table   ``Synopsis.table()``: NAME_lower and NAME_upper of every column, weight
    box              declared interval of every column

    Negative weights are white. With more than two columns the boxes are summed
    over the others; with one column the map is a strip.
    """
    view = ClusterView.of(columns, centres, synopsis_table, box)
    figure = new_figure(WIDTH, _height(view))
    axes = figure.add_subplot()
    set_title(figure, title)
    _shade(figure, axes, view)
    _outline(axes, view)
    _mark_centres(axes, view.centres)
    _name_axes(axes, view)
    set_footnote(figure, _footnote(view))
    return png(figure)


def _height(view: ClusterView) -> float:
    if view.is_strip:
        return 2.4
    ratio = view.sides[1] / view.sides[0] if view.is_true_to_scale else 0.75
    return min(7.0, max(2.6, 3.8 * ratio + 1.05))


def _shade(figure: Figure, axes: Axes, view: ClusterView) -> None:
    """Darker where rows are denser; a root scale, so that sparse boxes are seen too."""
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    density = Density.of_synopsis(view.columns, view.table, view.box)
    shades = LinearSegmentedColormap.from_list("density", _SHADES)
    highest = max(1.0, float(density.cells.max()))
    x, y = (
        interval.lower + edges * side
        for interval, edges, side in zip(
            view.box, (density.x_edges, density.y_edges), view.sides, strict=True
        )
    )
    norm = PowerNorm(0.45, vmin=0.0, vmax=highest)
    mesh = axes.pcolormesh(x, y, density.cells.T, cmap=shades, norm=norm, linewidth=0)
    bar = figure.colorbar(mesh, ax=axes, shrink=0.85, pad=0.02, aspect=28)
    bar.set_ticks(_density_ticks(highest))
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}×")
    bar.ax.tick_params(colors=MUTED, labelsize=8, length=0)
    bar.outline.set_edgecolor(RULE)
    bar.set_label("density ÷ mean", color=MUTED, size=8.5)


def _density_ticks(highest: float) -> list[float]:
    """0, 1, 3, 10, 30 … and the highest density, which is written instead of a close one."""
    steps = [digit * 10.0**power for power in range(9) for digit in (1, 3)]
    return [0.0, *(step for step in steps if step < 0.7 * highest), highest]


def _outline(axes: Axes, view: ClusterView) -> None:
    """Thin sides of the boxes, where there are few enough and none lies over another."""
    from matplotlib.collections import PolyCollection

    if view.others or len(view.table["weight"]) > MOST_OUTLINES:
        return
    left, bottom = (view.table[f"{name}_lower"] for name in view.columns)
    right, top = (view.table[f"{name}_upper"] for name in view.columns)
    corners = np.stack([left, bottom, right, bottom, right, top, left, top], axis=1)
    axes.add_collection(
        PolyCollection(
            list(corners.reshape(-1, 4, 2)),
            facecolors="none",
            edgecolors="#10243a",
            linewidths=0.3,
            alpha=0.28,
        ),
        autolim=False,
    )


def _mark_centres(axes: Axes, centres: FloatArray) -> None:
    size = 70.0 if len(centres) <= 40 else max(6.0, 2800.0 / len(centres))
    axes.scatter(
        centres[:, 0],
        centres[:, 1],
        s=size,
        color=_CENTRE,
        edgecolors="white",
        linewidths=1.4 if size > 20 else 0.4,
        zorder=5,
        clip_on=False,
    )


def _name_axes(axes: Axes, view: ClusterView) -> None:
    horizontal, vertical = view.box
    axes.set_xlim(horizontal.lower, horizontal.upper)
    axes.set_ylim(vertical.lower, vertical.upper)
    axes.set_xlabel(plain(view.columns[0]))
    axes.set_ylabel(plain(view.columns[1]))
    axes.ticklabel_format(useOffset=False, style="plain")
    axes.locator_params(nbins=5)
    if view.is_strip:
        axes.set_yticks([])
    elif view.is_true_to_scale:
        axes.set_aspect("equal")
    quiet(axes)


def _footnote(view: ClusterView) -> str:
    weights = view.table["weight"]
    centres, boxes = _count(len(view.centres), "released centre"), _count(len(weights), "noisy box")
    text = f"Orange: {centres}. Blue: {boxes}"
    if not (weights > 0).any():
        return f"{text}, none with a positive weight."
    if view.others:
        return f"{text}, summed over {_count(view.others, 'other column')}."
    below = int((weights < 0).sum())
    return f"{text}, {below:,} of them below zero (left blank)." if below else f"{text}."


def _count(number: int, noun: str) -> str:
    plural = "" if number == 1 else "es" if noun.endswith("x") else "s"
    return f"{number:,} {noun}{plural}"
