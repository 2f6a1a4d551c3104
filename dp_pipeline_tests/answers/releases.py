"""Small releases made by hand: true counts, noise, and rows that fit the noisy tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dp_pipeline.answers.tables import OpenTable, open_table
from dp_pipeline.results.clusters import Tables

Counts = np.ndarray


def release(*args: Any, **options: Any) -> OpenTable:
    """Return the open release of ``tables_of`` the same."""
    return open_table(tables_of(*args, **options))


def tables_of(
    counts: Counts,
    measured: Sequence[tuple[tuple[str, ...], np.ndarray, float]],
    *,
    names: Sequence[str],
    rows: int = 2_000,
    dependence: Mapping[tuple[str, str], float] | None = None,
    groups: Mapping[str, Sequence[int]] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
) -> Tables:
    """Return tables of a release whose rows have the distribution of ``counts``.

    counts     of the fitted distribution, one axis for each name
    measured   (attributes, noisy counts, deviation of one cell)
    groups     attribute → group of each level, in measured tables of several attributes
    """
    share = np.maximum(counts, 0) / np.maximum(counts, 0).sum()
    ends = np.floor(np.cumsum(share.ravel()) * rows + 0.5).astype(int)
    cells = np.repeat(np.arange(share.size), np.diff(ends, prepend=0))
    codes = dict(zip(names, np.unravel_index(cells, counts.shape), strict=True))
    sizes = zip(names, counts.shape, strict=True)
    labels = labels or {name: [f"{name}{i}" for i in range(size)] for name, size in sizes}
    tables = {
        "codes": codes,
        "synthetic": {name: np.array(labels[name])[codes[name]] for name in names},
        "marginals": {
            "attribute": np.repeat(list(names), counts.shape),
            "level": np.array([label for name in names for label in labels[name]]),
        },
        "measured": {
            "marginal": np.array([", ".join(attributes) for attributes, _, _ in measured]),
            "cells": np.array([table.size for _, table, _ in measured]),
            "deviation": np.array([deviation for _, _, deviation in measured]),
        },
        "cells": {"noisy_count": np.concatenate([table.ravel() for _, table, _ in measured])},
    }
    if dependence:
        tables["dependence"] = {
            "first": np.array([first for first, _ in dependence]),
            "second": np.array([second for _, second in dependence]),
            "rows": np.array(list(dependence.values())),
        }
    if groups:
        tables["groups"] = {
            "attribute": np.array([name for name, of in groups.items() for _ in of]),
            "group": np.array([group for of in groups.values() for group in of]),
        }
    return tables
