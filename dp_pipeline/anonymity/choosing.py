"""Choosing one of several ways to recode rows, by what is learned from each in folds of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from dp_pipeline.anonymity.linear import discriminant_scores
from dp_pipeline.anonymity.method import Recoded
from dp_pipeline.anonymity.partition import KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.rows import CodedRows
from dp_pipeline.metrics.auc import macro_auc
from dp_pipeline.metrics.classification import stratified_folds
from dp_pipeline.spec.encoding import FloatArray

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
