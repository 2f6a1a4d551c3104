"""kjig: K-anonymous joint information gain. Ours: bits are chosen by what they tell together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from dp_pipeline.anonymity.method import Bit, Recoded, cumulative_bits
from dp_pipeline.anonymity.partition import ClassPartition, KAnonymityGuarantee, Splits
from dp_pipeline.anonymity.ranking import Started
from dp_pipeline.anonymity.rows import CodedRows, Column, RareRows
from dp_pipeline.spec.encoding import FloatArray, IntArray

MOST_CELLS_AT_ONCE = 1 << 22
"""Bits × classes × labels that are counted together."""


@dataclass(frozen=True)
class Kjig:
    """Of the bits that the promise allows, add the one that tells most about the label beside
    those before it, until none can be added.

    What a bit tells, in nats: the fall of n·H(label | class), less one for each free parameter
    that its new classes bring (Akaike's price: labels − 1 a class). So a bit that repeats what
    is known, or that cuts classes to crumbs, does not use up the room of one that tells much.
    Bits are thresholds of ordered columns and levels of the others: the same kind of table as
    RFKA's, a global recoding. At the end every other bit breaks the promise or cuts no class into
    two that keep it: a column that says nothing new is not released, nor is one taken that tells
    nothing but which rows are left out.

    It depends on classes alone: neither the order of the rows nor chance enters; a tie goes to
    the bit that is declared first.
    """

    summary: ClassVar[str] = "thresholds and levels by what they tell together about the label"

    sensitive_diversity: ClassVar[int] = 2

    def bits(self, columns: Sequence[Column]) -> tuple[Bit, ...]:
        """Thresholds of ordered columns, levels of the others."""
        return cumulative_bits(columns)

    def recode(self, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:  # noqa: ARG002
        """Bits that tell most beside each other."""
        started = Started.of(rows, self.bits(rows.columns), promise, by_label=True)
        if promise.is_empty:
            return started.result(range(len(started.bits)))
        return started.result(told_together(started.partition, started.rare))


def told_together(partition: ClassPartition, rare: RareRows) -> list[int]:
    """Refine the partition, by one bit after the other, while it takes any; those that it took."""
    left, chosen = np.arange(len(rare)), list[int]()
    while len(left):
        allowed, told = _judged(partition, [rare.rows[place] for place in left.tolist()])
        # What is refused once is refused for ever, and what tells no rows apart once never does.
        left, told = left[allowed], told[allowed]
        if len(left):
            best = int(left[told.argmax()])
            partition.refine(rare.rows[best])
            chosen.append(best)
            left = left[left != best]
    return chosen


def _judged(
    partition: ClassPartition, bits: Sequence[IntArray]
) -> tuple[NDArray[np.bool_], FloatArray]:
    """Whether each bit is allowed, and what it tells."""
    at_once = max(1, MOST_CELLS_AT_ONCE // partition.counts.size)
    allowed, told = [], []
    for start in range(0, len(bits), at_once):
        splits = partition.split(bits[start : start + at_once])
        allowed.append(partition.keeps_guarantee(splits) & (partition.cut(splits) > 0))
        told.append(_told(partition.counts, splits))
    return np.concatenate(allowed), np.concatenate(told)


def _told(counts: IntArray, splits: Splits) -> FloatArray:
    """Nats that each split tells, its price paid."""
    after = _uncertain(splits[0]) + _uncertain(splits[1])
    return np.asarray(_uncertain(counts) - after - _new_classes(splits) * (counts.shape[1] - 1))


def _new_classes(splits: Splits) -> IntArray:
    """Classes that each bit cuts in two (bits,)."""
    one, other = (side.sum(axis=-1) > 0 for side in splits)
    return np.asarray(np.count_nonzero(one & other, axis=-1))


def _uncertain(counts: IntArray) -> FloatArray:
    """n·H(label | class) in nats, of counts (…, classes, labels)."""
    sizes = counts.sum(axis=-1)
    return np.asarray(xlogy(sizes, sizes).sum(axis=-1) - xlogy(counts, counts).sum(axis=(-1, -2)))
