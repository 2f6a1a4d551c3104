"""Released centres as lines of text: their places, and the noisy rows of each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dp_pipeline.reporting.cluster_sizes import Tables, cluster_sizes, rows_text

MOST_CENTRES = 10
SIZE = "noisy rows"
"""The heading of the last column."""


def centre_table(tables: Tables, *, most_columns: int) -> tuple[list[str], list[list[str]]]:
    """Head and lines of the first centres, in the order of their release; of many columns the first
    ones, whole, and how many more there are. No line of a release without centres.
    """
    columns = tables.get("centres", {})
    names, lines = list(columns), _lines(columns)
    more = len(names) - most_columns
    if more > 0:
        names = [*names[:most_columns], f"+ {more} columns"]
        lines = [[*line[:most_columns], "…"] for line in lines]
    sizes = cluster_sizes(tables) if lines else None
    if sizes is None:
        return names, lines
    told = [rows_text(size) for size in sizes.tolist()]
    return [*names, SIZE], [[*line, size] for line, size in zip(lines, told, strict=False)]


def _lines(columns: Mapping[str, np.ndarray]) -> list[list[str]]:
    rows = zip(*(values[:MOST_CENTRES].tolist() for values in columns.values()), strict=True)
    return [[f"{value:.6g}" for value in row] for row in rows]
