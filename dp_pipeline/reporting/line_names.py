"""Names at the ends of lines: no legend to look up, and none over another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_pipeline.reporting.picture import COLOURS, INK, MARKERS, plain
from dp_pipeline.reporting.rows import Pivot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class End:
    """Where a line ends, in the units of its axes.

    place   of the line in its picture: decides its colour and marker
    """

    name: str
    place: int
    x: float
    y: float


def name_lines(axes: Axes, table: Pivot, *, gap: float) -> None:
    """Each model's name beside the end of its line, pushed ``gap`` (a share of the height) apart
    where ends are close.
    """
    ends = []
    for place, model in enumerate(table.models):
        last = max(e for m, e in table.cells if m == model)
        values = [row.value for row in table.cells[model, last]]
        ends.append(End(model, place, float(last), float(np.mean(values))))
    name_ends(axes, ends, gap=gap)


def name_ends(axes: Axes, ends: Sequence[End], *, gap: float) -> None:
    """The names of some lines, beside their ends and ``gap`` apart."""
    at = (axes.transScale + axes.transLimits).transform([(end.x, end.y) for end in ends])
    heights = spread_apart(at[:, 1].tolist(), gap=gap)
    for end, (x, y), height in zip(ends, at, heights, strict=True):
        colour, marker = COLOURS[end.place % len(COLOURS)], MARKERS[end.place % len(MARKERS)]
        inside: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False, "color": colour}
        axes.plot([x, 1.025], [y, height], linewidth=0.7, alpha=0.6, **inside)
        axes.plot([1.025], [height], marker=marker, markersize=6, **inside)
        text: dict[str, Any] = {"va": "center", "fontsize": 9, "color": INK}
        axes.text(1.05, height, plain(end.name, width=24), transform=axes.transAxes, **text)


def spread_apart(heights: Sequence[float], *, gap: float) -> list[float]:
    """Heights in 0..1 moved as little as needed to stand ``gap`` apart, in their old order.

    >>> [round(height, 2) for height in spread_apart([0.5, 0.5, 0.1], gap=0.1)]
    [0.5, 0.6, 0.1]
    """
    gap = min(gap, 1 / max(1, len(heights)))
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    result = list(heights)
    for below, above in pairwise(order):
        result[above] = max(result[above], result[below] + gap)
    for places, index in enumerate(reversed(order)):
        result[index] = min(result[index], 1 - places * gap)
    return result
