"""kjig: K-anonymous joint information gain. Ours: what is released tells of the label together.

Choosing one of several ways to recode rows, by what is learned from each in folds of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.clustering import ClusterKAnonymity
from dp_pipeline.anonymity.method import Bit, Recoded, cumulative_bits
from dp_pipeline.anonymity.mondrian import Mondrian, Tree
from dp_pipeline.anonymity.partition import (
    ClassPartition,
    CodedRows,
    Column,
    KAnonymityGuarantee,
    RareRows,
    Splits,
    TooFewRows,
)
from dp_pipeline.anonymity.ranking import Started
from dp_pipeline.anonymity.telling_boxes import Worth, discriminant_scores, telling_boxes
from dp_pipeline.metrics.auc import macro_auc
from dp_pipeline.metrics.classification import stratified_folds
from dp_pipeline.spec.encoding import FloatArray, IntArray
from dp_pipeline.spec.parameters import choice, later

Way = Callable[[CodedRows, KAnonymityGuarantee], Recoded]
"""From rows to a recoding under which they keep a promise."""

_FOLDS = ((1_000, 5, 2), (10_000, 3, 1), (math.inf, 2, 1))
"""Folds of tables of less than so many rows, and how often the rows are parted into them: few
rows need many folds, and many rows take long.
"""

_SOME_LUCK = 0.5
"""Standard errors by which a way must be ahead of the first one."""

_NOTHING_LEARNED = 0.5


def best_way(ways: Sequence[Way], rows: CodedRows, promise: KAnonymityGuarantee) -> Recoded:
    """The recoding by that way from whose releases most is learned, of at least one way.

    Each way recodes the rows of all folds but one, a linear discriminant learns the labels of what
    is released, and its AUC is measured on the fold that was left out, labels weighing alike. The
    way of the highest mean is taken, if that is above one half, and ahead of the first one by half
    of the standard error of their difference; else the first. Then it recodes all rows.

    K is lowered in a fold in proportion to its rows, for classes as fine as those of all rows.
    What is made of folds is not released.

    The choice looks at the rows exactly, as every way does, and tells of them at most which way
    it was. Every way keeps the promise, so whichever is chosen does. It depends neither on the
    order of the rows nor on a seed: they are sorted first, and parted the same way always.

    TooFewRows as ``Method.recode``.
    """
    if promise.is_empty or len(ways) == 1:
        return ways[0](rows, promise)
    promise.require_possible(len(rows), int(np.count_nonzero(rows.target_counts)))
    learned = _learned(ways, rows, promise)
    means = learned.mean(axis=1)
    best = int(means.argmax())
    ahead = learned[best] - learned[0]
    is_lucky = ahead.mean() <= _SOME_LUCK * ahead.std(ddof=1) / np.sqrt(len(ahead))
    # Where nothing can be learned, folds teach the opposite of what is left out of them, and a way
    # that releases nothing is ahead of all.
    if is_lucky or means[best] <= _NOTHING_LEARNED:
        best = 0
    return ways[best](rows, promise)


def _learned(ways: Sequence[Way], rows: CodedRows, promise: KAnonymityGuarantee) -> FloatArray:
    """AUC of every way in every fold (ways, folds); a fold that says nothing is left out."""
    rows = rows.some(np.lexsort((rows.target, *rows.codes.T[::-1])))
    parts = list(_parts(rows))
    found = np.array([[_auc(way, *part, promise) for part in parts] for way in ways])
    told = found[:, ~np.isnan(found).any(axis=0)]
    # Of one fold, nobody knows how much is luck.
    return told if told.shape[1] > 1 else np.zeros((len(ways), 2))


def _parts(rows: CodedRows) -> Iterator[tuple[CodedRows, CodedRows]]:
    """Rows to learn from and rows to test on, of every fold."""
    folds, times = next((folds, times) for below, folds, times in _FOLDS if len(rows) < below)
    for seed in range(times):
        numbers = stratified_folds(rows.target, folds, seed=seed)
        for fold in range(folds):
            yield rows.some(numbers != fold), rows.some(numbers == fold)


def _auc(way: Way, learn: CodedRows, test: CodedRows, promise: KAnonymityGuarantee) -> float:
    """NaN where the rows to be tested on have one label, or none."""
    share = len(learn) / max(1, len(learn) + len(test))
    inner = replace(promise, k=max(min(2, promise.k), round(promise.k * share)))
    try:
        found = way(learn, inner)
    except TooFewRows:
        return _NOTHING_LEARNED
    kept = learn.some(~found.suppressed)
    seen, asked = found.recoding.features(kept), found.recoding.features(test)
    if not len(kept) or not seen.shape[1]:
        return macro_auc(np.zeros((len(test), len(test.target_levels))), test.target)
    labels = len(kept.target_levels)
    return macro_auc(discriminant_scores(seen, kept.target, asked, labels), test.target)


Shape = Literal["best", "columns"]

MOST_CELLS_AT_ONCE = 1 << 22
"""Bits × classes × labels that are counted together."""


@dataclass(frozen=True)
class Kjig:
    """Of some recodings that keep the promise, the one that a classifier learns most from.

    shape   ``best``: the best of all below, by ``choosing.best_way``, which tries each in folds
            of the rows. ``columns``: the first form of kjig, bits that are kept of every row

    *Boxes*, cut where the label and a straight line through it are told of most, as long as the
    promise allows. *Boxes by labels*, cut while a cut pays its price: where a label is decided
    by some columns in some rows and by others in others, finer boxes blur it. *Leaves* of ``tree``,
    larger and cut by impurity. *Columns*: of the
    bits that the promise allows, that is added which tells most beside those before it, until
    none can be added.

    What a cut tells, in nats: the fall of n·H(label | class), less one for each free parameter
    that its new classes bring (Akaike's price: labels − 1 a class). So a bit that repeats what
    is known, or that cuts classes to crumbs, does not use up the room of one that tells much.
    Bits are thresholds of ordered columns and levels of the others. Columns are the same kind of
    table as RFKA's, a global recoding: at the end every other bit breaks the promise or cuts no
    class into two that keep it. A column that says nothing new is not released, nor is one taken
    that tells nothing but which rows are left out. Boxes are cut each by itself, as Mondrian's,
    and released as ranges and sets of levels; no row is left out for them.

    The rows are looked at exactly, to choose as to cut: k-anonymity promises classes, not that
    a choice does not depend on a row, and each recoding keeps it. Neither the order of the rows
    nor chance enters; a tie goes to the bit that is declared first.
    """

    summary: ClassVar[str] = (
        "boxes, or thresholds and levels, by what they tell together about the label"
    )

    sensitive_diversity: ClassVar[int] = 2

    shape: Shape = later(choice("best", "columns"), as_before="columns")

    def bits(self, columns: Sequence[Column]) -> tuple[Bit, ...]:
        """Thresholds of ordered columns, levels of the others."""
        return cumulative_bits(columns)

    def recode(self, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:  # noqa: ARG002
        """What tells most; of a promise of nothing, all bits."""
        if self.shape == "columns" or promise.is_empty:
            return told_columns(rows, promise)
        ways = (*WAYS, clusters, halves) if rows.codes.size < FEW_CODES else WAYS
        return best_way(ways, rows, promise)


def told_columns(rows: CodedRows, promise: KAnonymityGuarantee) -> Recoded:
    """Bits that tell most beside each other, kept of every row."""
    started = Started.of(rows, cumulative_bits(rows.columns), promise, by_label=True)
    if promise.is_empty:
        return started.result(range(len(started.bits)))
    return started.result(told_together(started.partition, started.rare))


def leaves(rows: CodedRows, promise: KAnonymityGuarantee) -> Recoded:
    """The boxes of ``tree``, which have 25 rows or more."""
    return Tree().recode(rows, promise, seed=0)


def clusters(rows: CodedRows, promise: KAnonymityGuarantee) -> Recoded:
    """The boxes of ``cluster_k_anonymity``."""
    return ClusterKAnonymity().recode(rows, promise, seed=0)


def halves(rows: CodedRows, promise: KAnonymityGuarantee) -> Recoded:
    """The boxes of ``mondrian``, which do not look at the label."""
    return Mondrian().recode(rows, promise, seed=0)


FEW_CODES = 8_000
"""Rows × columns. Below, clusters and halves are tried as well: where rows are few, what is like a
row says more of it than any share of a label. Their time grows faster than the rows.
"""

WAYS: tuple[Way, ...] = (
    partial(telling_boxes, worth=Worth(label=True, line=True)),
    told_columns,
    partial(telling_boxes, worth=Worth(label=True, line=False)),
    leaves,
)
"""The first is taken where no other is clearly ahead."""


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
