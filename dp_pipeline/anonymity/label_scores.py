"""Scores of rows by a logistic regression of the labels: what all rows together say of each row."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.coded_rows import CodedRows, DistinctRows, KAnonymityGuarantee
from dp_pipeline.anonymity.method import Bit, bit_matrix, cumulative_bits
from dp_pipeline.anonymity.ranking import label_counts, mutual_information
from dp_pipeline.config.encoding import FloatArray, IntArray

MAX_BITS = 256
"""Most bits with a weight, which are the most informative ones."""

MAX_LINES = 16
"""Most labels with a score, which are the most frequent ones."""

MAX_LEARNED_ROWS = 100_000
"""Most distinct rows, labels included, to learn from; of more, a seeded sample is taken."""

SCORE_UNIT = 1 << 12
"""Units of a score in one: scores are integers, whose sums are exact in any order."""


@dataclass(frozen=True, eq=False)
class ScoreRule:
    """A rule from levels to integer scores, one score for each label (a single one for two labels).

    level_scores   for each column the part that each level adds to every score (levels, scores)

    Scores are scaled so that a decrease of their squares by a cut, divided by 2^24, is the decrease
    of entropy in nats, to the second order.
    """

    level_scores: tuple[FloatArray, ...]

    @classmethod
    def learn(cls, rows: CodedRows, guarantee: KAnonymityGuarantee) -> ScoreRule:
        """Return the rule that logistic regression (C = 1) learns from bits with enough rows.

        It depends on how many rows there are of each kind, not on their order. Without such bits,
        or with rows of one label only, there is no score.
        """
        counts, bits = rows.target_counts, _weighted_bits(rows, guarantee)
        lines = MAX_LINES if np.count_nonzero(counts) > 2 else 1
        labels = np.argsort(-counts, kind="stable")[:lines]
        labels = labels[(counts[labels] > 0) & (counts[labels] < len(rows))]
        tables = [np.zeros((column.size, len(labels) if bits else 0)) for column in rows.columns]
        if not bits or not len(labels):
            return cls(tuple(tables))
        distinct, shares = DistinctRows.of(rows), counts / len(rows)
        solver = fit_logistic(bit_matrix(bits, distinct.codes, rows.columns), distinct.counts)
        # Neither the first of two labels nor a label without rows has weights.
        weights = np.zeros((len(bits), len(counts)))
        weights[:, solver.classes_[-len(solver.coef_) :]] = solver.coef_.T
        # The change of a probability p is p times that of its score less the mean of all scores.
        changes = (weights - (weights @ shares)[:, None]) * shares
        complement = 1 - shares if np.count_nonzero(counts) == 2 else np.ones(len(shares))
        scaled = changes[:, labels] * SCORE_UNIT / np.sqrt(2 * shares * complement)[labels]
        for bit, line_weights in zip(bits, np.rint(scaled), strict=True):
            first, end = bit.code_range(rows.columns)
            tables[bit.column][first:end] += line_weights
        return cls(tuple(tables))

    def keep_lines(self, is_kept: NDArray[np.bool_]) -> ScoreRule:
        """Return the rule with every score set to 0 for which the mask (scores,) is false."""
        return ScoreRule(tuple(np.where(is_kept, table, 0.0) for table in self.level_scores))

    def scores(self, codes: NDArray[np.integer]) -> IntArray:
        """Return the scores (n, scores) of codes (n, d)."""
        lines = self.level_scores[0].shape[1] if self.level_scores else 0
        scores = np.zeros((len(codes), lines))
        for column, table in enumerate(self.level_scores):
            scores += table[codes[:, column]]
        return scores.astype(np.int64)


def fit_logistic(features: NDArray[Any], counts: IntArray) -> Any:
    """Return scikit-learn's logistic regression (C = 1), fitted on weighted (row, label) kinds.

    Of very many kinds, only a fixed sample is read.

    features   (m, features)
    counts     (m, labels) rows of each label, of two labels or more
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    kinds, labels = np.nonzero(counts)
    if len(kinds) > MAX_LEARNED_ROWS:
        sample = np.random.default_rng(0).choice(len(kinds), MAX_LEARNED_ROWS, replace=False)
        # With the first row of every label, so that none is lost by chance.
        sample = np.union1d(sample, np.unique(labels, return_index=True)[1])
        kinds, labels = kinds[sample], labels[sample]
    with warnings.catch_warnings():
        # Rows are in nearly the same order before the optimum is reached.
        warnings.simplefilter("ignore", ConvergenceWarning)
        weights = counts[kinds, labels]
        return LogisticRegression().fit(features[kinds].astype(np.float64), labels, weights)


def _weighted_bits(rows: CodedRows, guarantee: KAnonymityGuarantee) -> tuple[Bit, ...]:
    """Return the bits that get a weight in the regression: the most informative ones, in order.

    They divide the levels of a column into groups that each have the rows and labels of a class, so
    no weight is about levels that few rows have. Weights of several columns together may be about
    few rows.
    """
    bits, labels = cumulative_bits(rows.columns), len(rows.target_levels)
    information = mutual_information(label_counts(rows, bits))
    group_of = [np.zeros(column.size, dtype=np.int64) for column in rows.columns]
    chosen: list[int] = []
    for i in np.argsort(-information, kind="stable").tolist():
        column, (first, end) = bits[i].column, bits[i].code_range(rows.columns)
        is_inside = np.zeros(len(group_of[column]), dtype=np.bool_)
        is_inside[first:end] = True
        groups = np.unique(2 * group_of[column] + is_inside, return_inverse=True)[1]
        cells = groups[rows.codes[:, column]] * labels + rows.target
        counts = np.bincount(cells, minlength=(int(groups.max()) + 1) * labels)
        if guarantee.is_met(counts.reshape(-1, labels)).all():
            group_of[column] = groups
            chosen.append(i)
        if len(chosen) == MAX_BITS:
            break
    return tuple(bits[i] for i in sorted(chosen))


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows with their label scores and the guarantee that they have to keep."""

    rows: CodedRows
    guarantee: KAnonymityGuarantee

    @cached_property
    def kinds(self) -> tuple[CodedRows, IntArray]:
        """The distinct rows, labels included, and the number of rows equal to each."""
        return self.rows.kinds()

    @cached_property
    def rule(self) -> ScoreRule:
        return ScoreRule.learn(self.rows, self.guarantee)

    @cached_property
    def scores(self) -> IntArray:
        """The integer scores of the distinct rows (kinds, scores)."""
        return self.rule.scores(self.kinds[0].codes)
