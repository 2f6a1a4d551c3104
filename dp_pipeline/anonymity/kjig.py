"""kjig, our own: K-anonymous joint information gain of all released columns together."""

from __future__ import annotations

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
from dp_pipeline.anonymity.growth import Tree
from dp_pipeline.anonymity.label_scores import ScoredRows
from dp_pipeline.anonymity.method import Recoding, cumulative_bits
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.parameters import choice

Shape = Literal["best", "columns"]


def _leaves(scored_rows: ScoredRows) -> Recoding:
    return Tree(least=10).recode(scored_rows.rows, scored_rows.guarantee, seed=0)


CANDIDATES = (
    Candidate(partial(staged_cuts.recode_in_stages, stages=staged_cuts.BOXES_IN_BANDS)),
    Candidate(partial(staged_cuts.recode_in_stages, stages=staged_cuts.BANDS_IN_BOXES)),
    Candidate(partial(staged_cuts.recode_in_stages, stages=staged_cuts.BANDS)),
    Candidate(partial(staged_cuts.recode_in_stages, stages=staged_cuts.BOXES), auc_deficit=0.01),
    Candidate(_leaves, auc_deficit=0.02),
)
"""``docs/design/kjig.md`` says what each of them brings, and what else was tried."""

FEW_CLASSES = 6
"""Rows, in multiples of K, below which there are so few classes that the usual deficits do not
apply: none has a deficit, and the leaves are the reference.
"""

CANDIDATES_OF_FEW_CLASSES = tuple(replace(candidate, auc_deficit=0.0) for candidate in CANDIDATES)

MAX_CELLS_AT_ONCE = 1 << 22
"""Most bits × classes × labels that are counted together."""


@dataclass(frozen=True)
class Kjig:
    """A method that selects, among several recodings, the one from which a classifier learns most.

    shape   ``best``: the best of ``CANDIDATES``, by ``cross_validation``, which tries each in folds
            of the rows. ``columns``: a selection of bits, the same for every row

    ``best``: classes are *bands* of rows with like scores of a logistic regression: where columns
    add up, a few bands say much. Or *boxes* that are cut along columns, or both, one after the
    other (``staged_cuts``); all are released as the boxes around their rows, which overlap and are
    wide. Or they are the *leaves* of a ``tree``, for labels that some columns decide in some rows
    and others in others. No row is left out.

    ``columns``: of the allowed bits, the one is added that says most together with those before it,
    until none can be added. Bits are thresholds of ordered columns and levels of the others. A
    bit's gain in nats is the fall of n·H(label | class), less one for each free parameter of its
    new classes (Akaike's price: labels − 1 a class). So a bit that repeats what is known, or cuts
    classes to crumbs, does not take the room of one that says much. At the end every other bit
    breaks the guarantee or cuts no class into two that keep it.

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
        """Return the recoding selected by ``shape``; one by all bits if nothing is guaranteed."""
        if self.shape == "columns" or guarantee.is_empty:
            return recode_columns(rows, guarantee)
        if len(rows) < FEW_CLASSES * guarantee.k:
            leaves = len(CANDIDATES) - 1
            return select_by_cross_validation(
                CANDIDATES_OF_FEW_CLASSES, rows, guarantee, reference=leaves
            )
        return select_by_cross_validation(CANDIDATES, rows, guarantee)


def recode_columns(rows: CodedRows, guarantee: KAnonymityGuarantee) -> Recoding:
    """Return the recoding by bits that are jointly most informative, with no row suppressed."""
    partition = ClassPartition(rows, cumulative_bits(rows.columns), guarantee, by_label=True)
    if guarantee.is_empty:
        return partition.result(range(len(partition.bits)))
    return partition.result(accept_informative(partition))


def accept_informative(partition: ClassPartition) -> list[int]:
    """Refine the classes repeatedly by the bit of largest gain; return these bits."""
    remaining, accepted = np.arange(len(partition.bits)), list[int]()
    while len(remaining):
        is_allowed, gains = _gains(partition, remaining.tolist())
        # What is refused once is refused for ever, and what cuts no class once never does.
        remaining, gains = remaining[is_allowed], gains[is_allowed]
        if len(remaining):
            best = int(remaining[gains.argmax()])
            partition.refine(best)
            accepted.append(best)
            remaining = remaining[remaining != best]
    return accepted


def _gains(partition: ClassPartition, bits: Sequence[int]) -> tuple[NDArray[np.bool_], FloatArray]:
    """Return whether each bit may be added, and its gain in nats minus its price."""
    at_once = max(1, MAX_CELLS_AT_ONCE // partition.counts.size)
    is_allowed, gains = [], []
    for start in range(0, len(bits), at_once):
        splits = partition.split(bits[start : start + at_once])
        is_allowed.append(partition.keeps_guarantee(splits) & (partition.cut_classes(splits) > 0))
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
