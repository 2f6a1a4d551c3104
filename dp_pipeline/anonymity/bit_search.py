"""Classes of rows that are split by one bit after another while they keep the guarantee.

Only rows on the rarer side of a bit are counted by class; the other side follows by subtraction.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.coded_rows import CodedRows, DistinctRows, KAnonymityGuarantee
from dp_pipeline.anonymity.method import Bit, BitRule, Recoding, bit_matrix
from dp_pipeline.config.encoding import IntArray

Splits = tuple[IntArray, IntArray]
"""Rows of each class and label on the rarer side of some bits, and on the other side:
(bits, classes, labels)."""


class ClassPartition:
    """A partition of rows into classes: one class at first, which ``refine`` splits by bits.

    bits     the candidate bits; all methods take a bit as its position among these
    counts   (classes, labels) number of rows of each class and label

    Refining never mends a class: a bit that breaks the guarantee breaks it with more bits too, and
    a bit that cuts no class into two allowed ones never will. So one pass over all bits, in any
    order, ends with a set to which none can be added.

    TooFewRows where all rows as one class break the guarantee.
    """

    def __init__(
        self, rows: CodedRows, bits: Sequence[Bit], guarantee: KAnonymityGuarantee
    ) -> None:
        guarantee.require_possible(rows)
        self.bits, self._columns, self._guarantee = tuple(bits), rows.columns, guarantee
        self._max_suppressed = guarantee.max_suppressed_rows(len(rows))
        self._distinct = DistinctRows.of(rows)
        # Equal rows of one label are counted together: they are one pattern.
        self._row_of, self._label_of = np.nonzero(self._distinct.counts)
        self._pattern_counts = self._distinct.counts[self._row_of, self._label_of]
        answers = bit_matrix(bits, self._distinct.codes[self._row_of], rows.columns)
        # A bit makes the same classes as its contrary: the rarer side is stored.
        is_rare = 2 * np.count_nonzero(answers, axis=0) <= len(answers)
        self._rarer = [np.flatnonzero(answers[:, i] == is_rare[i]) for i in range(len(bits))]
        self._groups = np.zeros(len(self._row_of), dtype=np.int64)
        self.counts = rows.target_counts[None]

    def can_split_by(self, bit: int) -> bool:
        """Return whether the classes, split by one more bit, would keep the guarantee if as many
        rows are suppressed as it permits."""
        return bool(self.keeps_guarantee(self.split([bit]))[0])

    def is_acceptable(self, bit: int) -> bool:
        """Return whether the classes, split by one more bit, would keep the guarantee and, where
        rows may be suppressed, one of them would be cut into two that keep it.

        A bit that cuts none would only show which rows are missing."""
        splits = self.split([bit])
        is_always_worth = not self._max_suppressed or self._guarantee.is_empty
        is_worth = is_always_worth or self.count_cut_classes(splits)[0] > 0
        return bool(is_worth and self.keeps_guarantee(splits)[0])

    def split(self, bits: Sequence[int]) -> Splits:
        """Return the numbers of rows of each class and label on the rarer side of each bit and on
        the other side, both (bits, classes, labels); refine nothing."""
        cells, sides = self.counts.size, [self._rarer[bit] for bit in bits]
        offsets = np.repeat(np.arange(len(bits)) * cells, [len(side) for side in sides])
        patterns = np.concatenate(sides)
        # Sums of integers below 2^53: exact.
        keys = self._groups[patterns] * self.counts.shape[1] + self._label_of[patterns] + offsets
        counts = np.bincount(keys, self._pattern_counts[patterns], minlength=cells * len(bits))
        rarer = counts.astype(np.int64).reshape(len(bits), *self.counts.shape)
        return rarer, self.counts - rarer

    def keeps_guarantee(self, splits: Splits) -> NDArray[np.bool_]:
        """Return whether the classes, split by each bit, would keep the guarantee if as many rows
        are suppressed as it permits (bits,), from the result of ``split``."""
        if self._guarantee.is_empty:
            return np.ones(len(splits[0]), dtype=np.bool_)
        broken_rows = sum(
            np.where(self._guarantee.is_met(side), 0, side.sum(axis=-1)).sum(axis=-1)
            for side in splits
        )
        return np.asarray(broken_rows <= self._max_suppressed)

    def count_cut_classes(self, splits: Splits) -> IntArray:
        """Return the number of classes that each bit cuts into two which keep the guarantee
        (bits,), from the result of ``split``."""
        rarer, other = (self._guarantee.is_met(side) for side in splits)
        return np.asarray(np.count_nonzero(rarer & other, axis=-1))

    def refine(self, bit: int) -> None:
        """Split every class by a bit, in place, whether or not that keeps the guarantee; drop empty
        classes."""
        rarer, other = (side[0] for side in self.split([bit]))
        sides = np.stack([other, rarer], axis=1).reshape(2 * len(rarer), -1)
        # Without rows, one empty class remains.
        is_filled = sides.any(axis=1) if len(self._groups) else np.array([True, False])
        doubled = self._groups * 2
        doubled[self._rarer[bit]] += 1
        self._groups, self.counts = (np.cumsum(is_filled) - 1)[doubled], sides[is_filled]

    def result(self, accepted: Iterable[int]) -> Recoding:
        """Return the recoding by the accepted bits, which suppresses all rows of classes that break
        the guarantee.

        accepted   exactly the bits by which the classes were refined, in any order; they are
                   released in the order of the candidates, as theirs would reveal more
        """
        rule = BitRule(self._columns, tuple(self.bits[bit] for bit in sorted(accepted)))
        suppressed = np.zeros(len(self._distinct.codes), dtype=np.bool_)
        if not self._guarantee.is_empty:
            suppressed[self._row_of] = ~self._guarantee.is_met(self.counts)[self._groups]
        return Recoding(rule, suppressed[self._distinct.row_ids])


def accept_in_order(partition: ClassPartition, order: Iterable[int]) -> list[int]:
    """Refine the partition, in the given order, by each bit that is acceptable by then; return
    these bits.

    RFKA, algorithm 1, lines 5 to 10, with the "not" that line 7 lacks as printed. A skipped bit
    could not be added later, so the set is maximal, though it need not have the most bits.
    """
    accepted = []
    for bit in order:
        if partition.is_acceptable(bit):
            partition.refine(bit)
            accepted.append(bit)
    return accepted
