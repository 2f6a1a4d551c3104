"""The verdict on a synthetic table in words: what may be read from it, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from dp_pipeline.answers.estimate import quantile_of_normal
from dp_pipeline.answers.precision import Precision
from dp_pipeline.answers.units import open_tables
from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.results.clusters import Tables

MOST_TABLES = 20
"""Tables of each kind that are looked at, spread evenly over all."""

LEAST_SHARE = 0.01
"""Share of the rows from which on a cell counts."""

MOSTLY = 0.75
"""Cells whose intervals are as narrow as is said."""

READABLE = 1 / 3
"""Half the width of an interval, as a part of its count, up to which a relation can be read."""


def verdict(tables: Tables) -> tuple[str, ...]:
    """Return sentences on the accuracy of columns, pairs with a table, and pairs without; or why
    it is unknown.

    There are none about centres with boxes, and where no row is released."""
    reason = reason_without_intervals(tables)
    if reason:
        return (f"No interval says how sure these numbers are: {reason}.",)
    if not _is_stored(tables):
        return ()
    items = "units, each counted once" if "units" in tables else "rows"
    precision = open_tables(tables).precision
    names = [name for name, size in precision.sizes.items() if size > 1]
    pairs = list(combinations(names, 2))
    measured = [pair for pair in pairs if precision.has_table(pair)]
    unmeasured = [pair for pair in pairs if pair not in set(measured)]
    if not names:
        return ()
    single = _width(precision, [(name,) for name in names])[0]
    sentences = [f"Shares of single columns are mostly good to ±{single:.1%} of all {items}."]
    if pairs:
        sentences.append(_about_measured(precision, measured, len(pairs)))
    if unmeasured:
        sentences.append(_about_others(precision, unmeasured))
    return tuple(sentences)


def reason_without_intervals(tables: Tables) -> str:
    """Return the reason why numbers of a release have no intervals; empty if they have."""
    if "centres" in tables:
        has_noise = "deviation" in tables.get("synopsis", {})
        return "" if has_noise else "rounds that move centres store no noise"
    if "units" in tables and "weighted" not in tables:
        return "intervals are of units that all have parts, but here some have none"
    if "codes" not in tables:
        return "the noise of its counts is not stored"
    is_stored = ("weighted_cells" if "units" in tables else "cells") in tables
    return "" if is_stored else "its noisy counts are too many to be stored"


def share_errors(tables: Tables) -> FloatArray | None:
    """Return half the width of a 95 % interval for the share of every level, (levels,), as an
    upper bound.

    It is in the order of ``marginals``; None where the noisy counts are not stored."""
    if not _is_stored(tables) or "units" in tables:
        return None
    precision, reach = open_tables(tables).precision, quantile_of_normal(0.95)
    errors = [
        np.sqrt(precision.rough_counts((name,)).variances) * reach / precision.total
        for name in precision.sizes
    ]
    return np.nan_to_num(np.concatenate(errors), posinf=1.0).clip(max=1.0)


def _is_stored(tables: Tables) -> bool:
    noisy = {"weighted", "weighted_cells"} if "units" in tables else {"measured", "cells"}
    stored = {"codes", "marginals", *noisy} <= set(tables)
    return stored and len(next(iter(tables["codes"].values()), ())) > 0


def _about_measured(precision: Precision, measured: Sequence[Names], pairs: int) -> str:
    many = f"Of {pairs:,} pair{'' if pairs == 1 else 's'} of columns"
    if not measured:
        return f"{many} none was measured."
    was = "was" if len(measured) == 1 else "were"
    width = _width(precision, measured)[0]
    good = f"shares of these are mostly good to ±{width:.1%}"
    return f"{many} {len(measured):,} {was} measured, and {good}."


def _about_others(precision: Precision, pairs: Sequence[Names]) -> str:
    scored = [pair for pair in pairs if precision.is_scored(pair)]
    unread = "do not read relations between other columns from this table"
    if len(scored) < len(pairs):
        return f"Nothing says how far the others are from the truth: {unread}."
    width, relative = _width(precision, scored)
    sentence = f"By noisy scores the others are known to ±{width:.1%}"
    return f"{sentence}: {unread}." if relative > READABLE else f"{sentence}."


def _width(precision: Precision, tables: Sequence[Names]) -> tuple[float, float]:
    """Return half widths of 95 % intervals: the bound for most cells, and the median relative to
    the cell.

    The first is in parts of all rows."""
    places = np.unique(np.linspace(0, len(tables) - 1, MOST_TABLES).round().astype(int))
    shares, widths = [np.zeros(1)], [np.zeros(1)]
    for place in places.tolist():
        sums = precision.rough_counts(tables[place])
        is_large = sums.values >= LEAST_SHARE * precision.total
        is_large &= np.isfinite(sums.variances)
        shares.append(sums.values[is_large] / precision.total)
        widths.append(np.sqrt(sums.variances[is_large]) / precision.total)
    share, width = np.concatenate(shares)[1:], np.concatenate(widths)[1:]
    if not len(share):
        return 0.0, 0.0
    reach = quantile_of_normal(0.95)
    return reach * float(np.quantile(width, MOSTLY)), reach * float(np.median(width / share))
