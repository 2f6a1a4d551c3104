"""UnmeasuredPairs: how far pairs of columns without a table are from the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import pi, sqrt

import numpy as np

from dp_pipeline.answers.noisy_tables import MeasuredTable, NoisyTables
from dp_pipeline.answers.released_rows import ReleasedRows
from dp_pipeline.config.encoding import FloatArray, IntArray, Names

TAIL_FACTOR = 1.2
"""How much wider than normal ones deviations of cells are where little more than the mean
dependence of all pairs is known: of the cells of 390 public tables (Rdatasets) 95 of 100 are then
inside, and 98 where the distance of each pair is known."""

LEAST_UNEXPLAINED = 0.1
"""Part of the square of a score that no model explains, at least."""

MOST_PAIRS_DRAWN = 300
"""Pairs without a table that a replicate draws a dependence for."""

USUAL_DEPENDENCE = 0.2
"""τ, in parts of all rows, of a pair of which nothing is known: 95 of 100 cells of the same tables
are less than 1.96·τ·√(p(1 − p)q(1 − q)) from independence."""

USUAL_PAIRS = 4
"""Measured pairs that say as much of the dependence of others as this: between these tables τ²
differs half as much as between the pairs of one."""


@dataclass(frozen=True)
class UnmeasuredPair:
    """The possible deviations of a pair's cells from the model: arrays of its table's shape.

    Deviations of cells are a random dependence between the attributes: independent normal ones,
    of which what is known is taken off. Without a table these are the means over margins, and the
    variances are τ²·p·q, so that a cell's is τ²·p(1 − p)q(1 − q) in the end, as it is on average
    over all directions of a dependence; τ is such that their L1 sum is the distance. Of a table
    over groups the count of every group is known: inside one of m rows, of which a cell has the
    part w if levels are independent, the variance is (φ·m)²·w, where φ is the distance as a part of
    that of attributes that decide each other.

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
    def without_table(
        cls, first: FloatArray, second: FloatArray, distance: float
    ) -> UnmeasuredPair:
        """Return a pair without a table, given its L1 distance from the model in rows."""
        scale = distance / max(_usual_sum(first, second), np.finfo(float).tiny)
        model = np.outer(first, second)
        return cls(first, second, model, scale, model, None)

    @classmethod
    def grouped(
        cls,
        first: FloatArray,
        second: FloatArray,
        distance: float,
        joint: FloatArray,
        labels: IntArray,
    ) -> UnmeasuredPair:
        """Return a pair with a table over groups of levels.

        joint   shares of the released rows in every cell
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
        """The share that every cell has of its group."""
        return np.asarray(self.model**2 / np.maximum(self.weights, np.finfo(float).tiny))

    def off_margins(self, values: FloatArray) -> FloatArray:
        """Return values of the cells minus their means over margins or groups."""
        if self.labels is None:
            values = values - (values @ self.second)[:, None]
            return np.asarray(values - self.first @ values)
        means = np.bincount(self.labels.ravel(), (self._parts * values).ravel())
        return np.asarray(values - means[self.labels])

    def variance(self, values: FloatArray) -> float:
        """Return the variance of the sum of a value for each row, by its cell, in rows²."""
        return self.scale**2 * float((self.weights * self.off_margins(values) ** 2).sum())

    @property
    def variances(self) -> FloatArray:
        """The variance of the count of every cell, in rows²."""
        if self.labels is None:
            squares = np.outer(self.first * (1 - self.first), self.second * (1 - self.second))
        else:
            squares = self.weights * (1 - self._parts)
        return np.asarray(self.scale**2 * squares)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return deviations of the cells, as parts of their rows times the number of all rows."""
        normal = rng.standard_normal(self.weights.shape) * np.sqrt(self.weights)
        return self.scale * self.off_margins(normal / np.maximum(self.model, 1e-9))


class UnmeasuredPairs:
    """All pairs of attributes whose levels no table separates.

    dependence   (attribute, attribute) → likely L1 distance of the pair from independence, in rows,
                 of pairs that were scored: the root of the mean square, given the noisy score

    What the model is from independence is taken off a score as the shorter side of a right angle
    is: what a model misses has nothing to do with what it has. What is left is the distance of the
    truth from the model. Over levels in groups of a table it is unknown what the model has. A pair
    without a score depends as pairs usually do, and as the measured ones of the same release.
    """

    def __init__(
        self, rows: ReleasedRows, tables: NoisyTables, dependence: Mapping[Names, float]
    ) -> None:
        self._rows, self._tables, self._dependence = rows, tables, dependence
        self._total = tables.total
        self._pairs: dict[Names, UnmeasuredPair] = {}

    def get(self, first: str, second: str) -> UnmeasuredPair:
        """Return the possible deviations of a pair's cells from the model."""
        if (first, second) not in self._pairs:
            self._pairs[first, second] = self._new(first, second)
        return self._pairs[first, second]

    def score(self, first: str, second: str) -> float | None:
        """Return the likely distance from independence of a pair that was scored."""
        return self._dependence.get((first, second), self._dependence.get((second, first)))

    @cached_property
    def pairs_to_draw(self) -> list[tuple[Names, UnmeasuredPair]]:
        """The at most 300 pairs with the largest scores whose levels no table separates."""
        names = [pair for pair in self._dependence if not self._tables.has_levels(pair)]
        names.sort(key=lambda pair: -self._dependence[pair])
        return [(pair, self.get(pair[0], pair[1])) for pair in names[:MOST_PAIRS_DRAWN]]

    def _new(self, first: str, second: str) -> UnmeasuredPair:
        shares = self._shares(first), self._shares(second)
        groups, of_second = self._tables.groups_of(first), self._tables.groups_of(second)
        labels = groups[:, None] * (int(of_second.max()) + 1) + of_second
        is_measured = bool(self._tables.having((first, second)))
        distance = self._dependence_of_groups(first, second, is_measured) * _usual_sum(*shares)
        if is_measured:
            joint = self._rows.shares(first, second)
            return UnmeasuredPair.grouped(*shares, distance, joint, labels)
        return UnmeasuredPair.without_table(*shares, distance)

    def _dependence_of_groups(self, first: str, second: str, is_measured: bool) -> float:
        """Return τ of the truth about the model, in rows: levels were scored in their groups, and
        what is inside these is taken to depend as much.
        """
        score = self.score(first, second)
        if score is None:
            return self._usual
        groups = self._tables.groups_of(first), self._tables.groups_of(second)
        joint = self._rows.shares(first, second)
        # Over groups of levels, as they were scored.
        first_groups, second_groups = (np.eye(int(labels.max()) + 1)[labels] for labels in groups)
        joint = first_groups.T @ joint @ second_groups
        parts = joint.sum(axis=1), joint.sum(axis=0)
        of_model = 0.0 if is_measured else self._total * np.abs(joint - np.outer(*parts)).sum()
        square = max(score**2 - of_model**2, LEAST_UNEXPLAINED * score**2)
        return TAIL_FACTOR * sqrt(square) / max(_usual_sum(*parts), np.finfo(float).tiny)

    def _shares(self, name: str) -> FloatArray:
        """Return shares of levels and their noise: one without a released row may have some."""
        tables = self._tables.having((name,)) or self._tables.tables
        noise = min(table.variance * table.counts.size for table in tables)
        noise /= self._rows.sizes[name] * self._total**2
        shares = np.sqrt(self._rows.shares(name) ** 2 + noise)
        return np.asarray(shares / shares.sum())

    @cached_property
    def _usual(self) -> float:
        """τ of a pair without a score, in rows: the square mean of what is usual and of what the
        measured pairs have beyond their noise, which count for less the more noise they have.
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

    def _measured_square(self, table: MeasuredTable, axes: tuple[int, int]) -> tuple[float, float]:
        """Return τ² of a measured pair without its noise, in rows², and the deviation of that.

        Without the means of its rows and columns, n cells of noise σ² have a square sum of
        σ²(r − 1)(s − 1), give or take its root of two degrees; deviations add τ²Σp(1 − p)q(1 − q).
        """
        others = tuple(axis for axis in range(table.counts.ndim) if axis not in axes)
        counts = table.counts.sum(axis=others)
        noise = table.variance * table.counts.size / counts.size
        parts = []
        for axis in axes:
            shares = self._rows.shares(table.attributes[axis])
            if table.is_grouped:
                groups = self._tables.groups_of(table.attributes[axis])
                shares = np.bincount(groups, shares).astype(np.float64)
            parts.append(shares[: table.counts.shape[axis]])
        off = counts - counts.sum() * np.outer(*parts)
        off -= off.mean(axis=0) + off.mean(axis=1, keepdims=True) - off.mean()
        freedom = (counts.shape[0] - 1) * (counts.shape[1] - 1)
        spread = float(np.prod([float((part * (1 - part)).sum()) for part in parts]))
        spread = max(spread, np.finfo(float).eps)
        square = float((off**2).sum()) - noise * freedom
        return square / spread, noise * sqrt(2 * freedom) / spread


def _usual_sum(first: FloatArray, second: FloatArray) -> float:
    """Return the L1 sum of normal deviations of all cells whose τ is 1."""
    deviations = np.sqrt(np.outer(first * (1 - first), second * (1 - second)))
    return float(deviations.sum()) * sqrt(2 / pi)
