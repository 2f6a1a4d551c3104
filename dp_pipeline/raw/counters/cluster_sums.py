"""Sizes, totals, residuals and levels of clusters, as whole numbers a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.gate.subsets import subset_of
from dp_pipeline.raw.counters.nearest import Assignment, Columns
from dp_pipeline.schema.encoding import COORDINATE_BITS, IntArray

_ROWS_TO_SORT = 1 << 18


def sums_by_centre(
    rules: Sequence[NearestCentre], columns: Columns, *, rows: int, salt: int
) -> IntArray:
    """Sizes and totals of the clusters of every subset, (subsets, centres, 1 + columns).

    See ``gate.counts.Counter.sum_by_centre``.
    """
    sums = np.zeros((len(rules), len(rules[0].centres), 1 + len(columns)), dtype=np.int64)
    if len(rules) == 1:
        _add_sums(sums[0], rules[0], columns, rows=rows)
        return sums
    for start in range(0, rows, _ROWS_TO_SORT):
        part = [column[start : start + _ROWS_TO_SORT] for column in columns]
        _add_subsets(sums, rules, part, salt=salt)
    return sums


def _add_subsets(
    sums: IntArray, rules: Sequence[NearestCentre], columns: Columns, *, salt: int
) -> None:
    """Add the rows, sorted by subset first: each rule then sees its own rows together."""
    subsets = subset_of(columns, salt, len(rules))
    # Small whole numbers are sorted by radix.
    order = np.argsort(subsets.astype(np.min_scalar_type(len(rules))), kind="stable")
    columns = [column[order] for column in columns]
    ends = np.cumsum(np.bincount(subsets, minlength=len(rules))).tolist()
    for rule, into, begin, end in zip(rules, sums, [0, *ends[:-1]], ends, strict=True):
        _add_sums(into, rule, [column[begin:end] for column in columns], rows=end - begin)


def _add_sums(sums: IntArray, rule: NearestCentre, columns: Columns, *, rows: int) -> None:
    """Add the rows' sizes and totals to ``sums`` (centres, 1 + columns)."""
    assignment, k = Assignment(rule), len(rule.centres)
    for block in assignment.blocks(rows):
        part = [column[block] for column in columns]
        labels = assignment.labels(part)
        sums[:, 0] += np.bincount(labels, minlength=k)
        for axis, column in enumerate(part):
            sums[:, 1 + axis] += _totals(labels, column, k)


def residual_totals(
    rule: NearestCentre, radii: Sequence[int], columns: Columns, *, rows: int
) -> IntArray:
    """Σ over the rows of a cluster of their residuals clipped to its radius in L1, (k, d).

    See ``gate.counts.Counter.residuals``.
    """
    assignment, k = Assignment(rule), len(rule.centres)
    least = np.array(radii, dtype=np.int64)
    sums = np.zeros((k, len(columns)), dtype=np.int64)
    for block in assignment.blocks(rows):
        part = [column[block] for column in columns]
        labels = assignment.labels(part)
        y = assignment.differences(part, labels)
        lengths = np.maximum(np.abs(y).sum(axis=0), least[labels])
        clipped = np.sign(y) * ((np.abs(y) << COORDINATE_BITS) // lengths)
        for axis, values in enumerate(clipped):
            sums[:, axis] += _totals(labels, values, k)
    return sums


def levels_by_centre(
    rule: NearestCentre, codes: NDArray[Any], levels: int, columns: Columns, *, rows: int
) -> IntArray:
    """Rows of every level in every cluster, (levels, k)."""
    assignment, k = Assignment(rule), len(rule.centres)
    table = np.zeros(levels * k, dtype=np.int64)
    for block in assignment.blocks(rows):
        labels = assignment.labels([column[block] for column in columns])
        np.add.at(table, codes[block].astype(np.int64) * k + labels, 1)
    return table.reshape(levels, k)


def _totals(labels: IntArray, values: NDArray[Any], k: int) -> IntArray:
    """Σ of values of at most 2^16 by label; floats hold all sums of fewer than 2^37 of them."""
    return np.bincount(labels, weights=values, minlength=k).astype(np.int64)
