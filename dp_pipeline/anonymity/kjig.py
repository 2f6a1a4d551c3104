"""kjig: K-anonymous joint information gain. Ours: what is released tells of the label together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.choosing import Way, best_way
from dp_pipeline.anonymity.clustering import ClusterKAnonymity
from dp_pipeline.anonymity.label_bands import (
    BANDS,
    BANDS_IN_BOXES,
    BOXES_IN_BANDS,
    label_bands,
)
from dp_pipeline.anonymity.label_lines import LinedRows
from dp_pipeline.anonymity.method import Bit, Recoded, cumulative_bits
from dp_pipeline.anonymity.mondrian import Tree
from dp_pipeline.anonymity.partition import (
    ClassPartition,
    CodedRows,
    Column,
    KAnonymityGuarantee,
    RareRows,
    Splits,
)
from dp_pipeline.anonymity.ranking import InformationRanking, Started
from dp_pipeline.anonymity.telling_boxes import Worth, telling_boxes
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.parameters import choice

Shape = Literal["best", "columns"]

MOST_CELLS_AT_ONCE = 1 << 22
"""Bits × classes × labels that are counted together."""


@dataclass(frozen=True)
class Kjig:
    """Of some recodings that keep the promise, the one that a classifier learns most from.

    shape   ``best``: the best of all below, by ``choosing.best_way``, which tries each in folds
            of the rows. ``columns``: the first form of kjig, bits that are kept of every row

    *Bands* of rows that are alike along straight lines through the labels, of logistic regression:
    where columns add up, a few of them tell much. They are cut along the lines alone, or in boxes
    each by itself, or along lines first and along columns last (``label_bands``). They are released
    as the boxes around their rows, which overlap and are wide: of one column by itself they tell
    less than the others do. *Boxes*, cut where the line and the label are told of most, or the
    line alone, as long as the promise allows; *boxes by labels*, cut while a cut pays its price
    (``telling_boxes``): where a label is decided by some columns in some rows and by others in
    others, no line tells of it, and finer boxes blur it. *Leaves* of a ``tree``, cut by impurity.
    Where classes need more labels than one, *clusters* of small tables, and no bands along lines
    alone. Each class of all these is made by itself, as Mondrian's are, and released as ranges and
    sets of levels; no row is left out. *Levels by mutual information* are the same of every row:
    where little tells of the label, it is not lost among much else.

    *Columns*, where they are asked for: of the bits that the promise allows, that is added which
    tells most beside those before it, until none can be added. Bits are thresholds of ordered
    columns and levels of the others. What a bit tells, in nats: the fall of n·H(label | class),
    less one for each free parameter that its new classes bring (Akaike's price: labels − 1 a
    class). So a bit that repeats what is known, or that cuts classes to crumbs, does not use up
    the room of one that tells much. It is the same kind of table as RFKA's, a global recoding: at
    the end every other bit breaks the promise or cuts no class into two that keep it. A column
    that says nothing new is not released, nor is one taken that tells nothing but which rows are
    left out.

    The rows are looked at exactly, to choose as to cut: k-anonymity promises classes, not that
    a choice does not depend on a row, and each recoding keeps it. Neither the order of the rows
    nor chance enters; a tie goes to the bit that is declared first.
    """

    summary: ClassVar[str] = (
        "bands and boxes by what they tell together about the label; the best of some ways"
    )

    sensitive_diversity: ClassVar[int] = 2

    shape: Shape = choice("best", "columns")

    def bits(self, columns: Sequence[Column]) -> tuple[Bit, ...]:
        """Thresholds of ordered columns, levels of the others."""
        return cumulative_bits(columns)

    def recode(self, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:  # noqa: ARG002
        """What tells most; of a promise of nothing, all bits."""
        if self.shape == "columns" or promise.is_empty:
            return told_columns(rows, promise)
        if promise.diversity < 2:
            return best_way(WAYS, rows, promise)
        ways = DIVERSE_WAYS if rows.codes.size < FEW_CODES else DIVERSE_WAYS[:-1]
        return best_way(ways, rows, promise)


def told_columns(rows: CodedRows, promise: KAnonymityGuarantee) -> Recoded:
    """Bits that tell most beside each other, kept of every row."""
    started = Started.of(rows, cumulative_bits(rows.columns), promise, by_label=True)
    if promise.is_empty:
        return started.result(range(len(started.bits)))
    return started.result(told_together(started.partition, started.rare))


def leaves(lined: LinedRows) -> Recoded:
    """The boxes of ``tree``, with fewer rows than by itself: a larger K makes larger ones."""
    return Tree(least=10).recode(lined.rows, lined.promise, seed=0)


def clusters(lined: LinedRows) -> Recoded:
    """The boxes of ``cluster_k_anonymity``."""
    return ClusterKAnonymity().recode(lined.rows, lined.promise, seed=0)


def selected(lined: LinedRows) -> Recoded:
    """The levels of ``mutual_information``."""
    return InformationRanking().recode(lined.rows, lined.promise, seed=0)


_BANDS_AND_BOXES = (
    Way(partial(label_bands, stages=BOXES_IN_BANDS)),
    Way(partial(label_bands, stages=BANDS_IN_BOXES)),
)

_BY_COLUMNS = (
    Way(partial(telling_boxes, worth=Worth(label=True, line=True)), behind=0.01),
    Way(partial(telling_boxes, worth=Worth(label=False, line=True)), behind=0.01),
    Way(partial(telling_boxes, worth=Worth(label=True, line=False)), behind=0.02),
    Way(leaves, behind=0.02),
    Way(selected, behind=0.03),
)

WAYS = (*_BANDS_AND_BOXES, Way(partial(label_bands, stages=BANDS)), *_BY_COLUMNS)
"""How far they are usually behind was seen on some fifty tables, and rounded."""

DIVERSE_WAYS = (*_BANDS_AND_BOXES, *_BY_COLUMNS, Way(clusters, behind=0.01))
"""Where each class has more than one label. Along a line there are soon bands of one, so few cuts
are allowed; clusters are joined with others until they have enough.
"""

FEW_CODES = 20_000
"""Rows × columns, below which clusters are tried: their time grows faster than the rows."""


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
    # Late: a plan has methods built, and none asked.
    from scipy.special import xlogy

    sizes = counts.sum(axis=-1)
    return np.asarray(xlogy(sizes, sizes).sum(axis=-1) - xlogy(counts, counts).sum(axis=(-1, -2)))
