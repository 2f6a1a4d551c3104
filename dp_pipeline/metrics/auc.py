"""Area under the ROC curve: how often a positive row is scored above a negative one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.schema.encoding import FloatArray, IntArray
from dp_pipeline.schema.errors import DeclarationError


def auc(scores: FloatArray, positive: NDArray[np.bool_]) -> float:
    """Share of the pairs (positive row, negative row) in which the positive one scores higher.

    scores     (n,) numbers, infinite ones included
    positive   (n,) whether each row is positive

    In 0..1; equal scores count half (mid-ranks). NaN without positive or without negative rows.
    DeclarationError for arrays of different lengths and for scores that are no number: they have
    no place in an order.

    >>> auc(np.array([0.1, 0.4, 0.4]), np.array([False, False, True]))
    0.75
    """
    if scores.ndim != 1 or scores.shape != positive.shape:
        raise DeclarationError(
            f"AUC: expected one score for each of {len(positive)} rows, got another shape"
        )
    if np.isnan(scores).any():
        raise DeclarationError("AUC: expected a number a row, got NaN")
    values, places, rows = np.unique(scores, return_inverse=True, return_counts=True)
    hits = np.bincount(places[positive], minlength=len(values))
    misses = rows - hits
    pairs = int(hits.sum()) * int(misses.sum())
    if pairs == 0:
        return float("nan")
    # Half pairs are counted: whole numbers, so the order of the rows leaves no trace.
    below = 2 * (np.cumsum(misses) - misses) + misses
    return int(hits @ below) / (2 * pairs)


def macro_auc(scores: FloatArray, target: IntArray) -> float:
    """Mean of the AUCs of each class against the rest, over the classes that some row has.

    scores   (n, classes), one score a row and class; of two classes the second column decides
    target   (n,) codes of the classes

    In 0..1; NaN where all rows have one class, or there are none.

    >>> macro_auc(np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), np.array([0, 0, 1]))
    1.0
    """
    if scores.ndim != 2 or len(scores) != len(target):
        raise DeclarationError(
            f"AUC: expected one score a class for each of {len(target)} rows, got another shape"
        )
    if scores.shape[1] == 2:
        return auc(scores[:, 1], target == 1)
    found = [auc(scores[:, label], target == label) for label in np.unique(target).tolist()]
    return float(np.mean(found)) if found else float("nan")
