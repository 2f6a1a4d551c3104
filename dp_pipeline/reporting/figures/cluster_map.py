"""Maps of clusterings, one panel a model: boxes shaded by density, released centres on top."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_pipeline.config.encoding import Coordinate, FloatArray
from dp_pipeline.reporting.figures import picture
from dp_pipeline.reporting.figures.cluster_view import ClusterView, rows_text
from dp_pipeline.reporting.figures.picture import Picture, list_first
from dp_pipeline.reporting.text import number_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

MOST_EDGES = 1025
"""Most edges on one axis; boxes of a synopsis with more are widened to whole pixels."""


@dataclass(frozen=True)
class Density:
    """The density of points in cells of unequal size over the unit square.

    x_edges, y_edges   ascending shares of the box, from 0 to 1
    cells              float (x, y): multiples of the mean density, at least 0
    """

    x_edges: FloatArray
    y_edges: FloatArray
    cells: FloatArray

    @property
    def highest(self) -> float:
        """The density that three quarters of the weight do not exceed, in multiples of the mean; 0
        without weight. A scale to the largest would leave all but a few tiny boxes pale."""
        areas = np.diff(self.x_edges)[:, None] * np.diff(self.y_edges)
        order = np.argsort(self.cells, axis=None)
        passed = np.cumsum((self.cells * areas).ravel()[order])
        return float(self.cells.ravel()[order][np.searchsorted(passed, 0.75 * passed[-1])])

    @classmethod
    def of_synopsis(
        cls, columns: Sequence[str], table: Mapping[str, np.ndarray], box: Sequence[Coordinate]
    ) -> Density:
        """Return the density of a synopsis' boxes on two of its columns; boxes that overlap there
        add up, and sums below 0 become 0.

        columns   names of the two columns
        table     ``Synopsis.table()``
        box       declared intervals of both columns

        One pass for any number of boxes: a difference array at their corners, summed along both
        axes."""
        (x_lower, x_upper), (y_lower, y_upper) = (
            _shares(table, name, interval) for name, interval in zip(columns, box, strict=True)
        )
        x_edges, x = np.unique(np.concatenate([x_lower, x_upper, [0.0, 1.0]]), return_inverse=True)
        y_edges, y = np.unique(np.concatenate([y_lower, y_upper, [0.0, 1.0]]), return_inverse=True)
        weights = table["weight"] / ((x_upper - x_lower) * (y_upper - y_lower))
        corners = np.zeros((len(x_edges), len(y_edges)))
        low, high = slice(0, len(weights)), slice(len(weights), 2 * len(weights))
        for x_side, y_side in product((low, high), repeat=2):
            sign = 1 if x_side == y_side else -1
            np.add.at(corners, (x[x_side], y[y_side]), sign * weights)
        cells = np.maximum(corners.cumsum(axis=0).cumsum(axis=1)[:-1, :-1], 0.0)
        total = float(np.diff(x_edges) @ cells @ np.diff(y_edges))
        return cls(x_edges, y_edges, cells / total if total > 0 else np.zeros_like(cells))


def _shares(
    table: Mapping[str, np.ndarray], name: str, interval: Coordinate
) -> tuple[FloatArray, FloatArray]:
    """Return the lower and the upper sides of boxes on one column as shares of its interval, in
    0..1; more than ``MOST_EDGES`` different sides are widened to pixels.

    table   ``Synopsis.table()``
    """
    sides = (table[f"{name}_{side}"] - interval.lower for side in ("lower", "upper"))
    lower, upper = (
        np.clip(np.round(side / (2 * interval.half_width), 9), 0.0, 1.0) for side in sides
    )
    if len(np.unique(np.concatenate([lower, upper]))) <= MOST_EDGES:
        return lower, upper
    pixels = MOST_EDGES - 1
    left_pixel = np.minimum(np.floor(lower * pixels), pixels - 1)
    return left_pixel / pixels, np.maximum(np.rint(upper * pixels), left_pixel + 1) / pixels


MOST_OUTLINES = 2500
"""Boxes whose outlines can be seen one by one, in a picture of one panel."""

MOST_NUMBERS = 36
"""Centres whose numbers can be told apart in a picture of one panel; of many panels a third."""

_MARGIN = 0.15
"""Part of the width at either side in which a number stands on the inner side of its centre."""

_SHADES = ("#ffffff", "#d6e8f5", "#94c3e4", "#4594cb", "#1a659e", "#0c2c52")
_CENTRE = "#d55e00"

_PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6}
_NOTE: dict[str, Any] = {"textcoords": "offset points", "color": picture.INK, "bbox": _PAPER}
"""Style of a text that stands on the map."""


def cluster_maps(views: Sequence[ClusterView], *, title: str) -> Picture:
    """Return a picture with one map for each clustering, all with the same shades.

    Negative weights are white, and boxes are summed over the columns that a view hides. The area of
    a centre shows its noisy size, with the number where there is room for all of them; a centre
    whose size is not above 0 is hollow.
    """
    across = min(len(views), 1 if len(views) == 1 else 2 if len(views) <= 4 else 3) or 1
    down = max(1, math.ceil(len(views) / across))
    figure = picture.new_figure(picture.WIDTH, _height(views, across, down))
    picture.set_title(figure, title)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel in panels[len(views) :]:
        panel.set_axis_off()
    if not views:
        picture.say_nothing_to_show(panels[0], "no centres yet")
        return Picture(title, figure, list_first(()))
    densities = [Density.of_synopsis(view.columns, view.table, view.box) for view in views]
    highest = max(1.0, *(density.highest for density in densities))
    is_shared = len({view.axes for view in views}) == 1
    for index, (panel, view) in enumerate(zip(panels, views, strict=False)):
        _draw(panel, view, densities[index], highest=highest, is_small=across > 1)
        is_outer = index % across == 0, index + across >= len(views)
        _name_axes(panel, view, is_named=is_outer if is_shared else (True, True))
        if index == 0 and view.metres is not None:
            _draw_scale(panel, view, view.metres.x)
        panel.locator_params(nbins=4 if across == 1 else 3)
    if across == 1 and len(views[0].table["weight"]):
        _explain_shades(figure, panels[0], highest)
    picture.set_footnote(figure, _footnote(views))
    x, y = views[0].columns
    axes = f"{x} runs to the right" + (f", {y} upwards" if y else "")
    words = f"Map of released centres: {axes}. {list_first(map(_view_text, views))}"
    return Picture(title, figure, words)


def _view_text(view: ClusterView) -> str:
    many = f"{view.name}: {len(view.centres)} centres"
    if view.sizes is None or not len(view.sizes):
        return many
    largest = int(np.argmax(view.sizes))
    columns = view.columns[:1] if view.is_strip else view.columns
    place_text = ", ".join(
        f"{name} = {view.dates.get(name, number_text)(float(number))}"
        for name, number in zip(columns, view.centres[largest], strict=False)
    )
    return f"{many}, the largest at {place_text} with {number_text(view.sizes[largest])} noisy rows"


def draw_map(axes: Axes, view: ClusterView) -> None:
    """Draw the map of one clustering on given axes, shaded by its own density.

    It has a scale bar in metres where a unit of the axes is a known length.
    """
    density = Density.of_synopsis(view.columns, view.table, view.box)
    _draw(axes, view, density, highest=max(1.0, density.highest), is_small=False)
    _name_axes(axes, view, is_named=(True, True))
    if view.metres is not None:
        _draw_scale(axes, view, view.metres.x)
    axes.locator_params(nbins=4)


def _height(views: Sequence[ClusterView], across: int, down: int) -> float:
    width = (picture.WIDTH - (1.5 if across == 1 else 0.7)) / across
    ratios = [
        0.3 if view.is_strip else view.ratio if view.is_true_to_scale else 0.75 for view in views
    ]
    return 0.95 + down * (width * max(ratios, default=0.3) + 0.24)


def _draw(
    axes: Axes, view: ClusterView, density: Density, *, highest: float, is_small: bool
) -> None:
    x, y = (
        interval.lower + edges * side
        for interval, edges, side in zip(
            view.box, (density.x_edges, density.y_edges), view.sides, strict=True
        )
    )
    axes.pcolormesh(x, y, density.cells.T, linewidth=0, rasterized=True, **_shades_of(highest))
    if not is_small:
        _outline(axes, view)
    _mark_centres(axes, view, is_small=is_small)
    most_numbers = MOST_NUMBERS // 3 if is_small else MOST_NUMBERS
    if view.sizes is not None and len(view.sizes) <= most_numbers:
        for centre, size in zip(view.centres, view.sizes.tolist(), strict=True):
            aside, anchor = (-6, "right") if _fits_left(centre, view) else (6, "left")
            style: dict[str, Any] = {"fontsize": 6 if is_small else 7.5, "ha": anchor, "zorder": 6}
            place = tuple(centre.tolist())
            axes.annotate(rows_text(size), place, xytext=(aside, 3), **style, **_NOTE)
    if is_small:
        axes.set_title(
            picture.shorten_label(view.name, width=26),
            loc="left",
            fontsize=8,
            color=picture.INK,
            pad=3,
        )


def _shades_of(highest: float) -> dict[str, Any]:
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    shades = LinearSegmentedColormap.from_list("density", _SHADES)
    return {"cmap": shades, "norm": PowerNorm(0.45, vmin=0.0, vmax=highest)}


def _outline(axes: Axes, view: ClusterView) -> None:
    from matplotlib.collections import PolyCollection

    if view.hidden_columns or len(view.table["weight"]) > MOST_OUTLINES:
        return
    x_lower, y_lower = (view.table[f"{name}_lower"] for name in view.columns)
    x_upper, y_upper = (view.table[f"{name}_upper"] for name in view.columns)
    corners = np.stack(
        [x_lower, y_lower, x_upper, y_lower, x_upper, y_upper, x_lower, y_upper], axis=1
    )
    style: dict[str, Any] = {"facecolors": "none", "edgecolors": "#10243a", "rasterized": True}
    boxes = PolyCollection(list(corners.reshape(-1, 4, 2)), linewidths=0.3, alpha=0.28, **style)
    axes.add_collection(boxes, autolim=False)


def _mark_centres(axes: Axes, view: ClusterView, *, is_small: bool) -> None:
    many = max(1, len(view.centres))
    area = min(70.0, 2800.0 / many) / (3.5 if is_small else 1)
    areas, is_hollow = np.full(len(view.centres), max(3.0, area)), np.zeros(many, dtype=bool)
    if view.sizes is not None:
        share = view.sizes.clip(min=0) * many / max(1.0, view.sizes.clip(min=0).sum())
        areas, is_hollow = (area * share).clip(3.0, 4 * area), view.sizes <= 0
    for chosen, face, edge in ((~is_hollow, _CENTRE, "white"), (is_hollow, "none", _CENTRE)):
        here = np.nonzero(chosen[: len(view.centres)])[0]
        style: dict[str, Any] = {"facecolors": face, "edgecolors": edge, "clip_on": False}
        width = 1.2 if area > 20 else 0.4
        x, y = view.centres[here].T
        axes.scatter(x, y, s=areas[here], linewidths=width, zorder=5, **style)


def _fits_left(centre: np.ndarray, view: ClusterView) -> bool:
    share = (centre[0] - view.box[0].lower) / view.sides[0]
    if not _MARGIN < share < 1 - _MARGIN:
        return bool(share > _MARGIN)
    offsets = (view.centres - centre) / view.sides
    others = offsets[(offsets != 0).any(axis=1)]
    return len(others) > 0 and bool(others[(others**2).sum(axis=1).argmin(), 0] > 0)


def _draw_scale(axes: Axes, view: ClusterView, metres: float) -> None:
    """Draw a scale bar of a round length in the lower left corner, at most a quarter of the width.

    metres   metres in a unit of the horizontal axis
    """
    from matplotlib.patheffects import withStroke

    quarter = view.sides[0] * metres / 4
    power = 10.0 ** math.floor(math.log10(quarter))
    # With a half, because the logarithm of a number just below a power of ten is rounded up to it.
    length = power * max(step for step in (0.5, 1, 2, 5) if step * power <= quarter)
    start, low = view.box[0].lower + 0.04 * view.sides[0], view.box[1].lower + 0.05 * view.sides[1]
    white = [withStroke(linewidth=4.0, foreground="white")]
    end = start + length / metres
    line: dict[str, Any] = {"color": picture.INK, "linewidth": 1.6, "path_effects": white}
    axes.plot([start, end], [low, low], zorder=7, **line)
    text = f"{length / 1000:,.0f} km" if length >= 1000 else f"{length:,.3g} m"
    style: dict[str, Any] = {"fontsize": 7, "ha": "center", "zorder": 7}
    axes.annotate(text, ((start + end) / 2, low), xytext=(0, 3), **style, **_NOTE)


def _name_axes(axes: Axes, view: ClusterView, *, is_named: tuple[bool, bool]) -> None:
    from matplotlib.ticker import EngFormatter

    horizontal, vertical = view.box
    axes.set_xlim(horizontal.lower, horizontal.upper)
    axes.set_ylim(vertical.lower, vertical.upper)
    for axis in (axes.xaxis, axes.yaxis):
        # An "m" behind a degree would be read as metres.
        axis.set_major_formatter("{x:.8g}" if view.degrees else EngFormatter(sep=""))
    _mark_dates(axes.xaxis, view.dates.get(view.columns[0]))
    _mark_dates(axes.yaxis, view.dates.get(view.columns[1]))
    if view.is_strip:
        axes.set_yticks([])
    elif view.is_true_to_scale:
        axes.set_aspect(view.aspect)
    picture.style_frame(axes)
    is_leftmost, is_lowest = is_named
    axes.tick_params(labelsize=7.5, labelleft=is_leftmost, labelbottom=is_lowest)
    across, up = (
        picture.shorten_label(name, width=30) + " (°)" * view.degrees for name in view.columns
    )
    if is_leftmost:
        axes.set_ylabel(up, fontsize=8.5)
    if is_lowest:
        axes.set_xlabel(across, fontsize=8.5)


def _mark_dates(axis: Axis, format_date: Callable[[float], str] | None) -> None:
    from matplotlib.ticker import MaxNLocator

    if format_date is None:
        return
    axis.set_major_locator(MaxNLocator(4))
    axis.set_major_formatter(lambda value, _: format_date(value).partition("T")[0])


def _explain_shades(figure: Figure, axes: Axes, highest: float) -> None:
    from matplotlib.cm import ScalarMappable

    scale = ScalarMappable(**_shades_of(highest))
    bar = figure.colorbar(scale, ax=axes, shrink=0.85, pad=0.02, aspect=36, extend="max")
    steps = [digit * 10.0**power for power in range(9) for digit in (1, 3)]
    bar.set_ticks([0.0, *(step for step in steps if step < 0.7 * highest), highest])
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}×")
    bar.ax.tick_params(colors=picture.MUTED, labelsize=8, length=0)
    bar.outline.set_edgecolor(picture.RULE)
    bar.set_label("density ÷ mean", color=picture.MUTED, size=8.5)


def _footnote(views: Sequence[ClusterView]) -> str:
    text = "Orange: released centres"
    if any(view.sizes is not None for view in views):
        text += " (area, number: noisy rows)"
    if any(len(view.table["weight"]) for view in views):
        text += ". Blue: noisy boxes, farther from the background where denser"
    hidden_columns = max(view.hidden_columns for view in views)
    if hidden_columns:
        text += f".\nShown are two of {hidden_columns + 2} columns, summed over the others"
    if any(view.degrees and view.metres is not None for view in views):
        text += ".\nMetres are approximate: one length of a degree for the whole box"
    return f"{text}."
