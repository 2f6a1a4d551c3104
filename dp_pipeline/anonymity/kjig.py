"""kjig, our own: K-anonymous joint information gain of all released columns together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity import staged_cuts
from dp_pipeline.anonymity.bit_search import ClassPartition, Splits
from dp_pipeline.anonymity.coded_rows import CodedRows, KAnonymityGuarantee
from dp_pipeline.anonymity.cross_validation import Candidate, select_by_cross_validation
from dp_pipeline.anonymity.label_scores import ScoredRows
from dp_pipeline.anonymity.method import Recoding, cumulative_bits
from dp_pipeline.anonymity.mondrian import Tree
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.parameters import choice

Shape = Literal["best", "columns"]


def _leaves(scored_rows: ScoredRows) -> Recoding:
    """Return the recoding by the leaves of ``tree``, with smaller leaves than a larger K would
    give."""
    return Tree(least=10).recode(scored_rows.rows, scored_rows.guarantee, seed=0)


CANDIDATES = (
    Candidate(partial(staged_cuts.recode_in_stages, stages=staged_cuts.BOXES_IN_BANDS)),
    Candidate(partial(staged_cuts.recode_in_stages, stages=staged_cuts.BANDS_IN_BOXES)),
    Candidate(partial(staged_cuts.recode_in_stages, stages=staged_cuts.BANDS)),
    Candidate(partial(staged_cuts.recode_in_stages, stages=staged_cuts.BOXES), auc_deficit=0.01),
    Candidate(_leaves, auc_deficit=0.02),
)
"""What else was tried, and what each brings, is a table in ``docs/design/kjig.md``."""

FEW_CLASSES = 6
"""Fewer rows than so many times K make a handful of classes, and which candidate is usually behind
says nothing of them: none has a deficit, and each is compared with the leaves.
"""

CANDIDATES_OF_FEW_CLASSES = tuple(replace(candidate, auc_deficit=0.0) for candidate in CANDIDATES)

MAX_CELLS_AT_ONCE = 1 << 22
"""Bits × classes × labels that are counted together."""


@dataclass(frozen=True)
class Kjig:
    """A method that selects, among several recodings, the one from which a classifier learns most.

    shape   ``best``: the best of ``CANDIDATES``, by ``cross_validation``, which tries each in folds
            of the rows. ``columns``: the first form of kjig, bits that are kept of every row

    Classes are *bands* of rows that are alike along straight lines through the labels, of logistic
    regression: where columns add up, a few of them say much. Or *boxes* that are cut along columns.
    Or both, one after the other (``staged_cuts``). They are released as the boxes around their
    rows, which overlap and are wide: of one column by itself they say less than the methods that
    cut columns. Or they are the *leaves* of a ``tree``: no line says what a label is that some
    columns decide in some rows and others in others. No row is left out.

    *Columns*, where they are asked for: of the bits that the guarantee allows, that is added which
    says most together with those before it, until none can be added. Bits are thresholds of
    ordered columns and levels of the others. What a bit gains, in nats: the fall of
    n·H(label | class), less one for each free parameter that its new classes bring (Akaike's price:
    labels − 1 a class). So a bit that repeats what is known, or that cuts classes to crumbs, does
    not use up the room of one that says much. It is the same kind of table as RFKA's, a global
    recoding: at the end every other bit breaks the guarantee or cuts no class into two that keep
    it. A column that says nothing new is not released, nor is one taken that only shows which rows
    are left out.

    The rows are looked at exactly, to choose as to cut: k-anonymity guarantees classes, not that
    a choice does not depend on a row, and each recoding keeps it. Neither the order of the rows
    nor chance enters; a tie goes to the bit that is declared first.
    """

    summary: ClassVar[str] = (
        "bands and boxes by what they tell together about the label; the best of some ways"
    )

    sensitive_diversity: ClassVar[int] = 2

    shape: Shape = choice("best", "columns")

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:  # noqa: ARG002
        """Return the most informative recoding; all bits if nothing is guaranteed."""
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
        gains.append(fall - _new_classes(splits) * (partition.counts.shape[1] - 1))
    return np.concatenate(is_allowed), np.concatenate(gains)


def _new_classes(splits: Splits) -> IntArray:
    """Return the number of classes that each bit cuts in two (bits,)."""
    rarer, other = (side.sum(axis=-1) > 0 for side in splits)
    return np.asarray(np.count_nonzero(rarer & other, axis=-1))


def _entropy(counts: IntArray) -> FloatArray:
    # Late: a plan has methods built, and none of them used.
    from scipy.special import xlogy

    sizes = counts.sum(axis=-1)
    return np.asarray(xlogy(sizes, sizes).sum(axis=-1) - xlogy(counts, counts).sum(axis=(-1, -2)))
