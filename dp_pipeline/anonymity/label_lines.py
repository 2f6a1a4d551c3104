"""Logistic regression in a few steps: what judges recodings, and says where rows are parted.

LabelLines: a straight line for every label, learned from counts.

LabelScores: what all rows say of each row, along such lines.

LinedRows: rows beside their scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.method import Bit, bit_matrix, cumulative_bits
from dp_pipeline.anonymity.partition import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.anonymity.ranking import mutual_information, on_and_off
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.metrics.equivalence_classes import class_ids

MOST_BITS = 256
"""That a line looks at: the most telling ones. Time grows with the square."""

MOST_LABELS = 16
"""That have a line each: the most frequent ones."""

SCORE_UNIT = 1 << 12
"""Weights are whole numbers of 1/4096, so that sums of scores are exact in any order."""

_STEPS = 5
"""At most: the order of rows along a line hardly changes after three."""

_MOST_PRODUCTS = 1 << 29
"""That all steps compute together: large tables have fewer steps, at the least the first, which
is the line of least squares.
"""

_FARTHEST = 3.0
"""That one step moves a row along a line: where labels are told apart without doubt, a whole step
may go past the optimum by any length.
"""

_LEAST_BEND = 1e-5
"""Of a curve, where a chance is nearly 0 or 1."""

_IMPOSSIBLE = -30.0
"""The height of a label that no row has."""


@dataclass(frozen=True, eq=False)
class LabelLines:
    """What logistic regression with C = 1 learns: a label's chance grows with its line.

    weights   (features, labels)
    heights   (labels,)
    """

    weights: FloatArray
    heights: FloatArray

    @classmethod
    def of(cls, features: FloatArray, counts: NDArray[np.number]) -> LabelLines:
        """Learned from kinds of rows.

        features   (m, features) of each kind, m ≥ 1
        counts     (m, labels) how many rows of each there are, at least one a kind

        Newton's steps, label by label: of two labels one has a line and the other none; of more,
        each step goes (labels − 1)/labels of its way, since all lines move at once. A few steps
        are not the optimum, but order rows as it does, in a tenth of a solver's time and less.

        Source: Hastie, Tibshirani, Friedman, "The elements of statistical learning", section 4.4.
        """
        rows = counts.sum(axis=1)
        middle = rows @ features / rows.sum()
        within, back = _turned(features - middle)
        weights, heights = _stepped(np.column_stack([within, np.ones(len(rows))]), counts)
        weights = weights if back is None else back @ weights
        return cls(weights, heights - middle @ weights)

    def chances(self, features: FloatArray) -> FloatArray:
        """Of each label (n, labels), of features (n, features)."""
        from scipy.special import softmax

        return np.asarray(softmax(features @ self.weights + self.heights, axis=1))


def _turned(features: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """The features (m, d) where there are no more than kinds of rows; else as many turned ones,
    in which a line has the same length, and what turns weights of those back (d, turned).
    """
    if features.shape[1] <= len(features):
        return features, None
    squares, axes = np.linalg.eigh(features @ features.T)
    told = squares > max(0.0, squares[-1]) * 1e-10
    lengths = np.sqrt(squares[told])
    return axes[:, told] * lengths, features.T @ (axes[:, told] / lengths)


def _stepped(features: FloatArray, counts: NDArray[np.number]) -> tuple[FloatArray, FloatArray]:
    """Weights of features (m, d + 1), the last of which is one everywhere, and heights."""
    from scipy.special import softmax

    rows, totals = counts.sum(axis=1), counts.sum(axis=0)
    there = np.flatnonzero(totals)
    moved = there[1:] if len(there) == 2 else there
    share = 1.0 if len(there) == 2 else 1 - 1 / len(there)
    weights = np.zeros((features.shape[1], len(totals)))
    weights[-1] = _IMPOSSIBLE
    weights[-1, there] = np.log(totals[there] / totals[there[0]])
    penalty = np.append(np.ones(features.shape[1] - 1), 1e-6)
    for _ in range(_steps(len(moved), *features.shape)):
        chances = softmax(features @ weights, axis=1)
        step = np.zeros_like(weights)
        for label in moved:
            chance = chances[:, label]
            slope = features.T @ (counts[:, label] - rows * chance) - penalty * weights[:, label]
            bend = rows * np.maximum(chance * (1 - chance), _LEAST_BEND)
            squares = (features * bend[:, None]).T @ features
            squares[np.diag_indices_from(squares)] += penalty
            step[:, label] = share * np.linalg.solve(squares, slope)
        farthest = np.abs(features @ step).max()
        weights += step * (_FARTHEST / max(farthest, _FARTHEST))
    return weights[:-1], weights[-1]


def _steps(labels: int, rows: int, features: int) -> int:
    return max(1, min(_STEPS, _MOST_PRODUCTS // max(1, labels * rows * features**2)))


def kinds(codes: NDArray[np.integer], target: IntArray, labels: int) -> tuple[IntArray, IntArray]:
    """One row number of each kind of equal codes, in the order of the codes, and how many rows of
    each label there are of it (kinds, labels).

    >>> one, counts = kinds(np.array([[1], [0], [1]]), np.array([0, 1, 1]), 2)
    >>> one.tolist(), counts.tolist()
    ([1, 2], [[0, 1], [1, 1]])
    """
    ids, sizes = class_ids(codes)
    one = np.zeros(len(sizes), dtype=np.int64)
    one[ids] = np.arange(len(ids))
    counts = np.bincount(ids * labels + target, minlength=len(sizes) * labels)
    return one, counts.reshape(-1, labels)


@dataclass(frozen=True, eq=False)
class LabelScores:
    """What all rows say of each row: a whole number for the line of each label, of two labels for
    one of them. A rule of levels alone.

    of_levels   for each column what its levels add to every score (levels, scores), whole numbers

    Squares are in nats, times 2^24: a fall of squares by a cut weighs as much as the fall of
    entropy that it foretells, to the second order. It depends on how many rows there are of each
    kind, not on their order.
    """

    of_levels: tuple[FloatArray, ...]

    @classmethod
    def of(cls, rows: CodedRows, promise: KAnonymityGuarantee) -> LabelScores:
        """Learned from rows, by bits that leave every group of levels of a column that have one
        weight with as many rows and labels as a class has to have: no weight is that of a level
        which few rows have, nor of one between two others. Weights of several columns together
        are learned from all rows all the same. Without such bits, or of rows of one label, there
        is no score.
        """
        counts, bits = rows.target_counts, cumulative_bits(rows.columns)
        lines = MOST_LABELS if np.count_nonzero(counts) > 2 else 1
        told = np.argsort(-counts, kind="stable")[:lines]
        told = told[(counts[told] > 0) & (counts[told] < len(rows))]
        some = _telling_bits(rows, bits, promise)
        if not some or not len(told):
            return cls(tuple(np.zeros((column.size, 0)) for column in rows.columns))
        one, of_kind = kinds(rows.codes, rows.target, len(counts))
        answers = bit_matrix(some, rows.codes[one], rows.columns).astype(np.float64)
        weights = LabelLines.of(answers, of_kind).weights
        shares = counts / len(rows)
        # The change of a chance p is p times that of its line beside the mean of all lines.
        changes = (weights - (weights @ shares)[:, None]) * shares
        rest = 1 - shares if np.count_nonzero(counts) == 2 else np.ones(len(shares))
        scaled = changes[:, told] * SCORE_UNIT / np.sqrt(2 * shares * rest)[told]
        return cls(_by_level(some, np.rint(scaled), rows.columns))

    def only(self, kept: NDArray[np.bool_]) -> LabelScores:
        """The same along the lines that are kept (scores,), and nought along others."""
        return LabelScores(tuple(np.where(kept, table, 0.0) for table in self.of_levels))

    def scores(self, codes: NDArray[np.integer]) -> FloatArray:
        """Whole numbers (n, scores) of codes (n, d)."""
        lines = self.of_levels[0].shape[1] if self.of_levels else 0
        found = np.zeros((len(codes), lines))
        for at, table in enumerate(self.of_levels):
            found += table[codes[:, at]]
        return found


def _telling_bits(
    rows: CodedRows, bits: Sequence[Bit], promise: KAnonymityGuarantee
) -> tuple[Bit, ...]:
    """The most telling ones, in their order, of those with which every group of levels keeps the
    promise.
    """
    worth = mutual_information(on_and_off(rows, bits))
    groups = [_LevelGroups.of(rows, at, promise) for at in range(len(rows.columns))]
    chosen: list[int] = []
    for at in np.argsort(-worth, kind="stable").tolist():
        if len(chosen) < MOST_BITS and groups[bits[at].column].part(*bits[at].run(rows.columns)):
            chosen.append(at)
    return tuple(bits[at] for at in sorted(chosen))


@dataclass(eq=False)
class _LevelGroups:
    """Levels of a column that have one weight, in groups that keep the promise each.

    counts     (levels, labels) rows of every level
    group_of   (levels,)
    """

    counts: IntArray
    group_of: IntArray
    promise: KAnonymityGuarantee

    @classmethod
    def of(cls, rows: CodedRows, column: int, promise: KAnonymityGuarantee) -> _LevelGroups:
        """One group of all levels."""
        levels, labels = rows.columns[column].size, len(rows.target_levels)
        cells = rows.codes[:, column].astype(np.int64) * labels + rows.target
        counts = np.bincount(cells, minlength=levels * labels).reshape(levels, labels)
        return cls(counts, np.zeros(levels, dtype=np.int64), promise)

    def part(self, first: int, end: int) -> bool:
        """Part levels first..end − 1 from the others in all groups, if these then keep the
        promise; whether they do.
        """
        levels = np.arange(len(self.group_of))
        inside = (levels >= first) & (levels < end)
        parted = np.unique(2 * self.group_of + inside, return_inverse=True)[1]
        counts = np.zeros((parted.max() + 1, self.counts.shape[1]), dtype=np.int64)
        np.add.at(counts, parted, self.counts)
        many = counts.sum(axis=1) >= max(1, self.promise.k)
        several = np.count_nonzero(counts, axis=1) >= self.promise.diversity
        keeps = bool((many & several).all())
        if keeps:
            self.group_of = parted
        return keeps


def _by_level(
    bits: Sequence[Bit], weights: FloatArray, columns: Sequence[Column]
) -> tuple[FloatArray, ...]:
    """Weights (bits, scores) added up for the levels of each column."""
    found = [np.zeros((column.size, weights.shape[1])) for column in columns]
    for bit, weight in zip(bits, weights, strict=True):
        first, end = bit.run(columns)
        found[bit.column][first:end] += weight
    return tuple(found)


@dataclass(frozen=True, eq=False)
class LinedRows:
    """Rows, a promise, and scores along lines, which are learned once for all ways to recode."""

    rows: CodedRows
    promise: KAnonymityGuarantee

    @cached_property
    def lines(self) -> LabelScores:
        """Learned from the rows."""
        return LabelScores.of(self.rows, self.promise)

    @cached_property
    def scores(self) -> FloatArray:
        """Whole numbers (n, scores)."""
        return self.lines.scores(self.rows.codes)
