"""Names at the ends of lines: no legend to look up, and none over another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_pipeline.reporting.picture import COLOURS, INK, MARKERS, plain
from dp_pipeline.reporting.rows import Pivot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def name_lines(axes: Axes, table: Pivot, *, gap: float) -> None:
    """Each model's name beside the end of its line, pushed ``gap`` (a share of the height) apart
    where ends are close.
    """
    last = [max(e for m, e in table.cells if m == model) for model in table.models]
    ends = [
        float(np.mean([row.value for row in table.cells[model, epsilon]]))
        for model, epsilon in zip(table.models, last, strict=True)
    ]
    fraction = axes.transScale + axes.transLimits
    at = fraction.transform([(float(e), y) for e, y in zip(last, ends, strict=True)])
    heights = spread_apart(at[:, 1].tolist(), gap=gap)
    for index, (model, height) in enumerate(zip(table.models, heights, strict=True)):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        inside: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False, "color": colour}
        axes.plot([at[index, 0], 1.025], [at[index, 1], height], linewidth=0.7, alpha=0.6, **inside)
        axes.plot([1.025], [height], marker=marker, markersize=6, **inside)
        name = plain(model, width=24)
        axes.text(1.05, height, name, va="center", fontsize=9, color=INK, transform=axes.transAxes)


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
