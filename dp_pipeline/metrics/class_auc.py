"""Area under the ROC curve of scores that all rows of a class share, from counts of classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_pipeline.schema.encoding import FloatArray, IntArray


@dataclass(frozen=True)
class ClassAuc:
    """AUC of each label against the rest, averaged over the labels that some row has.

    value      in 0..1 for exact counts; NaN where all rows have one label, or there are none
    gradient   (classes, labels): what one more row in a class with a label adds to ``value``
    """

    value: float
    gradient: FloatArray

    @classmethod
    def of(cls, counts: IntArray, scores: FloatArray) -> ClassAuc:
        """counts   (classes, labels) rows; noisy ones may be negative
        scores   (classes, labels): how much a row of the class looks like each label

        Equal scores count half. Of two labels the second decides, as in ``metrics.auc.macro_auc``,
        which this equals, computed over classes in place of rows.

        >>> counts = np.array([[2, 0], [1, 1]])
        >>> ClassAuc.of(counts, np.array([[0.9, 0.1], [0.5, 0.5]])).value.__round__(4)
        0.8333
        """
        labels = counts.shape[1]
        asked = [1] if labels == 2 else range(labels)
        total = int(counts.sum())
        found = [
            _one_label(counts, scores[:, label], label)
            for label in asked
            if 0 < int(counts[:, label].sum()) < total
        ]
        if not found:
            return cls(float("nan"), np.zeros(counts.shape))
        return cls(
            float(np.mean([one.value for one in found])),
            np.mean([one.gradient for one in found], axis=0),
        )


def _one_label(counts: IntArray, scores: FloatArray, label: int) -> ClassAuc:
    """AUC = Σ_i Σ_j p_i n_j (1[s_i > s_j] + ½·1[s_i = s_j]) / (P·N), p the label's rows of each
    class and n all others.
    """
    positive = counts[:, label]
    negative = counts.sum(axis=1) - positive
    # Halves of whole numbers, so that tied classes leave no trace of their order.
    beaten = _half_ranks(scores, negative)
    beating = _half_ranks(-scores, positive)
    pairs = int(positive.sum()) * int(negative.sum())
    value = int(positive @ beaten) / (2 * pairs)
    gradient = np.empty(counts.shape)
    gradient[:] = ((beating / 2 - value * positive.sum()) / pairs)[:, None]
    gradient[:, label] = (beaten / 2 - value * negative.sum()) / pairs
    return ClassAuc(value, gradient)


def _half_ranks(scores: FloatArray, rows: IntArray) -> IntArray:
    """Twice the rows with a lower score than each class, and once those with an equal one."""
    values, places = np.unique(scores, return_inverse=True)
    held = np.zeros(len(values), dtype=np.int64)
    np.add.at(held, places, rows)
    ranks: IntArray = (2 * np.cumsum(held) - held)[places]
    return ranks
