"""How far released rows are from the nearest real one: exact, and without comparing all pairs.

How many of them equal a real one.

Buckets of equal parts of rows rule out all rows but few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.metrics.equivalence_classes import class_ids
from dp_pipeline.metrics.marginals import MOST_PLACES

_BUCKETS = 1 << 16
_SPREAD = np.uint16(40503)
"""An odd number near 2^16 divided by the golden ratio: neighbouring codes get far buckets."""

_ROWS_A_BLOCK = 1 << 22
"""Real rows that are put into buckets at a time."""

_ROWS_A_LOOK = 1 << 16

_A_LOOK = 1 << 12
"""Rows that are compared in the time that it takes to look into a bucket at all."""

_A_ROW = 4
"""Rows that are compared in the time that it takes to put one into its bucket."""


def distance_to_closest_record(
    real: Mapping[str, NDArray[Any]], released: Mapping[str, NDArray[Any]]
) -> float:
    """Mean over released rows of the share of attributes in which the nearest real row differs.

    real, released   attribute → codes, the same attributes in both, at least one

    In 0..1: 0 where every released row is also a real one. NaN where either table is empty.
    Of many released rows ``MOST_PLACES`` are looked at, and all real ones always: the nearest of a
    sample would be further away than the nearest of all, by nobody knows how much.
    A sanity figure and **no** guarantee of privacy: rows of a small domain are close to real ones
    whatever the method, and a distance says nothing about who was in the data.

    >>> import numpy as np
    >>> real = {"a": np.array([0, 1]), "b": np.array([0, 1])}
    >>> distance_to_closest_record(real, {"a": np.array([0, 0]), "b": np.array([0, 1])})
    0.25
    """
    names = list(real)
    if len(real[names[0]]) == 0 or len(released[names[0]]) == 0:
        return float("nan")
    chosen = np.random.default_rng(0).permutation(len(released[names[0]]))[:MOST_PLACES]
    sizes = [1 + max(int(real[name].max()), int(released[name].max())) for name in names]
    # Attributes with many codes first: dealt out in turn, every part has some of them.
    order = [names[at] for at in np.argsort(sizes, kind="stable")[::-1]]
    smallest = np.min_scalar_type(max(sizes) - 1)
    places, back = np.unique(
        np.stack([released[name][chosen].astype(smallest) for name in order]),
        axis=1,
        return_inverse=True,
    )
    nearest = np.full(places.shape[1], len(names), dtype=np.int64)
    for start in range(0, len(real[names[0]]), _ROWS_A_BLOCK):
        block = slice(start, start + _ROWS_A_BLOCK)
        table = np.stack([real[name][block].astype(smallest) for name in order])
        nearest = nearest_rows(table, places, nearest)
    return float(nearest[back].mean()) / len(names)


def share_of_copies(
    real: Mapping[str, NDArray[Any]], released: Mapping[str, NDArray[Any]]
) -> tuple[float, float]:
    """Share of the released rows that equal a real one, and of the real rows that equal another
    real one: what the first number is worth. NaN where there is nothing to share.

    real, released   attribute → codes, the same attributes in both, at least one

    As ``distance_to_closest_record`` a sanity figure and no guarantee.

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


def nearest_rows(table: NDArray[Any], places: NDArray[Any], known: IntArray) -> IntArray:
    """For every column of ``places`` in how many rows the most similar column of ``table`` differs.

    known   the answer for other tables: the smaller number of each is given

    Attributes are dealt out into 1, 2, 3 … parts. A row that differs in fewer attributes than
    there are parts agrees in one part at least, so only rows that share the bucket of a part are
    compared. What was not found with so many parts is that far away: nearer rows are ruled out.
    All rows are compared where buckets would save less than half of the work.
    """
    nearest = known.copy()
    for parts in range(1, len(table) + 1):
        open_ = np.flatnonzero(nearest >= parts)
        if len(open_) == 0:
            break
        for part in range(parts):
            own = slice(part, None, parts)
            side = _Side.of(table[own], places[own, open_])
            if 2 * parts * side.cost > len(open_) * table.shape[1]:
                found = [_nearest(table, places[:, at]) for at in open_]
                nearest[open_] = np.minimum(nearest[open_], found)
                return nearest
            for at, rows in zip(open_, side.columns(table), strict=True):
                nearest[at] = min(nearest[at], _nearest(rows, places[:, at]))
    return nearest


@dataclass(frozen=True, eq=False)
class _Side:
    """Rows that share the bucket of a part with one of the places.

    buckets   of all rows
    asked     of the places
    counts    rows of every bucket
    """

    buckets: NDArray[np.uint16]
    asked: NDArray[np.uint16]
    counts: IntArray

    @classmethod
    def of(cls, table: NDArray[Any], places: NDArray[Any]) -> _Side:
        buckets, asked = _buckets(table), _buckets(places)
        return cls(buckets, asked, np.bincount(buckets, minlength=_BUCKETS))

    @property
    def cost(self) -> int:
        """Rows to compare over all places, or what takes as long."""
        pairs = int(self.counts[self.asked].sum())
        return pairs + _A_LOOK * len(self.asked) + _A_ROW * len(self.buckets)

    def columns(self, table: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """For every place the columns of ``table`` in its bucket."""
        is_asked = np.zeros(_BUCKETS, dtype=np.bool_)
        is_asked[self.asked] = True
        rows = np.flatnonzero(is_asked[self.buckets])
        rows = rows[np.argsort(self.buckets[rows], kind="stable")]
        ends = np.cumsum(np.where(is_asked, self.counts, 0))
        chosen = table.take(rows, axis=1)
        for bucket in self.asked.tolist():
            yield chosen[:, ends[bucket] - self.counts[bucket] : ends[bucket]]


def _buckets(columns: NDArray[Any]) -> NDArray[np.uint16]:
    """A bucket for every column; equal columns have the same one."""
    buckets = np.zeros(columns.shape[1], dtype=np.uint16)
    for codes in columns:
        buckets *= _SPREAD
        buckets += codes.astype(np.uint16)
    return buckets


def _nearest(table: NDArray[Any], place: NDArray[Any]) -> int:
    """In how many rows the most similar column differs from ``place``; all of them if none is."""
    nearest, number = len(table), np.min_scalar_type(len(table))
    for start in range(0, table.shape[1], _ROWS_A_LOOK):
        block = table[:, start : start + _ROWS_A_LOOK]
        # As numbers of one byte, which are added many at a time.
        differs = np.not_equal(block, place[:, None]).view(np.uint8)
        nearest = min(nearest, int(differs.sum(axis=0, dtype=number).min()))
    return nearest
