"""Exact distances from released rows to the nearest real row, and the share of copies.

Buckets of equal parts of rows rule out most pairs without comparing them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.metrics.equivalence_classes import class_ids
from dp_pipeline.metrics.marginals import MOST_PLACES

_BUCKETS = 1 << 16
# An odd number near 2^16 / golden ratio, which spreads neighbouring codes over distant buckets.
_SPREAD = np.uint16(40503)
_ROWS_A_BLOCK = 1 << 22  # Real rows that are sorted into buckets at a time
_ROWS_A_LOOK = 1 << 16
_A_LOOK = 1 << 12  # Cost of opening a bucket, in compared rows
_A_ROW = 4  # Cost of sorting a row into its bucket, in compared rows


def distance_to_closest_record(
    real: Mapping[str, NDArray[Any]], released: Mapping[str, NDArray[Any]]
) -> float:
    """Return the mean share of attributes in which released rows differ from the nearest real one.

    real, released   attribute → codes, the same attributes in both, at least one

    It is in 0..1, and 0 where every released row is also a real one; NaN if either table is empty.
    Of more than ``MOST_PLACES`` released rows a seeded sample is compared, but with all real rows,
    since the nearest of a sample would be further away. It is a sanity check and **no** guarantee
    of privacy: rows of a small domain are close to real ones under any method, and a distance says
    nothing about who was in the data.

    >>> import numpy as np
    >>> real = {"a": np.array([0, 1]), "b": np.array([0, 1])}
    >>> distance_to_closest_record(real, {"a": np.array([0, 0]), "b": np.array([0, 1])})
    0.25
    """
    names = list(real)
    if len(real[names[0]]) == 0 or len(released[names[0]]) == 0:
        return float("nan")
    sampled = np.random.default_rng(0).permutation(len(released[names[0]]))[:MOST_PLACES]
    sizes = [1 + max(int(real[name].max()), int(released[name].max())) for name in names]
    # Attributes with many codes first, so that every part gets some of them.
    order = [names[index] for index in np.argsort(sizes, kind="stable")[::-1]]
    smallest = np.min_scalar_type(max(sizes) - 1)
    queries, query_of_row = np.unique(
        np.stack([released[name][sampled].astype(smallest) for name in order]),
        axis=1,
        return_inverse=True,
    )
    nearest = np.full(queries.shape[1], len(names), dtype=np.int64)
    for start in range(0, len(real[names[0]]), _ROWS_A_BLOCK):
        block = slice(start, start + _ROWS_A_BLOCK)
        table = np.stack([real[name][block].astype(smallest) for name in order])
        nearest = least_differences(table, queries, nearest)
    return float(nearest[query_of_row].mean()) / len(names)


def share_of_copies(
    real: Mapping[str, NDArray[Any]], released: Mapping[str, NDArray[Any]]
) -> tuple[float, float]:
    """Return the share of released rows that equal a real row, and the share of real rows that
    equal another real row, to compare the first with.

    real, released   attribute → codes, the same attributes in both, at least one

    Both are NaN without real rows, the first also without released ones. Like
    ``distance_to_closest_record`` it is a sanity check and no guarantee.

    >>> import numpy as np
    >>> share_of_copies({"a": np.array([0, 0, 1])}, {"a": np.array([1, 2])})
    (0.5, 0.6666666666666666)
    """
    names = list(real)
    n = len(real[names[0]])
    both = [np.concatenate([real[name], released[name]]) for name in names]
    ids, sizes = class_ids(np.stack(both, axis=1))
    of_real = np.bincount(ids[:n], minlength=len(sizes))
    is_copy, is_twin = of_real[ids[n:]] > 0, of_real[ids[:n]] > 1
    copies = float(is_copy.mean()) if n and len(is_copy) else float("nan")
    return copies, float(is_twin.mean()) if n else float("nan")


def least_differences(table: NDArray[Any], queries: NDArray[Any], earlier: IntArray) -> IntArray:
    """Return the fewest attributes in which any row of a table differs from each query, (n,).

    table, queries   codes (attributes, rows) and (attributes, n): a query is a column
    earlier          the result for other tables (n,); the smaller number of both is returned

    Attributes are divided into 1, 2, 3 … parts. A row that differs in fewer attributes than there
    are parts agrees in at least one part, so only rows in the bucket of a part are compared, and
    the others are at least so far away. All rows are compared where buckets would save less than
    half of the work.
    """
    nearest = earlier.copy()
    for parts in range(1, len(table) + 1):
        undecided = np.flatnonzero(nearest >= parts)
        if len(undecided) == 0:
            break
        for part in range(parts):
            rows_of_part = slice(part, None, parts)
            buckets = _PartBuckets(table[rows_of_part], queries[rows_of_part, undecided])
            if 2 * parts * buckets.cost > len(undecided) * table.shape[1]:
                distances = [_least_difference(table, queries[:, index]) for index in undecided]
                nearest[undecided] = np.minimum(nearest[undecided], distances)
                return nearest
            for index, candidates in zip(undecided, buckets.columns(table), strict=True):
                nearest[index] = min(
                    nearest[index], _least_difference(candidates, queries[:, index])
                )
    return nearest


class _PartBuckets:
    """The buckets of rows and queries by one part of their attributes, to find equal parts."""

    def __init__(self, table: NDArray[Any], queries: NDArray[Any]) -> None:
        self.buckets, self.queried = _buckets(table), _buckets(queries)
        self.counts = np.bincount(self.buckets, minlength=_BUCKETS)

    @property
    def cost(self) -> int:
        """The cost of comparing all queries, as a number of compared rows."""
        pairs = int(self.counts[self.queried].sum())
        return pairs + _A_LOOK * len(self.queried) + _A_ROW * len(self.buckets)

    def columns(self, table: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Yield, for every query, the columns of ``table`` in its bucket."""
        has_query = np.zeros(_BUCKETS, dtype=np.bool_)
        has_query[self.queried] = True
        rows = np.flatnonzero(has_query[self.buckets])
        rows = rows[np.argsort(self.buckets[rows], kind="stable")]
        ends = np.cumsum(np.where(has_query, self.counts, 0))
        chosen = table.take(rows, axis=1)
        for bucket in self.queried.tolist():
            yield chosen[:, ends[bucket] - self.counts[bucket] : ends[bucket]]


def _buckets(columns: NDArray[Any]) -> NDArray[np.uint16]:
    """Return a bucket number for each of n columns (n,), equal for equal columns."""
    buckets = np.zeros(columns.shape[1], dtype=np.uint16)
    for codes in columns:
        buckets *= _SPREAD
        buckets += codes.astype(np.uint16)
    return buckets


def _least_difference(table: NDArray[Any], query: NDArray[Any]) -> int:
    """Return the fewest attributes in which a row differs from a query; len(table) without rows."""
    nearest, count_type = len(table), np.min_scalar_type(len(table))
    for start in range(0, table.shape[1], _ROWS_A_LOOK):
        block = table[:, start : start + _ROWS_A_LOOK]
        # As bytes, of which many are added at a time.
        is_different = np.not_equal(block, query[:, None]).view(np.uint8)
        nearest = min(nearest, int(is_different.sum(axis=0, dtype=count_type).min()))
    return nearest
