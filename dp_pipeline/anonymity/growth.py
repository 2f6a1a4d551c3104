"""Trees of boxes that are cut in two while both sides keep the guarantee, and the methods Mondrian
and Tree, which differ in the choice of the cuts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.boxes import BoxRule, BoxTree, Fork, fill_gaps, level_starts
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.method import Recoding, cumulative_bits, unchanged_if_possible
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.parameters import integer

NO_CUT = -1


class LevelLine:
    """The levels of all columns in one sequence, in which each cumulative bit is true on a range.

    rows         distinct rows
    counts       (n,) number of rows equal to each
    labels       number of labels
    levels       number of levels in the sequence
    positions    (n, d) position of each code in the sequence
    ranges       (bits, 3) column, and first code and end, of each cumulative bit
    columns      (bits,) position of each bit's column
    first, end   (bits,) range of positions in the sequence where each bit is true
    """

    def __init__(self, rows: CodedRows, counts: IntArray) -> None:
        self.rows, self.counts, self.labels = rows, counts, len(rows.target_levels)
        starts, bits = level_starts(rows.columns), cumulative_bits(rows.columns)
        self.positions, self.levels = rows.codes.astype(np.int64) + starts[:-1], int(starts[-1])
        ranges = [(bit.column, *bit.code_range(rows.columns)) for bit in bits]
        self.ranges = np.array(ranges, dtype=np.int64).reshape(-1, 3)
        self.columns = self.ranges[:, 0]
        self.first, self.end = (self.ranges[:, 1:] + starts[self.columns, None]).T

    def sum_by_bit(self, by_level: NDArray[Any]) -> NDArray[Any]:
        """Return sums over the rows where each bit is true (…, bits), from sums over the rows of
        each level (…, levels)."""
        before = np.zeros((*by_level.shape[:-1], self.levels + 1), dtype=by_level.dtype)
        np.cumsum(by_level, axis=-1, out=before[..., 1:])
        return np.asarray(before[..., self.end] - before[..., self.first])


@dataclass(frozen=True, eq=False)
class Cuts:
    """All cuts of some boxes in two, one for each cumulative bit (``method.cumulative_bits``), with
    the number of rows of each label on both sides.

    line        the distinct rows, and the levels of all columns in a sequence
    boxes       groups of these distinct rows
    guarantee   what both sides of an allowed cut keep
    """

    line: LevelLine
    boxes: Groups
    guarantee: KAnonymityGuarantee

    @cached_property
    def level_counts(self) -> IntArray:
        """The number of rows of each label and box with each level (labels, boxes, levels)."""
        labels, size, members = self.line.labels, self.boxes.size, self.boxes.members
        keys = self.line.rows.target[members] * size + self.boxes.keys
        by_label = Groups(members, keys, labels * size)
        # Sums of integers below 2^53: exact.
        sums = by_label.sum_by_level(self.line.positions, self.line.counts, self.line.levels)
        return sums.reshape(labels, size, -1).astype(np.int64)

    @cached_property
    def box_counts(self) -> IntArray:
        """The number of rows of each label in each box (labels, boxes, 1)."""
        first = self.line.rows.columns[0]
        return np.asarray(self.level_counts[..., : first.size].sum(axis=-1, keepdims=True))

    @cached_property
    def yes_counts(self) -> IntArray:
        """The number of rows of each label and box where each bit is true (labels, boxes, bits)."""
        return np.asarray(self.line.sum_by_bit(self.level_counts))

    @cached_property
    def no_counts(self) -> IntArray:
        return self.box_counts - self.yes_counts

    @cached_property
    def is_allowed(self) -> NDArray[np.bool_]:
        """Whether both sides of each cut keep the guarantee (boxes, bits)."""
        sides = (self.guarantee.is_met(side, axis=0) for side in (self.yes_counts, self.no_counts))
        return np.logical_and(*sides)

    @cached_property
    def evenness(self) -> IntArray:
        """The number of rows on the smaller side of each cut (boxes, bits)."""
        return np.asarray(np.minimum(self.yes_counts.sum(axis=0), self.no_counts.sum(axis=0)))

    def best(self, gains: NDArray[Any], offered: NDArray[np.bool_] | None = None) -> IntArray:
        """Return for each box the allowed bit with the largest gain, or NO_CUT if there is none
        (boxes,).

        gains     (boxes, bits) of at least 0; the first of equal ones is chosen
        offered   (boxes, bits) whether a bit may be chosen if it is allowed; None if all may
        """
        is_offered = self.is_allowed if offered is None else self.is_allowed & offered
        bits = np.where(is_offered, gains, -1).argmax(axis=1)
        return np.where(is_offered.any(axis=1), bits, NO_CUT)

    def sum_by_bit(self, numbers: FloatArray) -> FloatArray:
        """Return the sum of numbers over those distinct rows of each box for which each bit is true
        (boxes, bits).

        numbers   (n,) one number for each of the line's distinct rows
        """
        by_level = self.boxes.sum_by_level(self.line.positions, numbers, self.line.levels)
        return self.line.sum_by_bit(by_level)


Choose = Callable[[Cuts], IntArray]
"""A function from the cuts of some boxes to the bit by which each is cut (boxes,), or NO_CUT."""


def grow(
    kinds: CodedRows, counts: IntArray, guarantee: KAnonymityGuarantee, choose: Choose
) -> BoxTree:
    """Return the tree that cuts the box of all rows in two, again and again, until no cut is chosen
    or keeps the guarantee.

    kinds    distinct rows, labels included, in the order of their codes
    counts   (kinds,) number of rows equal to each
    choose   function that chooses a cut of each box; one that breaks the guarantee is not made
    """
    line, boxes = LevelLine(kinds, counts), Groups.single(len(kinds))
    nodes: list[Fork | None] = [None]
    node_of_box = np.zeros(1, dtype=np.int64)
    while boxes.size and len(line.columns):
        chosen = []
        for part in boxes.parts(line.levels * line.labels):
            cuts = Cuts(line, part, guarantee)
            best = choose(cuts)
            chosen.append(np.where(cuts.is_allowed[np.arange(part.size), best], best, NO_CUT))
        bits = np.concatenate(chosen)
        is_cut, sides = bits != NO_CUT, np.zeros((boxes.size, 2), dtype=np.int64)
        sides[is_cut] = len(nodes) + np.arange(2 * np.count_nonzero(is_cut)).reshape(-1, 2)
        forks = np.hstack([line.ranges[bits], sides])[is_cut].tolist()
        for node, fork in zip(node_of_box[is_cut].tolist(), forks, strict=True):
            nodes[node] = Fork(*fork)
            nodes += [None, None]
        bit_of_row = bits[boxes.keys]
        position = line.positions[boxes.members, line.columns[bit_of_row]]
        is_yes = (position >= line.first[bit_of_row]) & (position < line.end[bit_of_row])
        halves = boxes.regroup(2 * boxes.keys + is_yes, 2 * boxes.size)
        # Only a side with enough rows for two classes can be cut again.
        least = 2 * max(1, guarantee.k, guarantee.diversity)
        is_large = halves.sum_by_group(counts[halves.members]) >= least
        is_large &= np.repeat(is_cut, 2)
        boxes, node_of_box = halves.select(is_large), sides.ravel()[is_large]
    return BoxTree(tuple(nodes))


def cut_into_boxes(
    rows: CodedRows, guarantee: KAnonymityGuarantee, choose: Choose, *, least: int = 1
) -> Recoding:
    """Return the recoding by the boxes that ``grow`` cuts with ``choose``; no row is left out.

    least   fewest rows of a box, if this is more than K

    The recoding changes no row if the guarantee is empty. TooFewRows as ``Method.recode``.
    """
    if (unchanged := unchanged_if_possible(rows, guarantee)) is not None:
        return unchanged
    tree = grow(*rows.kinds(), replace(guarantee, k=max(guarantee.k, least)), choose)
    return Recoding.of_all(BoxRule(rows.columns, tree.boxes(rows.columns), tree), rows)


@dataclass(frozen=True)
class Mondrian:
    """Strict multidimensional partitioning (Mondrian): boxes are cut until none can be cut.

    A box is cut along the widest column that has an allowed cut, or one equally wide, as near to
    halves as the guarantee allows; in a tie, by the first cut. Width is the share of a column's
    levels that the rows of the box span: see ``spanned_shares``.

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
            is_present = np.asarray(cuts.level_counts.any(axis=0))
            widths = spanned_shares(is_present, rows.columns)[:, cuts.line.columns]
            widest = np.where(cuts.is_allowed, widths, -1.0).max(axis=1, keepdims=True)
            return cuts.best(cuts.evenness, widths == widest)

        return cut_into_boxes(rows, guarantee, most_even_of_widest)


def spanned_shares(is_present: NDArray[np.bool_], columns: tuple[Column, ...]) -> FloatArray:
    """Return the share of each column's levels that the rows of each box span, (boxes, d).

    is_present   (boxes, levels of all columns) whether a box has rows with a level

    The first level does not count, so one level spans 0 and all levels span 1. In an ordered column
    the span is from the lowest value to the highest, and missing values are one more level.
    """
    spans = fill_gaps(is_present, columns)
    sizes = np.array([column.size for column in columns])
    return np.asarray(
        (np.stack([span.sum(axis=1) for span in spans], 1) - 1) / np.maximum(1, sizes - 1)
    )


@dataclass(frozen=True)
class Tree:
    """A classification tree over cumulative bits; a row is released as the box of its leaf.

    least   fewest rows of a leaf, if this is more than K

    Each box is cut by the bit that most lowers Gini impurity among those whose two sides keep the
    guarantee and have ``least`` rows; in a tie, by the first. Where no cut makes a box purer, it is
    cut nearest to halves: the boxes are as fine as they may be.

    Source: Breiman, Friedman, Olshen, Stone, "Classification and regression trees" (1984).
    """

    summary: ClassVar[str] = "leaves of a classification tree with at least K rows each"

    least: int = integer(25, at_least=1, at_most=10**6, measuring=True)

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:  # noqa: ARG002
        return cut_into_boxes(rows, guarantee, _purest, least=self.least)


def _purest(cuts: Cuts) -> IntArray:
    """Return the allowed bit that cuts each box into the purest sides, or most evenly if none makes
    it purer; NO_CUT if none is allowed (boxes,)."""
    purity = _purity(cuts.yes_counts) + _purity(cuts.no_counts)
    best = cuts.best(purity)
    # A gain within rounding is none.
    of_box = _purity(cuts.box_counts)[:, 0] * (1 + 1e-12)
    is_purer = purity[np.arange(len(best)), best] > of_box
    return np.where(is_purer, best, cuts.best(cuts.evenness))


def _purity(counts: IntArray) -> FloatArray:
    """Return the purity Σ_y n_y² / n (boxes, bits), from counts n_y (labels, boxes, bits)."""
    return np.asarray((counts**2).sum(axis=0) / np.maximum(1, counts.sum(axis=0)))
