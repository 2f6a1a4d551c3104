"""Density of a synopsis on two axes of the box: what a map of it shades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dp_pipeline.schema.encoding import Coordinate, FloatArray

MOST_EDGES = 1025
"""Edges on one axis; boxes of a synopsis with more are widened to whole pixels."""


@dataclass(frozen=True)
class Density:
    """Cells of unequal size over the unit square, and the density in each.

    x_edges, y_edges   ascending shares of the box, from 0 to 1
    cells              float (x, y): multiples of the mean density, at least 0
    """

    x_edges: FloatArray
    y_edges: FloatArray
    cells: FloatArray

    @property
    def highest(self) -> float:
        """What three quarters of the weight do not pass, 0 where there is none: a few tiny boxes
        would leave all others pale.
        """
        areas = np.diff(self.x_edges)[:, None] * np.diff(self.y_edges)
        order = np.argsort(self.cells, axis=None)
        passed = np.cumsum((self.cells * areas).ravel()[order])
        return float(self.cells.ravel()[order][np.searchsorted(passed, 0.75 * passed[-1])])

    @classmethod
    def of_synopsis(
        cls, columns: Sequence[str], table: Mapping[str, np.ndarray], box: Sequence[Coordinate]
    ) -> Density:
        """Weight over area on two ``columns`` of ``Synopsis.table()``; below 0 counts as 0.

        Boxes that lie over each other (more than two columns) add up. One pass for any
        number of boxes: a difference array at their corners, summed along both axes.
        """
        (left, right), (bottom, top) = (
            _on_few_edges(*_shares(table, name, interval))
            for name, interval in zip(columns, box, strict=True)
        )
        x_edges, x = np.unique(np.concatenate([left, right, [0.0, 1.0]]), return_inverse=True)
        y_edges, y = np.unique(np.concatenate([bottom, top, [0.0, 1.0]]), return_inverse=True)
        weights = table["weight"] / ((right - left) * (top - bottom))
        corners = np.zeros((len(x_edges), len(y_edges)))
        low, high = slice(0, len(weights)), slice(len(weights), 2 * len(weights))
        for x_at, y_at, sign in ((low, low, 1), (high, low, -1), (low, high, -1), (high, high, 1)):
            np.add.at(corners, (x[x_at], y[y_at]), sign * weights)
        cells = np.maximum(corners.cumsum(axis=0).cumsum(axis=1)[:-1, :-1], 0.0)
        total = float(np.diff(x_edges) @ cells @ np.diff(y_edges))
        return cls(x_edges, y_edges, cells / total if total > 0 else np.zeros_like(cells))


def _shares(
    table: Mapping[str, np.ndarray], name: str, interval: Coordinate
) -> tuple[FloatArray, FloatArray]:
    """Sides of the boxes as shares of the declared interval; equal ones are made equal."""
    lower, upper = (
        np.round((table[f"{name}_{side}"] - interval.lower) / (2 * interval.half_width), 9)
        for side in ("lower", "upper")
    )
    return np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)


def _on_few_edges(lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    if len(np.unique(np.concatenate([lower, upper]))) <= MOST_EDGES:
        return lower, upper
    pixels = MOST_EDGES - 1
    left = np.minimum(np.floor(lower * pixels), pixels - 1)
    return left / pixels, np.maximum(np.rint(upper * pixels), left + 1) / pixels
