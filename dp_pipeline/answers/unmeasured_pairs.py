"""The error of a release in pairs of columns that no measured table contains."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import pi, sqrt
from typing import Self

import numpy as np

from dp_pipeline.answers.noisy_tables import NoisyTables
from dp_pipeline.answers.released_rows import ReleasedRows
from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.results.measurement import NoisyCounts

TAIL_FACTOR = 1.2
"""Factor by which the deviations of cells of a scored pair are taken to be larger than normal ones:
intervals then hold 95 of 100 cells of 390 public tables (Rdatasets) where little more than the mean
dependence of all pairs is known, and 98 where the distance of each pair is known."""

LEAST_UNEXPLAINED = 0.1  # part of the square of a score that the model is taken to miss, at least
MOST_PAIRS_DRAWN = 300  # pairs without a table for which a replicate draws a dependence, at most

USUAL_DEPENDENCE = 0.2
"""τ, in parts of all rows, of a pair of which nothing is known: 95 of 100 cells of the same tables
are less than 1.96·τ·√(p(1 − p)q(1 − q)) from independence."""

USUAL_PAIRS = 4
"""Weight of ``USUAL_DEPENDENCE``, in measured pairs of a release: between the public tables τ²
differs half as much as between the pairs of one table."""


@dataclass(frozen=True)
class UnmeasuredPair:
    """A distribution of how far the true cells of two attributes may deviate from the model.

    Deviations are a random dependence between the attributes: independent normal numbers, minus
    what is known of their sums. Without a table the margins are known: with the variance τ²·p·q
    before, a cell has τ²·p(1 − p)q(1 − q) after, as it has on average over all directions of a
    dependence; τ is such that the L1 sum of the deviations is the distance. With a table over
    groups the count of every group is known: in a group of m rows, of which a cell has the part w
    if levels are independent, the variance before is (φ·m)²·w, where φ is the distance in parts of
    that of attributes that determine each other.

    first, second   shares of the levels of either attribute
    model           shares of the cells
    scale           τ or φ·N, in rows
    weights         variances of the cells before, in squares of the scale
    labels          group of every cell; None without a table
    """

    first: FloatArray
    second: FloatArray
    model: FloatArray
    scale: float
    weights: FloatArray
    labels: IntArray | None

    @classmethod
    def without_table(cls, first: FloatArray, second: FloatArray, distance: float) -> Self:
        """Return the distribution for a pair without a table.

        first, second   shares of the levels of either attribute
        distance        L1 distance of the truth from the model, in rows
        """
        scale = distance / max(_expected_distance(first, second), np.finfo(float).tiny)
        model = np.outer(first, second)
        return cls(first, second, model, scale, model, None)

    @classmethod
    def with_table_over_groups(
        cls,
        first: FloatArray,
        second: FloatArray,
        distance: float,
        joint: FloatArray,
        labels: IntArray,
    ) -> Self:
        """Return the distribution for a pair with a table over groups of levels.

        first, second   shares of the levels of either attribute
        distance        L1 distance of the truth from the model, in rows
        joint           shares of the released rows in every cell
        labels          group of every cell
        """
        independent, places = np.outer(first, second).ravel(), labels.ravel()
        totals = np.maximum(np.bincount(places, independent), np.finfo(float).tiny)
        parts = (independent / totals[places]).reshape(labels.shape)
        of_group = np.bincount(places, joint.ravel())[labels]
        most = 2 * sqrt((1 - float(first @ first)) * (1 - float(second @ second)))
        scale = distance / max(most, np.finfo(float).tiny)
        return cls(first, second, of_group * parts, scale, of_group**2 * parts, labels)

    @property
    def _parts(self) -> FloatArray:
        return np.asarray(self.model**2 / np.maximum(self.weights, np.finfo(float).tiny))

    def subtract_means(self, values: FloatArray) -> FloatArray:
        """Return values of the cells minus their weighted means over the table's rows and columns,
        or minus those over groups of cells if there is a table over groups."""
        if self.labels is None:
            values = values - (values @ self.second)[:, None]
            return np.asarray(values - self.first @ values)
        means = np.bincount(self.labels.ravel(), (self._parts * values).ravel())
        return np.asarray(values - means[self.labels])

    def variance(self, values: FloatArray) -> float:
        """Return the variance, in rows², of a sum to which each row adds the value of its cell."""
        return self.scale**2 * float((self.weights * self.subtract_means(values) ** 2).sum())

    @property
    def variances(self) -> FloatArray:
        """The variance of the count of every cell, in rows², in the shape of the table."""
        if self.labels is None:
            squares = np.outer(self.first * (1 - self.first), self.second * (1 - self.second))
        else:
            squares = self.weights * (1 - self._parts)
        return np.asarray(self.scale**2 * squares)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return a random deviation of every cell from the model, in the shape of the table: the
        rows that the cell gains, divided by its share of all rows."""
        normal = rng.standard_normal(self.weights.shape) * np.sqrt(self.weights)
        return self.scale * self.subtract_means(normal / np.maximum(self.model, 1e-9))


class UnmeasuredPairs:
    """All pairs of attributes that no table contains with all their levels.

    rows         released rows
    tables       what was measured
    dependence   (attribute, attribute) → likely L1 distance of the pair from independence, in rows,
                 of pairs that were scored: the root of the mean square, given the noisy score

    What a model misses of a dependence is taken to be orthogonal to what it has: the squared
    distance of the truth from the model is the squared score minus the squared distance of the
    model from independence. Where a table over groups exists, nothing is subtracted, because what
    the model has inside the groups is unknown. A pair without a score is taken to depend as pairs
    usually do, and as the measured pairs of the same release do."""

    def __init__(
        self, rows: ReleasedRows, tables: NoisyTables, dependence: Mapping[Names, float]
    ) -> None:
        self._rows, self._tables, self._dependence = rows, tables, dependence
        self._total = tables.total
        self._pairs: dict[Names, UnmeasuredPair] = {}

    def get(self, first: str, second: str) -> UnmeasuredPair:
        """Return the distribution of the deviations of a pair's cells from the model, which is
        computed once."""
        pair = (first, second)
        if pair not in self._pairs:
            shares = self._shares(first), self._shares(second)
            is_measured = bool(self._tables.with_attributes(pair))
            scale = self._scale_of(first, second, is_measured)
            distance = scale * _expected_distance(*shares)
            if is_measured:
                groups, of_second = map(self._tables.groups_of, pair)
                labels = groups[:, None] * (int(of_second.max()) + 1) + of_second
                joint = self._rows.shares(first, second)
                self._pairs[pair] = UnmeasuredPair.with_table_over_groups(
                    *shares, distance, joint, labels
                )
            else:
                self._pairs[pair] = UnmeasuredPair.without_table(*shares, distance)
        return self._pairs[pair]

    def score(self, first: str, second: str) -> float | None:
        """Return the likely L1 distance of a pair from independence, in rows, whatever its order;
        None if unscored."""
        return self._dependence.get((first, second), self._dependence.get((second, first)))

    @cached_property
    def pairs_to_draw(self) -> list[tuple[Names, UnmeasuredPair]]:
        """The scored pairs without a table of their levels: at most 300, highest scores first."""
        names = [pair for pair in self._dependence if not self._tables.has_levels(pair)]
        names.sort(key=lambda pair: -self._dependence[pair])
        return [(pair, self.get(pair[0], pair[1])) for pair in names[:MOST_PAIRS_DRAWN]]

    def _scale_of(self, first: str, second: str, is_measured: bool) -> float:
        """Return the τ of a pair's distance from the model, in rows; the usual τ without a score.

        is_measured   whether a table over groups of levels has the pair

        Levels were scored in groups; inside these they are taken to depend as much."""
        score = self.score(first, second)
        if score is None:
            return self._usual
        groups = self._tables.groups_of(first), self._tables.groups_of(second)
        joint = self._rows.shares(first, second)
        first_groups, second_groups = (np.eye(int(labels.max()) + 1)[labels] for labels in groups)
        joint = first_groups.T @ joint @ second_groups
        parts = joint.sum(axis=1), joint.sum(axis=0)
        of_model = 0.0 if is_measured else self._total * np.abs(joint - np.outer(*parts)).sum()
        square = max(score**2 - of_model**2, LEAST_UNEXPLAINED * score**2)
        return TAIL_FACTOR * sqrt(square) / max(_expected_distance(*parts), np.finfo(float).eps)

    def _shares(self, name: str) -> FloatArray:
        """Return the shares of the levels, all above 0, as the noise of a count is added to each in
        squares."""
        tables = self._tables.with_attributes((name,)) or self._tables.tables
        noise = min(table.variance * table.table.size for table in tables)
        noise /= self._rows.sizes[name] * self._total**2
        shares = np.sqrt(self._rows.shares(name) ** 2 + noise)
        return np.asarray(shares / shares.sum())

    @cached_property
    def _usual(self) -> float:
        """The τ of a pair without a score, in rows; cells have the variance τ²·p(1 − p)·q(1 − q).

        It is the root of the weighted mean of the τ² of ``USUAL_DEPENDENCE`` and of the measured
        pairs, which weigh less the more noise they have; at least a part of the usual τ.
        """
        usual = (USUAL_DEPENDENCE * self._total) ** 2
        squares, weights = [usual], [float(USUAL_PAIRS)]
        for table in self._tables.tables:
            axes_of_rows = [i for i, n in enumerate(table.attributes) if n in self._rows.sizes]
            for axes in combinations(axes_of_rows, 2):
                square, deviation = self._measured_square(table, axes)
                squares.append(square)
                weights.append(1 / (1 + (deviation / (2 * usual)) ** 2))
        return sqrt(max(np.average(squares, weights=weights), LEAST_UNEXPLAINED * usual))

    def _measured_square(self, table: NoisyCounts, axes: tuple[int, int]) -> tuple[float, float]:
        """Return τ² of a measured pair without its noise, in rows², and the standard deviation of
        this.

        Without the means of its rows and columns, n cells of noise σ² have a square sum of
        σ²(r − 1)(s − 1), with a deviation of σ²√(2(r − 1)(s − 1)); the dependence adds
        τ²·Σp(1 − p)·Σq(1 − q)."""
        others = tuple(axis for axis in range(table.table.ndim) if axis not in axes)
        counts = table.table.sum(axis=others)
        noise = table.variance * table.table.size / counts.size
        parts = []
        for axis in axes:
            shares = self._rows.shares(table.attributes[axis])
            if table.is_grouped:
                groups = self._tables.groups_of(table.attributes[axis])
                shares = np.bincount(groups, shares).astype(np.float64)
            parts.append(shares[: table.table.shape[axis]])
        off = counts - counts.sum() * np.outer(*parts)
        off -= off.mean(axis=0) + off.mean(axis=1, keepdims=True) - off.mean()
        freedom = (counts.shape[0] - 1) * (counts.shape[1] - 1)
        spread = float(np.prod([float((part * (1 - part)).sum()) for part in parts]))
        spread = max(spread, np.finfo(float).eps)
        square = float((off**2).sum()) - noise * freedom
        return square / spread, noise * sqrt(2 * freedom) / spread


def _expected_distance(first: FloatArray, second: FloatArray) -> float:
    """Return the expected L1 norm of normal deviations of cells, with variance p(1 − p)·q(1 − q).

    first, second   shares p and q of the levels of two attributes, (levels,)
    """
    # A share of weighted rows may be above 1 by its last digit.
    variances = np.outer(first * (1 - first), second * (1 - second))
    deviations = np.sqrt(np.maximum(0.0, variances))
    return float(deviations.sum()) * sqrt(2 / pi)
