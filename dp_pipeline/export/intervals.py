"""The columns that an export adds to released tables: sizes of centres, and ends of intervals."""

import numpy as np

from dp_pipeline.answers.boxes import open_clusters
from dp_pipeline.config.encoding import FloatArray
from dp_pipeline.reporting.figures.cluster_view import SIZE, cluster_sizes
from dp_pipeline.results.clusters import Tables

DEVIATIONS_TO_END = 2.12
"""Standard deviations from a noisy number to either end of its interval, which holds 95 of 100
numbers with Laplace noise, and 96 with Gaussian noise."""


def added_columns(name: str, tables: Tables) -> dict[str, FloatArray]:
    """Return the columns (n,) that an export adds to a released table of n rows; may be {}.

    name     of the table
    tables   of the whole release

    ``cells`` and ``synopsis``, where their noise is known, have ``low`` and ``high``, the ends of
    95 % intervals for the true number of rows. Centres have their size; and where the noise of
    boxes is known, ends for each coordinate, and for a size that is of boxes. A column of the
    release is never replaced.
    """
    table, added = tables[name], dict[str, FloatArray]()
    if name == "cells" and "measured" in tables:
        measured = tables["measured"]
        deviations = np.repeat(measured["deviation"], measured["cells"])
        added = _interval_ends(table["noisy_count"], deviations)
    elif name == "synopsis" and "deviation" in table:
        added = _interval_ends(table["weight"], table["deviation"])
    elif name == "centres":
        added = _of_centres(tables)
    return {column: values for column, values in added.items() if column not in table}


def _interval_ends(counts: FloatArray, deviations: FloatArray) -> dict[str, FloatArray]:
    reach = DEVIATIONS_TO_END * deviations
    ends = {"low": counts - reach, "high": counts + reach}
    return {name: np.maximum(0.0, end).round(3) for name, end in ends.items()}


def _of_centres(tables: Tables) -> dict[str, FloatArray]:
    sizes = cluster_sizes(tables)
    added: dict[str, FloatArray] = {} if sizes is None else {SIZE: sizes}
    if sizes is None or "deviation" not in tables.get("synopsis", {}) or not len(sizes):
        return added
    clusters = open_clusters(tables)
    if "sizes" not in tables:
        added |= _interval_ends(sizes, clusters.size_deviations)
    reaches = DEVIATIONS_TO_END * clusters.centre_deviations
    for column, values, reach in zip(clusters.columns, clusters.centres.T, reaches.T, strict=True):
        added |= {f"{column}_low": values - reach, f"{column}_high": values + reach}
    return added
