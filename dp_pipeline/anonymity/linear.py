"""Straight lines through labels, by least squares: what stands in for a classifier in a search.

label_scores: what all rows say of each row, along such a line.

discriminant_scores: how well a label is learned, without a solver's steps.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from dp_pipeline.anonymity.method import bit_matrix, cumulative_bits
from dp_pipeline.anonymity.ranking import mutual_information, on_and_off
from dp_pipeline.anonymity.rows import CodedRows
from dp_pipeline.spec.encoding import FloatArray, IntArray

MOST_BITS = 256
"""That a line looks at: the most telling ones. Time grows with the square."""

MOST_LABELS = 16
"""That have a line each: the most frequent ones."""

SCORE_UNIT = 1 << 12
"""Weights are whole numbers of 1/4096, so that sums of scores are exact in any order."""


def line_weights(features: FloatArray, target: IntArray, labels: int) -> FloatArray:
    """The straight line of least squared distance from each label, (features, labels).

    features   (n, features) numbers, n ≥ 1
    target     (n,) codes 0..labels − 1

    Weights are held small as those of logistic regression with C = 1: its curve bends by
    p(1 − p), so squares of distances weigh that much there. The height of a line is left aside:
    it puts no row above another.
    """
    is_label = np.eye(labels)[target]
    middle = features.mean(axis=0)
    products = features.T @ features - len(features) * np.outer(middle, middle)
    told = features.T @ is_label - np.outer(middle, is_label.sum(axis=0))
    return np.asarray(np.linalg.solve(_held_small(products, target, labels), told))


def _held_small(products: FloatArray, target: IntArray, labels: int) -> FloatArray:
    """Products of features (features, features), the penalty of weights added."""
    shares = np.bincount(target, minlength=labels) / len(target)
    bend = (shares * (1 - shares))[shares > 0].mean()
    products[np.diag_indices_from(products)] += 1 / max(bend, 1 / len(target))
    return products


def discriminant_scores(
    learn: FloatArray, target: IntArray, ask: FloatArray, labels: int
) -> FloatArray:
    """Chances of each label (rows asked, labels) by Fisher's linear discriminant, learned from
    features (n, features) and labels (n,), n ≥ 1: a few milliseconds where logistic regression
    takes tens. As with that, a label between two others is likeliest between them.

    Its weights are held small as those of ``line_weights``. A label that no row has is as good
    as impossible.

    Source: Hastie, Tibshirani, Friedman, "The elements of statistical learning", section 4.3.
    """
    is_label = np.eye(labels)[target]
    counts = is_label.sum(axis=0)
    middles = (is_label.T @ learn) / np.maximum(1, counts)[:, None]
    within = learn.T @ learn - (middles * counts[:, None]).T @ middles
    weights = np.linalg.solve(_held_small(within, target, labels), middles.T) * len(target)
    heights = np.log(np.maximum(counts, 1e-9)) - (middles.T * weights).sum(axis=0) / 2
    return np.asarray(softmax(ask @ weights + heights, axis=1))


def label_scores(rows: CodedRows) -> FloatArray:
    """How much each row looks like each label by a straight line through cumulative bits, as
    whole numbers (n, labels told of). Of two labels, one line says it all.

    Squares are in nats, times 2^24: a fall of squares by a cut weighs as much as the fall of
    entropy that it foretells, to the second order.
    """
    counts = rows.target_counts
    told = np.argsort(-counts, kind="stable")[: MOST_LABELS if np.count_nonzero(counts) > 2 else 1]
    told = told[(counts[told] > 0) & (counts[told] < len(rows))]
    bits = cumulative_bits(rows.columns)
    if not bits or not len(told):
        return np.zeros((len(rows), 0))
    worth = mutual_information(on_and_off(rows, bits))
    chosen = np.sort(np.argsort(-worth, kind="stable")[:MOST_BITS])
    matrix = bit_matrix([bits[at] for at in chosen], rows.codes, rows.columns).astype(np.float64)
    weights = line_weights(matrix, rows.target, len(counts))[:, told]
    shares = counts[told] / len(rows)
    rest = 1 - shares if np.count_nonzero(counts) == 2 else 1.0
    return np.asarray(matrix @ np.rint(weights * SCORE_UNIT / np.sqrt(2 * shares * rest)))
