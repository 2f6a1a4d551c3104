"""Trees of boxes, each cut in two as long as both sides keep the guarantee, and two choices of the
cuts: Mondrian halves boxes where they are widest, Tree cuts them as a classification tree does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.boxes import BoxRule, BoxTree, Fork, fill_gaps
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.method import Recoding, cumulative_bits, unchanged_if_possible
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.parameters import integer

NO_CUT = -1


def level_starts(columns: Sequence[Column]) -> IntArray:
    """Return the positions at which the levels of each column start in one sequence, and its end
    (d + 1,)."""
    return np.cumsum([0, *(column.size for column in columns)])


@dataclass(frozen=True, eq=False)
class LevelLine:
    """The levels of all columns in one sequence, in which each cumulative bit is a range.

    rows         distinct rows
    counts       (n,) number of rows equal to each
    positions    (n, d) position in the sequence of each code
    columns      (bits,) column of each bit
    first, end   (bits,) range of levels where each bit is true
    levels       number of levels in the sequence
    """

    rows: CodedRows
    counts: IntArray
    positions: IntArray
    columns: IntArray
    first: IntArray
    end: IntArray
    levels: int

    @classmethod
    def of(cls, rows: CodedRows, counts: IntArray) -> LevelLine:
        starts, bits = level_starts(rows.columns), cumulative_bits(rows.columns)
        columns = np.array([bit.column for bit in bits], dtype=np.int64)
        runs = [bit.code_range(rows.columns) for bit in bits]
        first, end = (np.array(runs, dtype=np.int64).reshape(-1, 2) + starts[columns, None]).T
        positions = rows.codes.astype(np.int64) + starts[:-1]
        return cls(rows, counts, positions, columns, first, end, int(starts[-1]))

    @property
    def labels(self) -> int:
        return len(self.rows.target_levels)

    def answers(self, members: IntArray, bits: IntArray) -> NDArray[np.bool_]:
        """Return the answer of each of some rows to one bit each (members,)."""
        position = self.positions[members, self.columns[bits]]
        return np.asarray((position >= self.first[bits]) & (position < self.end[bits]))

    def sum_by_level(
        self, members: IntArray, keys: IntArray, size: int, numbers: NDArray[Any]
    ) -> FloatArray:
        """Return the sums of ``numbers`` over members, by their key and levels (size, levels).

        members, keys, numbers   (members,) positions of rows, with a key and a number each
        size                     number of keys
        """
        cells = (keys[:, None] * self.levels + self.positions[members]).ravel()
        weights = np.repeat(numbers, self.positions.shape[1])
        sums = np.bincount(cells, weights, minlength=size * self.levels)
        return np.asarray(sums.reshape(size, self.levels))

    def sum_by_bit(self, by_level: NDArray[Any]) -> NDArray[Any]:
        """Return the sums over rows where each bit is true (…, bits), from the sums for each level
        (…, levels)."""
        before = np.zeros((*by_level.shape[:-1], self.levels + 1), dtype=by_level.dtype)
        np.cumsum(by_level, axis=-1, out=before[..., 1:])
        return np.asarray(before[..., self.end] - before[..., self.first])

    def forks(self, bits: IntArray, sides: IntArray) -> list[Fork]:
        """Return the forks for some bits, given the nodes of their two sides (bits, 2)."""
        columns = self.columns[bits]
        starts = level_starts(self.rows.columns)[columns]
        fields = columns, self.first[bits] - starts, self.end[bits] - starts, *sides.T
        return [Fork(*fork) for fork in np.column_stack(fields).tolist()]


@dataclass(frozen=True, eq=False)
class Cuts:
    """The numbers of rows on both sides of all cuts of some boxes by cumulative bits.

    boxes   boxes, as groups of the line's rows
    """

    line: LevelLine
    boxes: Groups
    guarantee: KAnonymityGuarantee

    @cached_property
    def levels(self) -> IntArray:
        """The number of rows on each level, column after column (labels, boxes, levels)."""
        labels, size, members = self.line.labels, self.boxes.size, self.boxes.members
        keys = self.line.rows.target[members] * size + self.boxes.keys
        # Sums of integers below 2^53: exact.
        sums = self.line.sum_by_level(members, keys, labels * size, self.line.counts[members])
        return sums.reshape(labels, size, -1).astype(np.int64)

    @cached_property
    def box_counts(self) -> IntArray:
        """The number of rows of each label in each box (labels, boxes, 1)."""
        first = self.line.rows.columns[0]
        return np.asarray(self.levels[..., : first.size].sum(axis=-1, keepdims=True))

    @cached_property
    def yes(self) -> IntArray:
        """The number of rows where each bit is true (labels, boxes, bits)."""
        return np.asarray(self.line.sum_by_bit(self.levels))

    @cached_property
    def no(self) -> IntArray:
        """The number of rows where each bit is false (labels, boxes, bits)."""
        return self.box_counts - self.yes

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """Whether both sides of each cut keep the guarantee (boxes, bits)."""
        sides = (self.guarantee.is_met(side, axis=0) for side in (self.yes, self.no))
        return np.logical_and(*sides)

    @cached_property
    def evenness(self) -> IntArray:
        """The number of rows on the smaller side of each cut (boxes, bits)."""
        return np.asarray(np.minimum(self.yes.sum(axis=0), self.no.sum(axis=0)))

    def best(self, gains: NDArray[Any], offered: NDArray[np.bool_] | None = None) -> IntArray:
        """Return the allowed bit with the largest gain for each box (boxes,), the first of equal
        ones; NO_CUT if there is none.

        gains     (boxes, bits), none negative
        offered   (boxes, bits) whether an allowed bit may be chosen; None: all may
        """
        is_offered = self.allowed if offered is None else self.allowed & offered
        bits = np.where(is_offered, gains, -1).argmax(axis=1)
        return np.where(is_offered.any(axis=1), bits, NO_CUT)

    def totals(self, numbers: FloatArray) -> FloatArray:
        """Return sums of ``numbers`` over rows of each box where each bit is true (boxes, bits)."""
        members, keys, size = self.boxes.members, self.boxes.keys, self.boxes.size
        by_level = self.line.sum_by_level(members, keys, size, numbers[members])
        return np.asarray(self.line.sum_by_bit(by_level))


Choose = Callable[[Cuts], IntArray]
"""From the cuts of some boxes to the bit of each box's cut (boxes,), or NO_CUT. A cut that is not
allowed is never made.
"""


def grow(
    kinds: CodedRows, counts: IntArray, guarantee: KAnonymityGuarantee, choose: Choose
) -> BoxTree:
    """Return the tree that cuts the box of all rows until no cut is allowed or chosen.

    kinds    distinct rows, labels included, so that the tree does not depend on an order
    counts   (kinds,) number of rows equal to each
    """
    line, boxes = LevelLine.of(kinds, counts), Groups.single(len(kinds))
    nodes: list[Fork | None] = [None]
    node_of_box = np.zeros(1, dtype=np.int64)
    while boxes.size and len(line.columns):
        bits = _chosen_bits(line, boxes, guarantee, choose)
        is_cut = bits != NO_CUT
        sides = np.zeros((boxes.size, 2), dtype=np.int64)
        sides[is_cut] = len(nodes) + np.arange(2 * np.count_nonzero(is_cut)).reshape(-1, 2)
        forks = line.forks(bits[is_cut], sides[is_cut])
        for node, fork in zip(node_of_box[is_cut].tolist(), forks, strict=True):
            nodes[node] = fork
        nodes += [None] * (2 * np.count_nonzero(is_cut))
        answers = line.answers(boxes.members, bits[boxes.keys])
        halves = boxes.regroup(2 * boxes.keys + answers, 2 * boxes.size)
        # Only a side with enough rows for two classes can be cut again.
        least = 2 * max(1, guarantee.k, guarantee.diversity)
        is_large = halves.total(counts[halves.members]) >= least
        is_large &= np.repeat(is_cut, 2)
        boxes, node_of_box = halves.select(is_large), sides.ravel()[is_large]
    return BoxTree(tuple(nodes))


def _chosen_bits(
    line: LevelLine, boxes: Groups, guarantee: KAnonymityGuarantee, choose: Choose
) -> IntArray:
    chosen = []
    for part in boxes.parts(line.levels * line.labels):
        cuts = Cuts(line, part, guarantee)
        bits = choose(cuts)
        chosen.append(np.where(cuts.allowed[np.arange(part.size), bits], bits, NO_CUT))
    return np.concatenate(chosen)


def cut_into_boxes(
    rows: CodedRows, guarantee: KAnonymityGuarantee, choose: Choose, *, least: int = 1
) -> Recoding:
    """Return the recoding by the boxes of a grown tree, under which the rows keep the guarantee.

    choose   choice among the allowed cuts
    least    fewest rows of a box, where K is less

    No row is left out. Rows are unchanged where the guarantee is empty. TooFewRows as
    ``Method.recode``.
    """
    if (unchanged := unchanged_if_possible(rows, guarantee)) is not None:
        return unchanged
    tree = grow(*rows.kinds(), replace(guarantee, k=max(guarantee.k, least)), choose)
    return Recoding.of_all(BoxRule(rows.columns, tree.boxes(rows.columns), tree), rows)


@dataclass(frozen=True)
class Mondrian:
    """Strict multidimensional partitioning (Mondrian): boxes are cut while both sides can keep the
    guarantee.

    So no box of the result can be cut by any threshold or level.

    A box is cut along the widest column that has an allowed cut. Width is the share of a column's
    levels that the rows of the box span: for an ordered column from their lowest value to their
    highest, missing values counting as one more level; for others, the levels that occur. The cut
    is the one nearest to halves, along this column or one equally wide: the median wherever the
    guarantee allows it. In a tie, the first.

    An ordered column is cut at a threshold: missing values stay on the lower side, or are cut off
    alone. In other columns one level is cut off from all others of the box, which are released as a
    set. The label is read only where the guarantee asks for diversity.

    Source: LeFevre, DeWitt, Ramakrishnan, "Mondrian multidimensional k-anonymity" (ICDE 2006). The
    cuts of columns without an order are ours, as the paper presumes a hierarchy for them; so is the
    choice between equally wide columns, where the first declared would always be cut.
    """

    summary: ClassVar[str] = "boxes cut in halves along their widest column, without the label"

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:  # noqa: ARG002
        def most_even_of_widest(cuts: Cuts) -> IntArray:
            is_present = np.asarray(cuts.levels.any(axis=0))
            widths = spanned_shares(is_present, rows.columns)[:, cuts.line.columns]
            widest = np.where(cuts.allowed, widths, -1.0).max(axis=1, keepdims=True)
            return cuts.best(cuts.evenness, widths == widest)

        return cut_into_boxes(rows, guarantee, most_even_of_widest)


def spanned_shares(is_present: NDArray[np.bool_], columns: tuple[Column, ...]) -> FloatArray:
    """Return the share of each column's levels that the rows of a box span (boxes, d); 0 for one
    level.

    is_present   whether the box has rows on each level, column after column (boxes, levels)
    """
    starts = level_starts(columns)
    shares = np.zeros((len(is_present), len(columns)))
    for i, column in enumerate(columns):
        spanned = fill_gaps(is_present[:, starts[i] : starts[i + 1]], column)
        shares[:, i] = (spanned.sum(axis=1) - 1) / max(1, column.size - 1)
    return shares


@dataclass(frozen=True)
class Tree:
    """A classification tree over cumulative bits whose leaves keep the guarantee.

    A row is released as the box of its leaf.

    least   fewest rows of a leaf, where K is less

    Each box is cut by the bit that most lowers Gini impurity among those whose two sides keep the
    guarantee and have ``least`` rows, the first of equal ones. Where no cut makes a box purer, it
    is cut nearest to halves: the boxes are as fine as they may be.

    Source: Breiman, Friedman, Olshen, Stone, "Classification and regression trees" (1984).
    """

    summary: ClassVar[str] = "leaves of a classification tree with at least K rows each"

    least: int = integer(25, at_least=1, at_most=10**6, measuring=True)

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:  # noqa: ARG002
        return cut_into_boxes(rows, guarantee, _purest, least=self.least)


def _purest(cuts: Cuts) -> IntArray:
    """Return the cut of each box with the purest sides, or the most even one if no cut makes it
    purer."""
    purity = _purity(cuts.yes) + _purity(cuts.no)
    best = cuts.best(purity)
    # A gain within rounding is none.
    of_box = _purity(cuts.box_counts)[:, 0] * (1 + 1e-12)
    is_purer = purity[np.arange(len(best)), best] > of_box
    return np.where(is_purer, best, cuts.best(cuts.evenness))


def _purity(counts: IntArray) -> FloatArray:
    """Return the purity Σ_y n_y² / n (boxes, bits), from counts n_y (labels, boxes, bits)."""
    return np.asarray((counts**2).sum(axis=0) / np.maximum(1, counts.sum(axis=0)))
