"""kjig, our own: K-anonymous joint information gain of all released columns together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity import staged_cuts
from dp_pipeline.anonymity.bit_search import ClassPartition
from dp_pipeline.anonymity.coded_rows import CodedRows, KAnonymityGuarantee
from dp_pipeline.anonymity.cross_validation import Candidate, select_by_cross_validation
from dp_pipeline.anonymity.groups import MAX_CELLS_AT_ONCE
from dp_pipeline.anonymity.growth import Tree
from dp_pipeline.anonymity.method import Recoding, cumulative_bits
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.parameters import choice

Shape = Literal["best", "columns"]


CANDIDATES = (
    Candidate(partial(staged_cuts.recode_in_stages, stages=staged_cuts.BOXES_IN_BANDS)),
    Candidate(partial(staged_cuts.recode_in_stages, stages=staged_cuts.BANDS_IN_BOXES)),
    Candidate(partial(staged_cuts.recode_in_stages, stages=staged_cuts.BANDS)),
    Candidate(partial(staged_cuts.recode_in_stages, stages=staged_cuts.BOXES), auc_deficit=0.01),
    Candidate(
        lambda scored_rows: Tree(least=10).recode(scored_rows.rows, scored_rows.guarantee, seed=0),
        auc_deficit=0.02,
    ),
)
"""``docs/design/kjig.md`` says what each of them brings, and what else was tried."""

FEW_CLASSES = 6
"""Rows, in multiples of K, below which no candidate has a deficit and the leaves are the reference:
the usual deficits do not apply to so few classes.
"""


@dataclass(frozen=True)
class Kjig:
    """A method that selects, among several recodings, the one from which a classifier learns most.

    shape   ``best``: the recoding of ``CANDIDATES`` with the best AUC in folds of the rows.
            ``columns``: a selection of bits, the same for every row

    ``best``: classes are cut by the scores of a logistic regression, along columns, or both one
    after the other (``staged_cuts``), and are released as the boxes around their rows, which
    overlap and are wide. Or they are the leaves of a classification tree. No row is left out.

    ``columns``: of the allowed bits, the one with the largest gain is added until none can be
    added. A bit's gain in nats is the fall of n·H(label | class), less one for each free parameter
    of its new classes (Akaike's price: labels − 1 a class). So a bit that repeats others, or cuts
    classes to crumbs, gains little. At the end every other bit breaks the guarantee or cuts no
    class into two that keep it.

    The rows are read exactly, to choose as to cut: k-anonymity is a guarantee about classes, not
    about choices, and each recoding keeps it. Neither the order of the rows nor chance enters; a
    tie goes to the bit that is declared first.
    """

    summary: ClassVar[str] = (
        "bands and boxes by what they tell together about the label; the best of some ways"
    )

    sensitive_diversity: ClassVar[int] = 2

    shape: Shape = choice("best", "columns")

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:  # noqa: ARG002
        """Return the recoding that ``shape`` asks for; by all bits if the guarantee is empty."""
        if self.shape == "columns" or guarantee.is_empty:
            return recode_columns(rows, guarantee)
        if len(rows) < FEW_CLASSES * guarantee.k:
            equals = [replace(candidate, auc_deficit=0.0) for candidate in CANDIDATES]
            return select_by_cross_validation(equals, rows, guarantee, reference=len(equals) - 1)
        return select_by_cross_validation(CANDIDATES, rows, guarantee)


def recode_columns(rows: CodedRows, guarantee: KAnonymityGuarantee) -> Recoding:
    """Return the recoding by the cumulative bits of ``accept_informative``, which suppresses the
    rows of classes that break the guarantee; by all bits, without suppression, if it is empty."""
    partition = ClassPartition(rows, cumulative_bits(rows.columns), guarantee)
    every_bit = range(len(partition.bits))
    return partition.result(every_bit if guarantee.is_empty else accept_informative(partition))


def accept_informative(partition: ClassPartition) -> list[int]:
    """Refine the partition by the bit of largest gain until no bit is allowed; return these bits.

    A bit is allowed if the classes, split by it, keep the guarantee once as many rows are
    suppressed as it permits, and some class is cut into two that keep it.
    """
    remaining, accepted = np.arange(len(partition.bits)), list[int]()
    while True:
        is_allowed, gains = _gains(partition, remaining.tolist())
        # What is refused once is refused for ever, and what cuts no class once never does.
        remaining, gains = remaining[is_allowed], gains[is_allowed]
        if not len(remaining):
            return accepted
        best = int(remaining[gains.argmax()])
        partition.refine(best)
        accepted.append(best)
        remaining = remaining[remaining != best]


def _gains(partition: ClassPartition, bits: Sequence[int]) -> tuple[NDArray[np.bool_], FloatArray]:
    """Return whether each bit keeps the guarantee and cuts a class into two that keep it (bits,),
    and its gain in nats less the price of the new classes (bits,)."""
    at_once = max(1, MAX_CELLS_AT_ONCE // partition.counts.size)
    is_allowed, gains = [np.zeros(0, dtype=np.bool_)], [np.zeros(0)]
    for start in range(0, len(bits), at_once):
        splits = partition.split(bits[start : start + at_once])
        is_allowed.append(
            partition.keeps_guarantee(splits) & (partition.count_cut_classes(splits) > 0)
        )
        fall = _entropy(partition.counts) - _entropy(splits[0]) - _entropy(splits[1])
        has_rarer, has_other = (side.any(axis=-1) for side in splits)
        new_classes = np.count_nonzero(has_rarer & has_other, axis=-1)
        gains.append(fall - new_classes * (partition.counts.shape[1] - 1))
    return np.concatenate(is_allowed), np.concatenate(gains)


def _entropy(counts: IntArray) -> FloatArray:
    # Late: a plan has methods built, and none of them used.
    from scipy.special import xlogy

    sizes = counts.sum(axis=-1)
    return np.asarray(xlogy(sizes, sizes).sum(axis=-1) - xlogy(counts, counts).sum(axis=(-1, -2)))
