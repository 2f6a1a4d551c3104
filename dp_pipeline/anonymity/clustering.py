"""k-anonymity by clustering: rows are released as the box around the rows of their cluster."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.boxes import BoxRule, boxes_around, level_starts
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, DistinctRows, KAnonymityGuarantee
from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.method import Recoding, unchanged_if_possible
from dp_pipeline.config.encoding import FloatArray, IntArray

FARTHEST = 1024  # largest distance of two rows in one column; sums stay far below 2^24
OUT_OF_REACH = 1 << 20  # above every distance of two rows
ROWS_AT_ONCE = 1024  # rows whose distances from all centres are computed in one array
ROUNDS = 5  # times that two centres move at most: more change little and cost in proportion


class Gower:
    """The Gower distance of two rows: the sum over columns of integers in 0..1024.

    In an ordered column the distance is 1024 times the steps between two values per step between
    the outermost, rounded up. Elsewhere, and between a value and a missing one, it is 0 or 1024.

    distances   for each column, the distances of its levels (levels, levels)
    starts      (d + 1,) as ``level_starts`` returns them

    Sums of integers are exact, so the nearest centre is the same on every machine.

    Source: Gower, "A general coefficient of similarity and some of its properties" (Biometrics
    1971).
    """

    def __init__(self, columns: tuple[Column, ...]) -> None:
        tables = []
        for column in columns:
            codes = np.arange(column.size)
            distances = np.where(codes[:, None] == codes, 0.0, FARTHEST)
            if column.ordered and column.value_count > 1:
                values = slice(column.value_count)
                steps = np.abs(codes[:, None] - codes)[values, values]
                scaled = np.ceil(steps * (FARTHEST / (column.value_count - 1)))
                distances[values, values] = np.minimum(scaled, FARTHEST)
            tables.append(distances)
        self.distances, self.starts = tuple(tables), level_starts(columns)

    def between(self, codes: NDArray[np.integer], targets: IntArray) -> FloatArray:
        """Return the distance (n,) of each row of codes (n, d) from that row of targets (n, d)."""
        pairs = zip(self.distances, codes.T, targets.T, strict=True)
        columns = [matrix[code, target] for matrix, code, target in pairs]
        return np.asarray(np.sum([np.zeros(len(codes)), *columns], axis=0))

    def from_centres(self, centres: IntArray) -> NDArray[np.float32]:
        """Return the distance of each level from the code that each of m centres (m, d) has in its
        column, for the levels of all columns one after the other (levels, m)."""
        parts = [matrix[:, centres[:, i]] for i, matrix in enumerate(self.distances)]
        return np.concatenate([np.zeros((0, len(centres))), *parts], dtype=np.float32)

    def nearest(self, codes: NDArray[np.integer], by_level: NDArray[np.float32]) -> IntArray:
        """Return the position of the nearest centre (n,) for codes (n, d); the first in a tie.

        by_level   (levels, m) distances of the centres, as ``from_centres`` returns them
        """
        nearest = np.zeros(len(codes), dtype=np.int64)
        for start in range(0, len(codes), ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            positions = self._positions(codes[block])
            one_hot = np.zeros((len(positions), self.starts[-1]), dtype=np.float32)
            np.put_along_axis(one_hot, positions, 1.0, axis=1)
            nearest[block] = np.argmin(one_hot @ by_level, axis=1)
        return nearest

    def middles(self, codes: NDArray[np.integer], weights: IntArray, groups: Groups) -> IntArray:
        """Return for each group the codes with the least total distance to its members (groups, d);
        in an ordered column these are medians.

        weights   (n,) number of rows that each row of codes (n, d) stands for
        """
        middles = np.zeros((0, len(self.distances)), dtype=np.int64)
        positions = self._positions(codes)
        for part in groups.parts(self.starts[-1]):
            counts = part.sum_by_level(positions, weights, self.starts[-1])
            by_column = zip(
                np.split(counts, self.starts[1:-1], axis=1), self.distances, strict=False
            )
            nearest = [(column @ matrix).argmin(axis=1) for column, matrix in by_column]
            codes_of_part = np.array(nearest, dtype=np.int64).reshape(-1, part.size).T
            middles = np.concatenate([middles, codes_of_part])
        return middles

    def _positions(self, codes: NDArray[np.integer]) -> IntArray:
        return np.asarray(codes + self.starts[:-1], dtype=np.int64)


@dataclass(frozen=True)
class CentreRule:
    """A rule that assigns each row to the box of the nearest centre; the first in a tie.

    source    the quasi-identifiers
    centres   the codes of each centre; box i is that of centre i
    """

    source: tuple[Column, ...]
    centres: tuple[tuple[int, ...], ...]

    @cached_property
    def _nearest(self) -> tuple[Gower, NDArray[np.float32]]:
        gower, shape = Gower(self.source), (len(self.centres), len(self.source))
        return gower, gower.from_centres(np.array(self.centres, dtype=np.int64).reshape(shape))

    def box_numbers(self, codes: NDArray[np.integer]) -> IntArray:
        gower, by_level = self._nearest
        return gower.nearest(codes, by_level)


@dataclass(frozen=True)
class ClusterKAnonymity:
    """k-anonymity by clustering: clusters above 2K rows are split, those below K are merged.

    Splitting: from one cluster of all rows on, each is divided between two centres, which start far
    apart and move to the middle of their rows. Merging: every cluster that keeps the guarantee has
    a centre, and rows belong to the nearest one. While the rows of some centres break the
    guarantee, the one with the fewest is dropped, and its rows go to the nearest of the rest. These
    only gain rows, so a guarantee that was kept stays kept. A class may have more than 2K rows.

    A row is released as the box around the rows of its class. Boxes overlap (local recoding), and
    with many rows in many columns they include nearly all values. A new row goes to the nearest
    centre, and may lie outside its box. A centre is the middle of K rows or more; it is published.

    Equal rows are in one class. The classes depend neither on the order of the rows nor on the
    seed. The label is read only where the guarantee asks for diversity.
    """

    summary: ClassVar[str] = "clusters of like rows, at least K each, released as boxes around them"

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:  # noqa: ARG002
        if (unchanged := unchanged_if_possible(rows, guarantee)) is not None:
            return unchanged
        clustering = _Clustering(rows, guarantee)
        centres = clustering.merge_centres(clustering.split_centres())
        finder = CentreRule(rows.columns, tuple(map(tuple, centres.tolist())))
        classes = Groups.of(finder.box_numbers(clustering.codes), len(centres))
        boxes = boxes_around(clustering.codes, rows.columns, classes)
        return Recoding.of_all(BoxRule(rows.columns, boxes, finder), rows)


class _Clustering:
    def __init__(self, rows: CodedRows, guarantee: KAnonymityGuarantee) -> None:
        distinct = DistinctRows.of(rows)
        self.codes, self.counts = distinct.codes.astype(np.int64), distinct.counts
        self.row_counts = distinct.counts.sum(axis=1)
        self.gower, self.guarantee = Gower(rows.columns), guarantee

    def split_centres(self) -> IntArray:
        """Split one cluster of all rows until clusters have at most 2K rows or cannot be split;
        return the distinct middles of those that keep the guarantee (m, d)."""
        most = 2 * max(self.guarantee.k, self.guarantee.diversity)
        centres, clusters = [], Groups.single(len(self.codes))
        while clusters.size:
            members = np.bincount(clusters.keys, minlength=clusters.size)
            rows = clusters.sum_by_group(self.row_counts[clusters.members])
            is_large = (rows > most) & (members > 1)
            centres.append(self._middles(clusters.select(~is_large)))
            clusters = clusters.select(is_large)
            halves = clusters.regroup(self._halves(clusters), 2 * clusters.size)
            counts = self._label_counts(halves.keys, halves.size, halves.members)
            is_kept = self.guarantee.is_met(counts)
            has_kept_half = np.asarray(is_kept.reshape(-1, 2).any(axis=1))
            centres.append(self._middles(clusters.select(~has_kept_half)))
            clusters = halves.select(is_kept)
        return np.unique(np.concatenate(centres), axis=0)

    def merge_centres(self, centres: IntArray) -> IntArray:
        """Drop centres until the rows nearest to each keep the guarantee; return those that remain.

        The next to drop has the fewest rows of all whose rows break the guarantee."""
        by_level = self.gower.from_centres(centres)
        nearest = self.gower.nearest(self.codes, by_level)
        counts = self._label_counts(nearest, len(centres), np.arange(len(nearest)))
        remains = np.ones(len(centres), dtype=np.bool_)
        while (is_broken := remains & ~self.guarantee.is_met(counts)).any():
            sizes = np.where(is_broken, counts.sum(axis=1), np.iinfo(np.int64).max)
            smallest = int(np.argmin(sizes))
            remains[smallest], by_level[:, smallest] = False, OUT_OF_REACH
            moved = np.flatnonzero(nearest == smallest)
            nearest[moved] = self.gower.nearest(self.codes[moved], by_level)
            np.add.at(counts, nearest[moved], self.counts[moved])
        return centres[remains]

    def _middles(self, groups: Groups) -> IntArray:
        return self.gower.middles(self.codes, self.row_counts, groups)

    def _label_counts(self, keys: IntArray, size: int, members: IntArray) -> IntArray:
        """Return the number of rows of each key and label (size, labels).

        members, keys   (members,) positions of distinct rows, and a key 0..size − 1 for each
        """
        counts = np.zeros((size, self.counts.shape[1]), dtype=np.int64)
        np.add.at(counts, keys, self.counts[members])
        return counts

    def _halves(self, clusters: Groups) -> IntArray:
        """Divide each cluster of two or more distinct rows in two; return the half to which each
        member belongs (members,).

        Cluster i has the halves 2i and 2i + 1; neither is empty."""
        codes, keys, size = self.codes[clusters.members], clusters.keys, 2 * clusters.size
        distance = self.gower.between
        first = codes[_farthest(distance(codes, self._middles(clusters)[keys]), clusters)]
        second = codes[_farthest(distance(codes, first[keys]), clusters)]
        centres, halves = np.stack([first, second], axis=1), 2 * keys
        for _ in range(ROUNDS):
            to_first, to_second = (distance(codes, centres[keys, half]) for half in (0, 1))
            moved = 2 * keys + (to_first > to_second)
            is_parted = np.asarray(np.bincount(moved, minlength=size).reshape(-1, 2).all(axis=1))
            moved = np.where(is_parted[keys], moved, halves)
            if np.array_equal(moved, halves):
                break
            halves = moved
            centres = self._middles(clusters.regroup(halves, size)).reshape(centres.shape)
        return halves


def _farthest(distances: FloatArray, groups: Groups) -> IntArray:
    """Return the index of the member with the largest distance in each group (groups,), the first
    in a tie.

    distances   (members,) one for each member of the groups
    """
    order = np.lexsort((-distances, groups.keys))
    return order[np.searchsorted(groups.keys, np.arange(groups.size))]
