"""Clustering-based k-anonymity: rows that are alike are released as the box around them, and which
of some typical rows another row is most like, by Gower's distance in whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.boxes import BoxRecoding, boxes_around, level_starts
from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.method import Recoded, kept_whole
from dp_pipeline.anonymity.partition import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.config.encoding import FloatArray, IntArray

_UNIT = 1024
"""What two rows are apart in one column at most. Sums stay far below 2^24: float32 is exact."""

OUT_OF_REACH = 1 << 20
"""Farther in one column than two rows can be."""

_ROWS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class Gower:
    """The sum over columns of a distance in 0..1024: for ordered columns the steps between two
    values in proportion to all of its steps, for others 1024 where they differ. A missing value
    is 1024 from every other.

    apart    one matrix a column, the distance of each two of its levels
    starts   where the levels of each column start when all lie in one line, and its end (d + 1,)

    Whole numbers: a row's nearest centre does not depend on the rows beside it.

    Source: Gower, "A general coefficient of similarity and some of its properties" (Biometrics
    1971).
    """

    apart: tuple[FloatArray, ...]
    starts: IntArray

    @classmethod
    def of(cls, columns: tuple[Column, ...]) -> Gower:
        """The distance over these columns."""
        return cls(tuple(_between_levels(column) for column in columns), level_starts(columns))

    def between(self, codes: NDArray[np.integer], others: IntArray) -> IntArray:
        """Distances (n,) of codes (n, d) from others (n, d), one each."""
        flat, firsts = self._flat
        steps = np.diff(self.starts)
        return np.asarray(flat[codes * steps + (firsts + others)].sum(axis=1))

    def from_centres(self, centres: IntArray) -> NDArray[np.float32]:
        """Distance of every level from centres (m, d): what ``nearest`` adds up, (levels, m)."""
        parts = [apart[:, centres[:, at]] for at, apart in enumerate(self.apart)]
        return np.concatenate([np.zeros((0, len(centres))), *parts], dtype=np.float32)

    def nearest(self, codes: NDArray[np.integer], by_level: NDArray[np.float32]) -> IntArray:
        """The number of the nearest centre, of equally near ones the first, for codes (n, d)."""
        found = np.zeros(len(codes), dtype=np.int64)
        for first in range(0, len(codes), _ROWS_AT_ONCE):
            some = slice(first, first + _ROWS_AT_ONCE)
            places = self._line(codes[some])
            bits = np.zeros((len(places), self.starts[-1]), dtype=np.float32)
            np.put_along_axis(bits, places, 1.0, axis=1)
            found[some] = np.argmin(bits @ by_level, axis=1)
        return found

    def middles(self, codes: NDArray[np.integer], weights: IntArray, groups: Groups) -> IntArray:
        """Of every group the codes (groups, d) of least total distance from its members' codes, of
        (n, d), each counted ``weights`` (n,) times: medians of ordered columns, the most frequent
        levels of others; the first of ties.
        """
        found = [self._middles(codes, weights, some) for some in groups.some(int(self.starts[-1]))]
        return np.concatenate([np.zeros((0, len(self.apart)), dtype=np.int64), *found])

    def _middles(self, codes: NDArray[np.integer], weights: IntArray, groups: Groups) -> IntArray:
        levels, members = self.starts[-1], groups.members
        cells = groups.keys[:, None] * levels + self._line(codes[members])
        each = np.repeat(weights[members], codes.shape[1])
        counts = np.bincount(cells.ravel(), each, minlength=groups.size * levels)
        counts = counts.reshape(groups.size, levels)
        best = np.zeros((groups.size, len(self.apart)), dtype=np.int64)
        for columns, apart in self._alike:
            of_levels = counts[:, self.starts[columns, None] + np.arange(apart.shape[1])]
            best[:, columns] = (of_levels.swapaxes(0, 1) @ apart).argmin(axis=2).T
        return best

    @cached_property
    def _flat(self) -> tuple[FloatArray, IntArray]:
        """All matrices in one line, and where each begins (d,)."""
        ends = np.cumsum([apart.size for apart in self.apart], dtype=np.int64)
        line = np.concatenate([np.zeros(0), *(apart.ravel() for apart in self.apart)])
        return line, np.append(0, ends)[:-1]

    @cached_property
    def _alike(self) -> list[tuple[IntArray, FloatArray]]:
        """Columns with equally many levels c, and their matrices (c, levels, levels)."""
        sizes = np.diff(self.starts)
        groups = [np.flatnonzero(sizes == size) for size in np.unique(sizes)]
        return [(columns, np.stack([self.apart[at] for at in columns])) for columns in groups]

    def _line(self, codes: NDArray[np.integer]) -> IntArray:
        """Places of codes (n, d) in the line of all levels."""
        return np.asarray(codes + self.starts[:-1], dtype=np.int64)


def _between_levels(column: Column) -> FloatArray:
    codes = np.arange(column.size)
    apart = np.where(codes[:, None] == codes, 0.0, _UNIT)
    if column.ordered and column.values > 1:
        steps = np.abs(codes[:, None] - codes)[: column.values, : column.values]
        scaled = np.ceil(steps * (_UNIT / (column.values - 1)))
        apart[: column.values, : column.values] = np.minimum(scaled, _UNIT)
    return apart


@dataclass(frozen=True)
class CentreRule:
    """The rule of a clustering, for rows that it was made of and for others alike.

    source    the columns
    centres   one code a column each; the first of equally near ones counts
    """

    source: tuple[Column, ...]
    centres: tuple[tuple[int, ...], ...]

    @cached_property
    def _distance(self) -> Gower:
        return Gower.of(self.source)

    @cached_property
    def _by_level(self) -> NDArray[np.float32]:
        shape = len(self.centres), len(self.source)
        return self._distance.from_centres(np.array(self.centres, dtype=np.int64).reshape(shape))

    def places(self, codes: NDArray[np.integer]) -> IntArray:
        """The number of the nearest centre of every row (n,), of codes (n, d)."""
        return self._distance.nearest(codes, self._by_level)


_ROUNDS = 5
"""Of moving two centres. More change little and cost in proportion."""


@dataclass(frozen=True)
class ClusterKAnonymity:
    """Clusters of more than 2K rows are split, those of fewer than K join the nearest others.

    Splitting: from one cluster of all rows, each is parted by two centres, which start far apart
    and move to the middle of their rows. Merging: every cluster that keeps the promise has a
    centre; rows go to the nearest one; while some centre has rows that break the promise, the
    one of fewest rows goes, and its rows to the nearest of the rest. The others only gain rows
    by that, so what was kept stays kept. A class may end with more than 2K rows.

    A row is released as the box around the rows of its class: an interval of an ordered column, a
    set of levels of others. Boxes overlap (local recoding), and those of many rows in many columns
    come near to any value at all. A row that the classes were not made of goes to the nearest
    centre, and may lie outside that box. A centre is the middle of K rows or more, one level a
    column; it is part of the rule, and published with it.

    Equal rows are in one class, and nothing is drawn: the classes depend neither on the order of
    the rows nor on the seed. The label is read where the promise asks for diversity. Nothing is
    left out, whatever the promise allows to.
    """

    summary: ClassVar[str] = "clusters of like rows, at least K each, released as boxes around them"

    def recode(self, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:  # noqa: ARG002
        """The boxes of the clusters, and their centres."""
        if (kept := kept_whole(rows, promise)) is not None:
            return kept
        patterns = _Patterns.of(rows)
        centres = _merged(patterns, _split(patterns, promise), promise)
        finder = CentreRule(rows.columns, tuple(map(tuple, centres.tolist())))
        classes = Groups.of(finder.places(patterns.codes), len(centres))
        boxes = boxes_around(patterns.codes, rows.columns, classes)
        nobody = np.zeros(len(rows), dtype=np.bool_)
        return Recoded(BoxRecoding(rows.columns, boxes, finder), nobody)


@dataclass(frozen=True, eq=False)
class _Patterns:
    """The different rows, in order.

    codes    (m, d)
    counts   (m, labels) how many rows there are of each
    """

    codes: IntArray
    counts: IntArray
    distance: Gower

    @classmethod
    def of(cls, rows: CodedRows) -> _Patterns:
        different, pattern_of = np.unique(rows.codes, axis=0, return_inverse=True)
        labels = len(rows.target_levels)
        keys = pattern_of.ravel() * labels + rows.target
        counts = np.bincount(keys, minlength=len(different) * labels).reshape(-1, labels)
        return cls(different.astype(np.int64), counts, Gower.of(rows.columns))

    @cached_property
    def rows(self) -> IntArray:
        """Of each pattern (m,)."""
        return np.asarray(self.counts.sum(axis=1))

    def keep(self, groups: Groups, promise: KAnonymityGuarantee) -> NDArray[np.bool_]:
        """Whether the rows of each group keep the promise as one class (groups,)."""
        counts = np.zeros((groups.size, self.counts.shape[1]), dtype=np.int64)
        np.add.at(counts, groups.keys, self.counts[groups.members])
        return np.logical_not(_breaks(counts, promise))

    def middles(self, groups: Groups) -> IntArray:
        """The centre of each group (groups, d)."""
        return self.distance.middles(self.codes, self.rows, groups)


def _breaks(counts: IntArray, promise: KAnonymityGuarantee) -> NDArray[np.bool_]:
    """Which classes (m,) do not keep the promise, or are empty; labels of each (m, labels)."""
    few_rows = counts.sum(axis=1) < max(1, promise.k)
    return np.asarray(few_rows | (np.count_nonzero(counts, axis=1) < promise.diversity))


def _split(patterns: _Patterns, promise: KAnonymityGuarantee) -> IntArray:
    """Centres (m, d) of clusters that keep the promise, of at most 2K rows where they can be."""
    most = 2 * max(promise.k, promise.diversity)
    found, clusters = [], Groups.one(len(patterns.codes))
    while clusters.size:
        members = np.bincount(clusters.keys, minlength=clusters.size)
        large = (clusters.total(patterns.rows[clusters.members]) > most) & (members > 1)
        found.append(patterns.middles(clusters.only(np.logical_not(large))))
        clusters = clusters.only(large)
        halves = clusters.parted(_halves(patterns, clusters), 2 * clusters.size)
        kept = patterns.keep(halves, promise)
        is_parted = np.asarray(kept.reshape(-1, 2).any(axis=1))
        found.append(patterns.middles(clusters.only(np.logical_not(is_parted))))
        clusters = halves.only(kept)
    return np.unique(np.concatenate(found), axis=0)


def _halves(patterns: _Patterns, clusters: Groups) -> IntArray:
    """The half of each member, clusters having two patterns or more: twice the number of its
    cluster, or that and one. No half is empty.
    """
    codes, distance, keys = patterns.codes[clusters.members], patterns.distance, clusters.keys
    one = codes[_farthest(distance.between(codes, patterns.middles(clusters)[keys]), clusters)]
    other = codes[_farthest(distance.between(codes, one[keys]), clusters)]
    centres, halves, many = np.stack([one, other], axis=1), 2 * keys, 2 * clusters.size
    for _ in range(_ROUNDS):
        to_one, to_other = (distance.between(codes, centres[keys, half]) for half in (0, 1))
        moved = 2 * keys + (to_one > to_other)
        is_parted = np.asarray(np.bincount(moved, minlength=many).reshape(-1, 2).all(axis=1))
        moved = np.where(is_parted[keys], moved, halves)
        if np.array_equal(moved, halves):
            break
        halves = moved
        centres = patterns.middles(clusters.parted(halves, many)).reshape(centres.shape)
    return halves


def _farthest(distances: IntArray, groups: Groups) -> IntArray:
    """Of every group the place of its farthest member, of equally far ones the first (groups,)."""
    order = np.lexsort((-distances, groups.keys))
    return order[np.searchsorted(groups.keys, np.arange(groups.size))]


def _merged(patterns: _Patterns, centres: IntArray, promise: KAnonymityGuarantee) -> IntArray:
    """Those of the centres that are left when the rows nearest to each keep the promise."""
    by_level = patterns.distance.from_centres(centres)
    places = patterns.distance.nearest(patterns.codes, by_level)
    counts = np.zeros((len(centres), patterns.counts.shape[1]), dtype=np.int64)
    np.add.at(counts, places, patterns.counts)
    left = np.ones(len(centres), dtype=np.bool_)
    while (bad := left & _breaks(counts, promise)).any():
        fewest = int(np.argmin(np.where(bad, counts.sum(axis=1), np.iinfo(np.int64).max)))
        left[fewest], by_level[:, fewest] = False, OUT_OF_REACH
        moved = np.flatnonzero(places == fewest)
        places[moved] = patterns.distance.nearest(patterns.codes[moved], by_level)
        np.add.at(counts, places[moved], patterns.counts[moved])
    return centres[left]
