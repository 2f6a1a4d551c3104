"""Noisy rows of every released centre: as they were counted, or from the synopsis, for free."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dp_pipeline.metrics.clustering import nearest_centres
from dp_pipeline.release.synopsis import Synopsis
from dp_pipeline.reporting.number_text import number_text
from dp_pipeline.schema.encoding import FloatArray

Tables = Mapping[str, Mapping[str, np.ndarray]]


def cluster_sizes(tables: Tables) -> FloatArray | None:
    """Float (k,), may be negative; None where a release has neither sizes nor a synopsis.

    tables   ``Clusters.tables()``

    From a synopsis a size is the weight of all boxes, cut where they are few, whose middles are
    nearest to the centre.
    """
    if "sizes" in tables:
        return np.asarray(tables["sizes"]["size"], dtype=np.float64)
    if "synopsis" not in tables:
        return None
    centres = np.stack(list(tables["centres"].values()), axis=1)
    boxes = _synopsis(tables, tuple(tables["centres"])).refined()
    if not len(centres) or not len(boxes.weights):
        return np.zeros(len(centres))
    nearest = nearest_centres(boxes.middles, centres)
    counts = np.bincount(nearest, weights=boxes.weights, minlength=len(centres))
    return counts.astype(np.float64)


def _synopsis(tables: Tables, columns: tuple[str, ...]) -> Synopsis:
    table = tables["synopsis"]
    lower, upper = (
        np.stack([table[f"{name}_{side}"] for name in columns], axis=1)
        for side in ("lower", "upper")
    )
    return Synopsis(columns, lower, upper, np.asarray(table["weight"], dtype=np.float64))


def rows_text(size: float) -> str:
    """A noisy number of rows: whole, with three digits.

    >>> rows_text(1234.5), rows_text(-3.7), rows_text(-0.2)
    ('1,230', '-4', '0')
    """
    return number_text(size) if abs(size) >= 100 else f"{round(size)}"
