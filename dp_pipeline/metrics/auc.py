"""Area under the ROC curve, of rows or counts by class; agreement of clusters with classes."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.errors import DeclarationError


def auc(scores: FloatArray, positive: NDArray[np.bool_]) -> float:
    """Return the AUC: the share of pairs in which a positive row scores higher than a negative one.

    scores     (n,) numbers, which may be infinite
    positive   (n,) True for positive rows

    Equal scores count half. NaN without positive or without negative rows. DeclarationError for
    arrays of different lengths and for NaN among the scores.

    >>> auc(np.array([0.1, 0.4, 0.4]), np.array([False, False, True]))
    0.75
    """
    if scores.ndim != 1 or scores.shape != positive.shape:
        raise DeclarationError(
            f"The AUC needs one score for each of {len(positive)} rows, not scores of shape "
            f"{scores.shape}"
        )
    if np.isnan(scores).any():
        raise DeclarationError("The AUC needs numbers as scores, but one score is NaN")
    hits, misses = np.sort(scores[positive]), np.sort(scores[~positive])
    pairs = len(hits) * len(misses)
    # Half pairs are integers, so the result does not depend on the order of rows.
    below = [int(np.searchsorted(misses, hits, side).sum()) for side in ("left", "right")]
    return sum(below) / (2 * pairs) if pairs else float("nan")


def macro_auc(scores: FloatArray, target: IntArray) -> float:
    """Return the mean AUC of each present class against the rest, in 0..1.

    scores   (n, classes), one score for each row and class; of two classes only the second is used
    target   (n,) codes of the classes

    NaN if all rows have one class, or there are none. DeclarationError for other shapes.

    >>> macro_auc(np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), np.array([0, 0, 1]))
    1.0
    """
    if scores.ndim != 2 or len(scores) != len(target):
        raise DeclarationError(
            f"The AUC needs one score of each class for each of {len(target)} rows, not shape "
            f"{scores.shape}"
        )
    if scores.shape[1] == 2:
        return auc(scores[:, 1], target == 1)
    aucs = [auc(scores[:, label], target == label) for label in np.unique(target).tolist()]
    return float(np.mean(aucs)) if aucs else float("nan")


@dataclass(frozen=True)
class ClassAuc:
    """The AUC of each label with rows against the others, averaged, and its gradient by the counts.

    value      in 0..1 for exact counts; NaN if all rows have one label, or there are none
    gradient   (classes, labels): change of ``value`` by one more row in a class with a label
    """

    value: float
    gradient: FloatArray

    @classmethod
    def of(cls, counts: IntArray, scores: FloatArray) -> Self:
        """Return the AUC of rows whose class determines their score; it equals ``macro_auc``.

        counts   (classes, labels) number of rows; noisy ones may be negative
        scores   (classes, labels) score of each label for a row of the class

        >>> counts = np.array([[2, 0], [1, 1]])
        >>> ClassAuc.of(counts, np.array([[0.9, 0.1], [0.5, 0.5]])).value.__round__(4)
        0.8333
        """
        labels = counts.shape[1]
        counted_labels = [1] if labels == 2 else range(labels)
        total = int(counts.sum())
        label_aucs = [
            _one_label(counts, scores[:, label], label)
            for label in counted_labels
            if 0 < int(counts[:, label].sum()) < total
        ]
        if not label_aucs:
            return cls(float("nan"), np.zeros(counts.shape))
        return cls(
            float(np.mean([label_auc.value for label_auc in label_aucs])),
            np.mean([label_auc.gradient for label_auc in label_aucs], axis=0),
        )


def _one_label(counts: IntArray, scores: FloatArray, label: int) -> ClassAuc:
    """Return the AUC of one label against all others, with its gradient.

    It is Σ_i Σ_j p_i n_j (1[s_i > s_j] + ½·1[s_i = s_j]) / (P·N), where class i has p_i rows with
    the label and n_i others, P and N in all."""
    positive = counts[:, label]
    negative = counts.sum(axis=1) - positive
    # Twice the ranks are integers, so the result does not depend on the order of tied classes.
    negatives_below = _half_ranks(scores, negative)
    positives_above = _half_ranks(-scores, positive)
    pairs = int(positive.sum()) * int(negative.sum())
    value = int(positive @ negatives_below) / (2 * pairs)
    gradient = np.empty(counts.shape)
    gradient[:] = ((positives_above / 2 - value * positive.sum()) / pairs)[:, None]
    gradient[:, label] = (negatives_below / 2 - value * negative.sum()) / pairs
    return ClassAuc(value, gradient)


def _half_ranks(scores: FloatArray, rows: IntArray) -> IntArray:
    """Return 2 · the number of rows with lower scores + the number with equal ones, for each class
    (classes,).

    rows   (classes,) number of rows of each class
    """
    values, places = np.unique(scores, return_inverse=True)
    rows_by_value = np.zeros(len(values), dtype=np.int64)
    np.add.at(rows_by_value, places, rows)
    ranks: IntArray = (2 * np.cumsum(rows_by_value) - rows_by_value)[places]
    return ranks


ClassTable = NDArray[Any]
"""Rows of every class in every cluster, (classes, k), integers of at least 0."""


def class_table(classes: IntArray, clusters: IntArray, *, shape: tuple[int, int]) -> IntArray:
    """Return the number of rows of every class in every cluster (classes, clusters).

    classes    (N,) class of each row, in 0..shape[0] − 1
    clusters   (N,) cluster of each row, in 0..shape[1] − 1

    >>> class_table(np.array([0, 0, 1]), np.array([1, 1, 0]), shape=(2, 2)).tolist()
    [[0, 2], [1, 0]]
    """
    cells = np.ravel_multi_index((classes, clusters), shape)
    counts: IntArray = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    return counts


def f_measure(table: ClassTable) -> float:
    """Return the F-measure with β = 1 of every class and the cluster that fits it best, averaged
    over rows.

    F = Σ_i (n_i/N) max_j F(i, j), F(i, j) = 2PR/(P + R) = 2 n_ij/(n_i + n_j) with precision
    P = n_ij/n_j and recall R = n_ij/n_i. It is in 0..1, and 1 where classes and clusters are equal;
    NaN for no rows. DeclarationError for an invalid table.

    Source: Larsen, Aone, "Fast and effective text mining using linear-time document
    clustering", KDD 1999; classes are true labels, or the clusters of k-means without privacy.

    >>> f_measure(np.array([[2, 0], [1, 1]]))
    0.7333333333333334
    """
    counts = _counts_of(table)
    rows = counts.sum()
    if rows == 0:
        return float("nan")
    of_class, of_cluster = counts.sum(axis=1), counts.sum(axis=0)
    # A class and a cluster without rows have F = 0.
    sums = np.maximum(of_class[:, None] + of_cluster, np.finfo(float).tiny)
    return float(of_class @ (2 * counts / sums).max(axis=1) / rows)


def adjusted_rand(table: ClassTable) -> float:
    """Return the adjusted Rand index: the agreement on pairs of rows, corrected for chance.

    It is 1 if classes and clusters are equal, about 0 if they are independent, and negative for
    less agreement; 1 also where these sizes always agree: one class and one cluster, or every row
    alone in both. NaN for no rows. DeclarationError for an invalid table.

    Source: Hubert, Arabie, "Comparing partitions", Journal of Classification, 1985.

    >>> adjusted_rand(np.array([[2, 0], [0, 2]])), round(adjusted_rand(np.ones((2, 2))), 12)
    (1.0, -0.5)
    """
    counts = _counts_of(table)
    rows = counts.sum()
    if rows == 0:
        return float("nan")
    together = _pair_count(counts)
    in_classes, in_clusters = _pair_count(counts.sum(axis=1)), _pair_count(counts.sum(axis=0))
    by_chance = in_classes * in_clusters / max(1.0, _pair_count(rows))
    at_most = (in_classes + in_clusters) / 2
    if at_most == by_chance:
        return 1.0
    return float((together - by_chance) / (at_most - by_chance))


def _pair_count(counts: Any) -> float:
    return float((counts * (counts - 1)).sum() / 2)


def _counts_of(table: ClassTable) -> NDArray[np.float64]:
    if table.ndim != 2 or table.size == 0:
        raise DeclarationError(
            f"A class table must have shape (classes, k), each at least 1, not {table.shape}"
        )
    if table.min() < 0:
        raise DeclarationError("A class table must have counts of at least 0, but one is negative")
    return table.astype(np.float64)
