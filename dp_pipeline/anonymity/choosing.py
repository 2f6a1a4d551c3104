"""Choosing one of several ways to recode rows, by what is learned from each in folds of them.

Way: from rows to a recoding, and how good it is known to be.

best_way: what is learned in folds, weighed against what is known beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dp_pipeline.anonymity.label_lines import LabelLines, LinedRows, kinds
from dp_pipeline.anonymity.method import Recoded
from dp_pipeline.anonymity.partition import CodedRows, KAnonymityGuarantee, TooFewRows
from dp_pipeline.config.encoding import FloatArray
from dp_pipeline.metrics.auc import macro_auc
from dp_pipeline.metrics.classification import stratified_folds

Recode = Callable[[LinedRows], Recoded]
"""From rows to a recoding under which they keep their promise."""


@dataclass(frozen=True)
class Way:
    """One way to recode rows.

    recode   the same whatever the order of the rows
    behind   AUC by which it is usually behind the first of the ways that it is one of
    """

    recode: Recode
    behind: float = 0.0


_UNUSUAL = 0.03
"""Standard deviation, from table to table, of how far a way is behind."""

_FOLDS = ((1_000, 5, 2), (10_000, 3, 1), (math.inf, 2, 1))
"""Folds of tables of less than so many rows, and how often the rows are parted into them: few
rows need many folds, and many rows take long.
"""

_NOTHING_LEARNED = 0.5


def best_way(ways: Sequence[Way], rows: CodedRows, promise: KAnonymityGuarantee) -> Recoded:
    """The recoding by that way from whose releases most is learned, of at least one way.

    Each way recodes the rows of all folds but one, logistic regression learns the labels of what
    is released, and its AUC is measured on the fold that was left out, labels weighing alike. How
    far each way is ahead of the first is luck in part: it is weighed against how far it usually
    is, by the variance of either. The way is taken that is then farthest ahead, of those from
    which anything is learned; in a tie, the first. Then it recodes all rows.

    K is lowered in a fold in proportion to its rows, for classes as fine as those of all rows.
    What is made of folds is not released.

    The choice looks at the rows exactly, as every way does, and tells of them at most which way
    it was. Every way keeps the promise, so whichever is chosen does. It depends neither on the
    order of the rows nor on a seed: they are sorted first, and parted the same way always.

    TooFewRows as ``Method.recode``.
    """
    if promise.is_empty or len(ways) == 1:
        return ways[0].recode(LinedRows(rows, promise))
    promise.require_possible(len(rows), int(np.count_nonzero(rows.target_counts)))
    # Late: a plan has methods built, and none asked.
    from threadpoolctl import threadpool_limits

    # Of few rows threads only wait for each other: ten times as long on a busy machine. Of 10⁵
    # rows they would save a tenth.
    with threadpool_limits(1, user_api="blas"):
        learned, noise = _learned(ways, rows, promise)
        usual = -np.array([way.behind for way in ways])
        ahead = expected_ahead(learned, usual, noise=noise)
        # Where nothing can be learned, folds teach the opposite of what is left out of them, and
        # a way that releases nothing is ahead of all.
        ahead[1:][learned[1:].mean(axis=1) <= _NOTHING_LEARNED] = -np.inf
        return ways[int(ahead.argmax())].recode(LinedRows(rows, promise))


def expected_ahead(learned: FloatArray, usual: FloatArray, *, noise: float) -> FloatArray:
    """How far each way is expected to be ahead of the first, (ways,).

    learned   (ways, folds) AUC of each way in each fold, folds ≥ 2
    usual     (ways,) how far each is usually ahead
    noise     variance of a mean over folds, in variances of one fold

    The mean of a normal distribution that is known by a prior and by a measurement.

    >>> learned = np.array([[0.7, 0.8], [0.78, 0.88]])
    >>> expected_ahead(learned, np.array([0.0, -0.1]), noise=1.0).round(3).tolist()
    [0.0, 0.08]
    """
    ahead = learned - learned[0]
    variance = noise * ahead.var(axis=1, ddof=1)
    weighed = ahead.mean(axis=1) * _UNUSUAL**2 + usual * variance
    return np.asarray(weighed / (_UNUSUAL**2 + variance))


def _learned(
    ways: Sequence[Way], rows: CodedRows, promise: KAnonymityGuarantee
) -> tuple[FloatArray, float]:
    """AUC of every way in every fold (ways, folds), a fold that says nothing left out; and the
    noise of their mean.

    Folds share most of the rows that are learned from: their mean varies more than by the number
    of folds alone.

    Source: Nadeau, Bengio, "Inference for the generalization error" (Machine Learning 2003).
    """
    rows = rows.some(np.lexsort((rows.target, *rows.codes.T[::-1])))
    folds, times = next((folds, times) for below, folds, times in _FOLDS if len(rows) < below)
    parts = list(_parts(rows, promise, folds, times))
    found = np.array([[_auc(way.recode, *part) for part in parts] for way in ways])
    told = found[:, ~np.isnan(found).any(axis=0)]
    # Of one fold, nobody knows how much is luck.
    told = told if told.shape[1] > 1 else np.zeros((len(ways), 2))
    return told, 1 / told.shape[1] + 1 / (folds - 1)


def _parts(
    rows: CodedRows, promise: KAnonymityGuarantee, folds: int, times: int
) -> Iterator[tuple[LinedRows, CodedRows]]:
    """Rows to learn from and rows to test on, of every fold."""
    for seed in range(times):
        numbers = stratified_folds(rows.target, folds, seed=seed)
        for fold in range(folds):
            learn = rows.some(numbers != fold)
            k = round(promise.k * len(learn) / max(1, len(rows)))
            inner = replace(promise, k=max(min(2, promise.k), k))
            yield LinedRows(learn, inner), rows.some(numbers == fold)


def _auc(way: Recode, lined: LinedRows, test: CodedRows) -> float:
    """NaN where the rows to be tested on have one label, or none."""
    learn = lined.rows
    try:
        found = way(lined)
    except TooFewRows:
        return _NOTHING_LEARNED
    labels = len(test.target_levels)
    kept = found.recoding.released(learn.some(~found.suppressed))
    if not len(kept) or not kept.columns:
        return macro_auc(np.zeros((len(test), labels)), test.target)
    one, counts = kinds(kept.codes, kept.target, labels)
    seen = found.recoding.features(learn.some(np.flatnonzero(~found.suppressed)[one]))
    lines = LabelLines.of(seen, counts)
    return macro_auc(lines.chances(found.recoding.features(test)), test.target)
