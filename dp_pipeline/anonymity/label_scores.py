"""Scores of rows by a logistic regression of the labels."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.coded_rows import CodedRows, DistinctRows, KAnonymityGuarantee
from dp_pipeline.anonymity.method import Bit, bit_matrix, cumulative_bits
from dp_pipeline.anonymity.ranking import label_counts, mutual_information
from dp_pipeline.config.encoding import FloatArray, IntArray

MAX_BITS = 256  # with a weight: the most informative ones
MAX_LINES = 16  # labels with a score: the most frequent ones
MAX_LEARNED_ROWS = 100_000  # distinct rows, labels included, that are learned from
SCORE_UNIT = 1 << 12  # scores are integers, in units of 1/4096: sums are exact in any order


@dataclass(frozen=True, eq=False)
class ScoreRule:
    """A rule that gives a row one integer score for each label, or a single one for two labels.

    level_scores   for each column, what each level adds to every score (levels, scores)

    The scale: a decrease by x of the summed squares of scores around their means is a decrease of
    entropy by x/2^24 nats, to the second order.
    """

    level_scores: tuple[FloatArray, ...]

    @classmethod
    def learn(cls, rows: CodedRows, guarantee: KAnonymityGuarantee) -> Self:
        """Return the rule that logistic regression (C = 1) learns from the bits of
        ``_weighted_bits``; it has no score without such bits, or if all rows have one label.

        It does not depend on the order of the rows.
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

    def keep_scores(self, is_kept: NDArray[np.bool_]) -> "ScoreRule":
        """Return the rule with those scores set to 0 for which the mask (scores,) is false."""
        return ScoreRule(tuple(np.where(is_kept, table, 0.0) for table in self.level_scores))

    def scores(self, codes: NDArray[np.integer]) -> IntArray:
        """Return the scores (n, scores) of codes (n, d)."""
        parts = [table[column] for table, column in zip(self.level_scores, codes.T, strict=True)]
        return np.asarray(np.sum(parts or [np.zeros((len(codes), 0))], axis=0), dtype=np.int64)


def fit_logistic(features: NDArray[Any], counts: IntArray) -> Any:
    """Return scikit-learn's logistic regression (C = 1), fitted on rows with weights.

    features   (m, features)
    counts     (m, labels) number of rows of each label with these features, of two labels or more

    Of more than 100,000 counts above 0, a fixed sample with every label is read.
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
    """Return the cumulative bits, at most 256, that say most about the label, in column order.

    They divide the levels of each column into groups whose rows keep the guarantee of a class, so
    no weight of a bit reveals rows of rare levels. Weights of several columns together may be about
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
    """Rows, the guarantee that they have to keep, and scores of the rows for each label; what is
    computed is cached."""

    rows: CodedRows
    guarantee: KAnonymityGuarantee

    @cached_property
    def kinds(self) -> tuple[CodedRows, IntArray]:
        """The distinct rows, labels included, and the number of rows equal to each (kinds,)."""
        return self.rows.kinds()

    @cached_property
    def rule(self) -> ScoreRule:
        return ScoreRule.learn(self.rows, self.guarantee)

    @cached_property
    def scores(self) -> IntArray:
        """The integer scores of the rows of ``kinds`` (kinds, scores)."""
        return self.rule.scores(self.kinds[0].codes)
