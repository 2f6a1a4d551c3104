"""Precision: how far the noise of measured tables moves a number that is taken from a release.

The released rows stand for the fitted distribution. A fit answers noise by tilting their weights
along the cells that were measured (the exponential family of graphical models), so to first order
every linear number has a variance in closed form, whichever model was fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import pi, prod, sqrt

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray, Names

FEATURES = 2_000
"""Most measured cells that are told apart: their Gram matrix is factorised once, in about 2 s."""

POOLED = 0.25
"""Cells with fewer expected rows than this part of their noise are pooled: they say next to
nothing by themselves."""

WIDEST_PRIOR = 1e4
"""Variance, in multiples of the rows of a cell, by which a fit may follow noise at most."""


@dataclass(frozen=True)
class MeasuredTable:
    """A noisy contingency table of a release.

    attributes   in the order of its axes; none for the number of rows
    counts       noisy counts, of the table's shape
    variance     of the noise in one cell, in squared rows
    is_grouped   whether its axes are groups of levels, where the release has groups
    """

    attributes: Names
    counts: FloatArray
    variance: float
    is_grouped: bool

    def keys(self, codes: Mapping[str, IntArray], groups: Mapping[str, IntArray]) -> IntArray:
        """Return the cell of every row: int (rows,)."""
        rows = len(next(iter(codes.values())))
        keys = np.zeros(rows, dtype=np.int64)
        for name, size in zip(self.attributes, self.counts.shape, strict=True):
            codes_of_axis = codes[name]
            if self.is_grouped and name in groups:
                codes_of_axis = groups[name][codes_of_axis]
            keys = keys * size + codes_of_axis
        return keys


class Precision:
    """Variances of linear numbers of a release.

    codes        attribute → codes of the released rows: int (rows,)
    sizes        attribute → number of its levels
    tables       what was measured
    groups       attribute → group of each level, for tables over groups
    dependence   (attribute, attribute) → likely L1 distance of the pair from independence, in rows;
                 for pairs that were scored
    """

    def __init__(
        self,
        codes: Mapping[str, IntArray],
        sizes: Mapping[str, int],
        tables: Sequence[MeasuredTable],
        groups: Mapping[str, IntArray],
        dependence: Mapping[Names, float],
    ) -> None:
        self.codes, self.sizes, self.tables = codes, sizes, tuple(tables)
        self.groups, self.dependence = groups, dependence
        self.rows = len(next(iter(codes.values())))
        precisions = np.array([1 / (t.variance * t.counts.size) for t in self.tables])
        totals = np.array([float(t.counts.sum()) for t in self.tables])
        self.total = float(max(1.0, precisions @ totals / precisions.sum()))
        """Estimated number of true rows."""
        self.weight = self.total / max(1, self.rows)
        """True rows that a released row stands for."""

    def noise_variance(self, values: FloatArray) -> FloatArray:
        """Return the variance that noise gives to weighted sums over rows: float (numbers,).

        values   (numbers, rows): what each row adds to each number

        *Derivation.* Let F = N·E[x xᵀ] be the second moments of the measured cells x and W the
        inverse variances of their noise. The fit minimises (y − μ(θ))ᵀ W (y − μ(θ)) with
        ∂μ/∂θ = F, so θ moves by (F W F)⁻¹ F W e for noise e, and a number with g = N·E[f x] by
        gᵀ of that: variance gᵀ (F W F)⁻¹ g. F/κ is added as the widest prior (κ = 10⁴).
        """
        moments = self._moments(values)
        solved = self._solve(self._factor, moments)
        return np.asarray((solved**2).sum(axis=0))

    def noise_variance_of_cells(self, keys: IntArray, cells: int) -> FloatArray:
        """Return the same of the count of every cell: float (cells,).

        keys   cell of every row: int (rows,)
        """
        many = len(self._variances)
        moments = np.zeros(many * cells)
        for feature in self._keys.T:
            moments += np.bincount(feature * cells + keys, minlength=many * cells)
        solved = self._solve(self._factor, moments.reshape(many, cells) * self.weight)
        return np.asarray((solved**2).sum(axis=0))

    def unmeasured_variance(self, values: FloatArray, attributes: Names) -> float | None:
        """Return the variance of what no measured table says about a weighted sum, by the
        dependence scores of its pairs; None where a pair, or more than a pair, was not scored.

        values       (rows,)
        attributes   on which the values depend

        Deviations of a pair's cells from the model are taken to be independent, with variances in
        proportion to p(1 − p)q(1 − q), scaled to the L1 distance that the score says.
        """
        if self.is_measured(attributes):
            return 0.0
        if len(attributes) > 2:
            return None
        first, second = attributes
        score = self.dependence.get((first, second), self.dependence.get((second, first)))
        if score is None:
            return None
        p, q = self._shares(first), self._shares(second)
        means = self._cell_means(values, first, second)
        # What the margins say of the values is known from one-way tables: it is taken off.
        means = means - (means @ q)[:, None]
        means = means - p @ means
        return float((self._spread(p, q, score) ** 2 * means**2).sum())

    def is_measured(self, attributes: Names) -> bool:
        """Return whether one measured table over levels holds all these attributes."""
        return any(self._holds(table, attributes) for table in self.tables)

    def direct(self, values: FloatArray, attributes: Names) -> tuple[float, float] | None:
        """Return the estimate, and its variance, of a weighted sum by tables that hold all its
        attributes alone, averaged by precision; None where there is no such table.
        """
        numerator = denominator = 0.0
        for table in self.tables:
            if not self._holds(table, attributes) or not attributes:
                continue
            means = self._means_by_cell(values, table)
            variance = table.variance * float((means**2).sum())
            if variance > 0:
                numerator += float((means * table.counts.ravel()).sum()) / variance
                denominator += 1 / variance
        return (numerator / denominator, 1 / denominator) if denominator else None

    def draw_weights(self, rng: np.random.Generator) -> FloatArray:
        """Return weights of the released rows as another draw of the same noise could have made
        them, in true rows: float (rows,), none below 0.
        """
        from scipy.linalg import solve_triangular

        normal = rng.standard_normal(len(self._variances))
        tilt = solve_triangular(self._factor, normal, lower=True, trans="T", check_finite=False)
        change = tilt[self._keys].sum(axis=1)
        for (first, second), score in self.dependence.items():
            if not self.is_measured((first, second)):
                change = change + self._draw_interaction(first, second, score, rng)
        # The sum of the changes is that of the number of rows, before weights are cut at 0.
        total = max(0.0, self.rows + float(change.sum()))
        weights = np.maximum(0.0, 1.0 + change)
        return np.asarray(self.weight * weights * (total / max(weights.sum(), 1e-300)))

    def _draw_interaction(
        self, first: str, second: str, score: float, rng: np.random.Generator
    ) -> FloatArray:
        """Return a random dependence of a pair that was not measured, relative to the weight of
        every row: float (rows,).
        """
        p, q = self._shares(first), self._shares(second)
        expected = np.maximum(self.total * np.outer(p, q), 1.0)
        drawn = rng.standard_normal(expected.shape) * self._spread(p, q, score)
        drawn -= np.outer(drawn.sum(axis=1), q)
        drawn -= np.outer(p, drawn.sum(axis=0))
        relative = np.clip(drawn / expected, -1.0, 1.0)
        return np.asarray(relative[self.codes[first], self.codes[second]])

    @staticmethod
    def _spread(p: FloatArray, q: FloatArray, score: float) -> FloatArray:
        """Return the standard deviation of every cell of a pair, in rows, for which the L1 distance
        is ``score`` on average: normal numbers, each in proportion to √(p(1 − p)q(1 − q)).
        """
        spread = np.sqrt(np.outer(p * (1 - p), q * (1 - q)))
        total = float(spread.sum())
        return spread * (score * sqrt(pi / 2) / total if total else 0.0)

    def _holds(self, table: MeasuredTable, attributes: Names) -> bool:
        """Whether a table has all attributes, each by its levels."""
        return set(attributes) <= set(table.attributes) and not (
            table.is_grouped and any(self._is_coarse(name) for name in attributes)
        )

    def _is_coarse(self, name: str) -> bool:
        return name in self.groups and int(self.groups[name].max()) + 1 < self.sizes[name]

    def _shares(self, name: str) -> FloatArray:
        counts = np.bincount(self.codes[name], minlength=self.sizes[name])
        return np.asarray(counts / max(1, self.rows))

    def _cell_means(self, values: FloatArray, first: str, second: str) -> FloatArray:
        shape = (self.sizes[first], self.sizes[second])
        keys = self.codes[first] * shape[1] + self.codes[second]
        return _means(values, keys, prod(shape)).reshape(shape)

    def _means_by_cell(self, values: FloatArray, table: MeasuredTable) -> FloatArray:
        return _means(values, table.keys(self.codes, self.groups), table.counts.size)

    def _moments(self, values: FloatArray) -> FloatArray:
        """(features, numbers): g of every number."""
        keys, many = self._keys, len(self._variances)
        moments = np.zeros((many, len(values)))
        for number, weights in enumerate(values):
            chosen = np.flatnonzero(weights)
            repeated = np.repeat(weights[chosen], keys.shape[1])
            moments[:, number] = np.bincount(keys[chosen].ravel(), repeated, minlength=many)
        return moments * self.weight

    @staticmethod
    def _solve(factor: FloatArray, moments: FloatArray) -> FloatArray:
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(factor, moments, lower=True, check_finite=False))

    @cached_property
    def _features(self) -> tuple[IntArray, FloatArray, list[tuple[int, int]]]:
        """Features of every row (rows, tables), variances of features, and where each table's
        features lie: cells with too few rows for their noise are pooled.
        """
        threshold = POOLED
        while True:
            keys, variances, ranges, offset = [], [], [], 0
            for table in self.tables:
                cells = table.keys(self.codes, self.groups)
                expected = np.bincount(cells, minlength=table.counts.size) * self.weight
                is_single = expected > threshold * sqrt(table.variance)
                label = np.cumsum(is_single) - 1
                many = int(is_single.sum())
                noise = np.full(many, table.variance)
                pooled = int((~is_single).sum())
                if pooled:
                    label[~is_single] = many
                    noise = np.append(noise, table.variance * pooled)
                keys.append(label[cells] + offset)
                variances.append(noise)
                ranges.append((offset, offset + len(noise)))
                offset += len(noise)
            if offset <= max(FEATURES, 2 * len(self.tables)):
                return np.stack(keys, axis=1), np.concatenate(variances), ranges
            threshold *= 2

    @property
    def _keys(self) -> IntArray:
        return self._features[0]

    @property
    def _variances(self) -> FloatArray:
        return self._features[1]

    @cached_property
    def _factor(self) -> FloatArray:
        """The lower Cholesky factor of F W F + F/κ."""
        keys, variances, ranges = self._features
        many = len(variances)
        gram = np.zeros((many, many))
        for one, other in combinations(range(len(ranges)), 2):
            (start, end), (start_other, end_other) = ranges[one], ranges[other]
            width = end_other - start_other
            pairs = (keys[:, one] - start) * width + keys[:, other] - start_other
            block = np.bincount(pairs, minlength=(end - start) * width)
            gram[start:end, start_other:end_other] = block.reshape(end - start, width)
        gram += gram.T
        gram[np.diag_indices(many)] = np.bincount(keys.ravel(), minlength=many)
        gram *= self.weight
        matrix = (gram / variances) @ gram + gram / WIDEST_PRIOR
        # Margins of one table are sums of another's: without this the matrix is singular.
        matrix[np.diag_indices(many)] += 1e-7 * float(np.trace(matrix)) / many
        return np.asarray(np.linalg.cholesky(matrix))


def _means(values: FloatArray, keys: IntArray, cells: int) -> FloatArray:
    """Return the mean of the values in every cell; 0 where there is no row."""
    counts = np.bincount(keys, minlength=cells)
    sums = np.bincount(keys, values, minlength=cells)
    return np.asarray(sums / np.maximum(counts, 1))
