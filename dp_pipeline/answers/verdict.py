"""Sentences on how accurate a synthetic table is: its columns, and its pairs of columns."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from dp_pipeline.answers.estimate import quantile_of_normal
from dp_pipeline.answers.precision import Precision
from dp_pipeline.answers.units import open_tables
from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.results.clusters import Tables
from dp_pipeline.results.synthetic_table import noisy_table_names

MOST_TABLES = 20  # tables behind each sentence, at most: spread evenly over those of the same kind
LEAST_SHARE = 0.01  # share of the rows from which on a cell counts
MOSTLY = 0.75  # share of the cells whose intervals are at most as wide as a sentence says

READABLE = 1 / 3
"""Half the width of a cell's interval, as a part of its count, up to which the cell is readable."""


def verdict(tables: Tables) -> tuple[str, ...]:
    """Return sentences on the accuracy of single columns, measured pairs and unmeasured pairs.

    Where the release has no intervals, the only sentence gives the reason. The result is () for
    centres with boxes, for a table without rows, and for one whose columns have a single level
    each."""
    reason = reason_without_intervals(tables)
    if reason:
        return (f"No interval says how sure these numbers are: {reason}.",)
    if not _is_stored(tables):
        return ()
    items = "units, each counted once" if "units" in tables else "rows"
    precision = open_tables(tables).precision
    names = [name for name, size in precision.sizes.items() if size > 1]
    pairs = list(combinations(names, 2))
    has_table = {pair: precision.has_table(pair) for pair in pairs}
    measured = [pair for pair in pairs if has_table[pair]]
    unmeasured = [pair for pair in pairs if not has_table[pair]]
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
    if "codes" not in tables:
        return "the noise of its counts is not stored"
    return (
        ""
        if noisy_table_names(tables)[1] in tables
        else "its noisy counts are too many to be stored"
    )


def share_errors(tables: Tables) -> FloatArray | None:
    """Return half the width of a 95 % interval for the share of every level, at most 1: (levels,).

    Levels are in the order of ``marginals``. None for units with parts, for a table without rows
    and where the noisy counts are not stored."""
    if not _is_stored(tables) or "units" in tables:
        return None
    precision, reach = open_tables(tables).precision, quantile_of_normal(0.95)
    errors = [
        np.sqrt(precision.rough_counts((name,)).variances) * reach / precision.total
        for name in precision.sizes
    ]
    return np.nan_to_num(np.concatenate(errors), posinf=1.0).clip(max=1.0)


def _is_stored(tables: Tables) -> bool:
    stored = {"codes", "marginals", *noisy_table_names(tables)} <= set(tables)
    return stored and len(next(iter(tables["codes"].values()), ())) > 0


def _about_measured(precision: Precision, measured: Sequence[Names], pairs: int) -> str:
    many = f"Of {pairs:,} pair{'' if pairs == 1 else 's'} of columns"
    if not measured:
        return f"{many} none was measured."
    was = "was" if len(measured) == 1 else "were"
    width = _width(precision, measured)[0]
    accuracy = f"shares of these are mostly good to ±{width:.1%}"
    return f"{many} {len(measured):,} {was} measured, and {accuracy}."


def _about_others(precision: Precision, pairs: Sequence[Names]) -> str:
    scored = [pair for pair in pairs if precision.is_scored(pair)]
    unread = "do not read relations between other columns from this table"
    if len(scored) < len(pairs):
        return f"Nothing says how far the others are from the truth: {unread}."
    width, relative = _width(precision, scored)
    sentence = f"By noisy scores the others are known to ±{width:.1%}"
    return f"{sentence}: {unread}." if relative > READABLE else f"{sentence}."


def _width(precision: Precision, tables: Sequence[Names]) -> tuple[float, float]:
    """Return (half width of a 95 % interval that ``MOSTLY`` of the cells keep, as a share of all
    rows; median of the cells' half widths, each divided by the cell's count).

    Both are 0 if no cell has ``LEAST_SHARE`` of the rows."""
    places = np.unique(np.linspace(0, len(tables) - 1, MOST_TABLES).round().astype(int))
    sums = [precision.rough_counts(tables[place]) for place in places.tolist()]
    share = np.concatenate([part.values for part in sums]) / precision.total
    width = np.sqrt(np.concatenate([part.variances for part in sums])) / precision.total
    is_large = (share >= LEAST_SHARE) & np.isfinite(width)
    share, width = share[is_large], width[is_large]
    if not len(share):
        return 0.0, 0.0
    reach = quantile_of_normal(0.95)
    return reach * float(np.quantile(width, MOSTLY)), reach * float(np.median(width / share))
