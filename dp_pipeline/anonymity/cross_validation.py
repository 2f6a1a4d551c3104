"""Selection of a recoding by the AUC of classifiers that learn from it in folds of the rows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dp_pipeline.anonymity.coded_rows import CodedRows, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.label_scores import ScoredRows, fit_logistic
from dp_pipeline.anonymity.method import Recoding, RowRule
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.metrics.auc import ClassAuc
from dp_pipeline.metrics.classification import stratified_folds
from dp_pipeline.metrics.equivalence_classes import class_ids


@dataclass(frozen=True)
class Candidate:
    """A way of recoding rows that takes part in a selection.

    recode        function from rows to a recoding that keeps their guarantee and does not depend on
                  their order; TooFewRows as ``Method.recode``
    auc_deficit   AUC by which it is usually behind the reference
    """

    recode: Callable[[ScoredRows], Recoding]
    auc_deficit: float = 0.0


DEFICIT_DEVIATION = 0.03  # standard deviation of a candidate's deficit, from table to table
GUESSING = 0.5  # AUC of a classifier that has learned nothing

FOLDS = ((1_000, 5, 2), (10_000, 3, 1), (math.inf, 2, 1))
"""Rows below which a table is divided into so many folds, so many times: few rows need many."""


def select_by_cross_validation(
    candidates: Sequence[Candidate],
    rows: CodedRows,
    guarantee: KAnonymityGuarantee,
    *,
    reference: int = 0,
) -> Recoding:
    """Return the recoding of all rows by the candidate with the best cross-validated releases, with
    its mean AUC over the folds; 0 if fewer than two folds have two labels.

    guarantee   not empty
    reference   number of the candidate that the others are compared with

    Each candidate recodes the rows of all folds but one, logistic regression learns the labels from
    the recoded rows, and its AUC is measured on the remaining fold, labels weighing alike. Of the
    first candidate and those with a mean AUC above 0.5, the one with the largest
    ``expected_advantage`` is taken; in a tie, the first.

    K is lowered in a fold in proportion to its rows, for classes as fine as those of all rows.
    The choice reads the rows exactly, and reveals at most which candidate it was. It depends
    neither on the order of the rows nor on a seed: they are sorted first, and always divided alike.

    TooFewRows as ``Method.recode``.
    """
    guarantee.require_possible(rows)
    # Late: a plan has methods built, and none of them used.
    from threadpoolctl import threadpool_limits

    # Of few rows threads only wait for each other: ten times as long on a busy machine. Of 10⁵
    # rows they would save a tenth.
    with threadpool_limits(1, user_api="blas"):
        aucs, noise = _cross_validate(candidates, rows, guarantee)
        deficits = np.array([candidate.auc_deficit for candidate in candidates])
        advantage = expected_advantage(aucs, deficits, noise=noise, reference=reference)
        # Where nothing can be learned, folds teach the opposite of what was left out of them, and
        # a candidate that releases nothing is ahead of all.
        advantage[1:][aucs[1:].mean(axis=1) <= GUESSING] = -np.inf
        chosen = int(advantage.argmax())
        result = candidates[chosen].recode(ScoredRows(rows, guarantee))
    return replace(result, auc=float(aucs[chosen].mean()))


def expected_advantage(
    aucs: FloatArray, deficits: FloatArray, *, noise: float, reference: int = 0
) -> FloatArray:
    """Return the expected lead in AUC of each candidate over the reference (candidates,).

    aucs        (candidates, folds) AUC of each candidate in each fold, folds ≥ 2
    deficits    (candidates,) AUC by which each is usually behind the reference; 0 for that itself
    noise       variance of the mean over folds, divided by the variance of one fold's AUC
    reference   number of the candidate that the others are compared with

    It is the posterior mean of a normal distribution, whose prior has minus the deficit as mean and
    ``DEFICIT_DEVIATION`` as deviation; what is measured is the mean lead over the folds.

    >>> aucs = np.array([[0.7, 0.8], [0.78, 0.88]])
    >>> expected_advantage(aucs, np.array([0.0, 0.1]), noise=1.0).round(3).tolist()
    [0.0, 0.08]
    """
    ahead = aucs - aucs[reference]
    variance, prior = noise * ahead.var(axis=1, ddof=1), DEFICIT_DEVIATION**2
    return np.asarray((ahead.mean(axis=1) * prior - deficits * variance) / (prior + variance))


def _cross_validate(
    candidates: Sequence[Candidate], rows: CodedRows, guarantee: KAnonymityGuarantee
) -> tuple[FloatArray, float]:
    """Return the AUC of every candidate in every fold (candidates, folds), and the variance of the
    mean over folds, divided by the variance of one fold's AUC.

    Folds whose test rows have one label are left out; if fewer than two folds remain, the AUCs are
    0 in two folds. Training rows overlap between folds, so a mean varies more than by the number of
    folds alone.

    Source: Nadeau, Bengio, "Inference for the generalization error" (Machine Learning 2003).
    """
    rows = rows.select(np.lexsort((rows.target, *rows.codes.T[::-1])))
    folds, times = next((folds, times) for below, folds, times in FOLDS if len(rows) < below)
    by_fold = []
    for seed in range(times):
        numbers = stratified_folds(rows.target, folds, seed=seed)
        for fold in range(folds):
            learn, test = rows.select(numbers != fold), rows.select(numbers == fold)
            k = round(guarantee.k * len(learn) / max(1, len(rows)))
            learned = ScoredRows(learn, replace(guarantee, k=max(min(2, guarantee.k), k)))
            by_fold.append([_auc(candidate, learned, test.kinds()) for candidate in candidates])
    aucs = np.array(by_fold).T
    aucs = aucs[:, ~np.isnan(aucs).any(axis=0)]
    # A single fold does not show how much is luck.
    aucs = aucs if aucs.shape[1] > 1 else np.zeros((len(candidates), 2))
    return aucs, 1 / aucs.shape[1] + 1 / (folds - 1)


def _auc(candidate: Candidate, learn: ScoredRows, test: tuple[CodedRows, IntArray]) -> float:
    """Return the AUC on test rows of logistic regression that learned from recoded rows.

    It is 0.5 if there are too few rows to recode, and NaN if the test rows have fewer than two
    labels.

    test   distinct rows with their labels, and the number of rows equal to each
    """
    try:
        rule = candidate.recode(learn).rule
    except TooFewRows:
        return GUESSING
    (features, counts), (tested, tested_counts) = (
        _released_classes(rule, *kinds) for kinds in (learn.kinds, test)
    )
    probabilities = np.zeros(tested_counts.shape)
    if features.size and len(tested) and np.count_nonzero(counts.any(axis=0)) > 1:
        solver = fit_logistic(features, counts)
        probabilities[:, solver.classes_] = solver.predict_proba(tested)
    return ClassAuc.of(tested_counts, probabilities).value


def _released_classes(
    rule: RowRule, kinds: CodedRows, counts: IntArray
) -> tuple[FloatArray, IntArray]:
    """Return the features (classes, features) of each class of recoded rows, and its numbers of
    rows by label (classes, labels).

    counts   (kinds,) number of rows equal to each of ``kinds``
    """
    ids, sizes = class_ids(rule.recode(kinds).codes)
    first, labels = np.unique(ids, return_index=True)[1], len(kinds.target_levels)
    cells = np.bincount(ids * labels + kinds.target, counts, minlength=len(sizes) * labels)
    return rule.features(kinds.select(first)), cells.reshape(-1, labels).astype(np.int64)
