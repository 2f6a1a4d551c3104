"""ScoredPairs: how far pairs of columns without a table are from the model, by noisy scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import pi, sqrt

import numpy as np

from dp_pipeline.answers.noisy_tables import NoisyTables
from dp_pipeline.answers.released_rows import ReleasedRows
from dp_pipeline.config.encoding import FloatArray, IntArray, Names

TAIL_FACTOR = 1.3
"""How much wider than normal ones deviations of cells that were not measured are: on Adult and
census this holds 95 of 100 (docs/design/error_bars.md)."""

LEAST_UNEXPLAINED = 0.1
"""Part of the square of a score that no model explains, at least."""

MOST_PAIRS_DRAWN = 300
"""Pairs without a table that a replicate draws a dependence for."""

FEWEST_MEASURED = 3
"""Pairs with a table and a score from which it can be seen how far scores are off."""


@dataclass(frozen=True)
class ScoredPair:
    """The possible deviations of the cells of a pair from the model, given its score.

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
    def unmeasured(cls, first: FloatArray, second: FloatArray, distance: float) -> ScoredPair:
        """Return a pair without a table, given its L1 distance from the model in rows."""
        model = np.outer(first, second)
        deviations = np.sqrt(np.outer(first * (1 - first), second * (1 - second)))
        scale = distance * sqrt(pi / 2) / max(float(deviations.sum()), np.finfo(float).tiny)
        return cls(first, second, model, scale, model, None)

    @classmethod
    def grouped(
        cls,
        first: FloatArray,
        second: FloatArray,
        distance: float,
        joint: FloatArray,
        labels: IntArray,
    ) -> ScoredPair:
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
        """Return the variance of the sum of a value over rows, given the value of each cell, in
        rows²."""
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
        """Return random deviations of the cells, relative to their rows and times the number of
        all rows."""
        normal = rng.standard_normal(self.weights.shape) * np.sqrt(self.weights)
        return self.scale * self.off_margins(normal / np.maximum(self.model, 1e-9))


class ScoredPairs:
    """All pairs of attributes whose dependence was scored.

    dependence   (attribute, attribute) → likely L1 distance of the pair from independence, in rows

    What the model is from independence is taken off a score as the shorter side of a right angle
    is: what a model misses has nothing to do with what it has. What is left is the distance of the
    truth from the model. Over levels in groups of a table it is unknown what the model has.
    """

    def __init__(
        self, rows: ReleasedRows, tables: NoisyTables, dependence: Mapping[Names, float]
    ) -> None:
        self._rows, self._tables, self._dependence = rows, tables, dependence
        self._total = tables.total
        self._pairs: dict[Names, ScoredPair | None] = {}

    def get(self, first: str, second: str) -> ScoredPair | None:
        """Return the scored pair of two attributes; None if they were not scored."""
        if (first, second) not in self._pairs:
            self._pairs[first, second] = self._new(first, second)
        return self._pairs[first, second]

    @cached_property
    def pairs_to_draw(self) -> list[tuple[Names, ScoredPair]]:
        """The at most 300 pairs with the largest scores whose levels no table separates."""
        names = [pair for pair in self._dependence if not self._tables.has_levels(pair)]
        names.sort(key=lambda pair: -self._dependence[pair])
        pairs = [(pair, self.get(pair[0], pair[1])) for pair in names[:MOST_PAIRS_DRAWN]]
        return [(names, pair) for names, pair in pairs if pair is not None]

    def _new(self, first: str, second: str) -> ScoredPair | None:
        score = self._dependence.get((first, second), self._dependence.get((second, first)))
        if score is None:
            return None
        shares = self._shares(first), self._shares(second)
        if not self._tables.having((first, second)):
            unexplained = score**2 - self._distance_of_model(first, second) ** 2
            unexplained = max(unexplained, LEAST_UNEXPLAINED * score**2)
            distance = TAIL_FACTOR * sqrt(unexplained + self._error**2)
            return ScoredPair.unmeasured(*shares, distance)
        distance = TAIL_FACTOR * sqrt(score**2 + self._error**2)
        groups, of_second = self._tables.groups_of(first), self._tables.groups_of(second)
        labels = groups[:, None] * (int(of_second.max()) + 1) + of_second
        return ScoredPair.grouped(*shares, distance, self._rows.shares(first, second), labels)

    def _distance_of_model(self, first: str, second: str) -> float:
        """Return the L1 distance of the released rows from independence, in true rows."""
        joint = self._rows.shares(first, second)
        independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        return self._total * float(np.abs(joint - independent).sum())

    def _shares(self, name: str) -> FloatArray:
        """Return the shares of an attribute's levels with their noise, above 0 even without
        released rows."""
        size = self._rows.sizes[name]
        noise = min(table.variance * table.counts.size for table in self._tables.having((name,)))
        noise /= size * self._total**2
        shares = np.sqrt(self._rows.shares(name) ** 2 + noise)
        return np.asarray(shares / shares.sum())

    @cached_property
    def _error(self) -> float:
        """The root mean square error of scores in rows, compared with pairs that were also
        measured.

        It is the mean of all scores where such pairs are too few."""
        errors = [
            score - self._distance_of_model(*pair)
            for pair, score in self._dependence.items()
            if self._tables.having(pair)
        ]
        errors = errors if len(errors) >= FEWEST_MEASURED else list(self._dependence.values())
        return float(np.sqrt(np.mean(np.square(errors))))
