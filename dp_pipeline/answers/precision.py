"""Precision: how far the noise of measured tables moves a number that is taken from a release.

The released rows stand for the fitted distribution. A fit answers noise by tilting their weights
along the cells that were measured (the exponential family of graphical models), so to first order
every linear number has a variance in closed form, whichever model was fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import hypot, inf, nan, pi, prod, sqrt

import numpy as np

from dp_pipeline.answers.estimate import Basis
from dp_pipeline.config.encoding import FloatArray, IntArray, Names

FEATURES = 2_000
"""Most measured cells that are told apart: their Gram matrix is factorised once, in about 2 s."""

POOLED = 0.25
"""Cells with fewer expected rows than this part of their noise are pooled: they say next to
nothing by themselves."""

TAIL_FACTOR = 1.2
"""How much wider than normal ones deviations of cells that were not measured are: on Adult and
census this holds 95 of 100 (docs/design/error_bars.md)."""

RAKINGS = 3
"""Rounds in which the weights of a replicate are brought back to the tables that were measured."""

FEWEST_MEASURED = 3
"""Pairs with a table and a score from which it can be seen how far scores are off."""

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


@dataclass(frozen=True)
class ScoredPair:
    """How far the cells of a pair may be from the model: arrays of its table's shape.

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
        """Return a pair without a table whose L1 distance from the model is that many rows."""
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
        """Return a pair with a table over groups.

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
        """Part of its group that every cell has."""
        return np.asarray(self.model**2 / np.maximum(self.weights, np.finfo(float).tiny))

    def off_margins(self, values: FloatArray) -> FloatArray:
        """Return values of the cells without their means over margins, or over groups."""
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
        """Variance of the count of every cell, in rows²."""
        if self.labels is None:
            squares = np.outer(self.first * (1 - self.first), self.second * (1 - self.second))
        else:
            squares = self.weights * (1 - self._parts)
        return np.asarray(self.scale**2 * squares)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return deviations of the cells, as parts of their rows times the number of all rows."""
        normal = rng.standard_normal(self.weights.shape) * np.sqrt(self.weights)
        return self.scale * self.off_margins(normal / np.maximum(self.model, 1e-9))


@dataclass(frozen=True)
class Sums:
    """What is known of weighted sums over rows, such as counts of cells: float (sums,) each.

    values            of the release
    noise             variance by the noise of all tables
    unmeasured        variance by what no table says; NaN where nothing bounds it
    direct            what tables over these attributes say alone
    direct_variance   its variance; infinite without such a table
    """

    values: FloatArray
    noise: FloatArray
    unmeasured: FloatArray
    direct: FloatArray
    direct_variance: FloatArray

    @property
    def variances(self) -> FloatArray:
        """Variance of the values about the true sums.

        Where a value disagrees with its own tables by more than noise, the fit has moved it away
        from what was measured: the square of that is added.
        """
        variances = self.noise + np.nan_to_num(self.unmeasured)
        has_direct = np.isfinite(self.direct_variance)
        noise_between = np.maximum(0.0, np.where(has_direct, self.direct_variance, 0.0) - variances)
        moved = np.maximum(0.0, (self.values - self.direct) ** 2 - 2 * noise_between)
        return np.asarray(variances + np.where(has_direct, moved, 0.0))

    @property
    def bases(self) -> list[Basis]:
        """What each rests on."""
        is_measured = np.isfinite(self.direct_variance).tolist()
        is_bounded = np.isfinite(self.unmeasured).tolist()
        return [
            "measured" if measured else "bounded" if bounded else "model"
            for measured, bounded in zip(is_measured, is_bounded, strict=True)
        ]


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
        self._scored_pairs: dict[Names, ScoredPair | None] = {}
        precisions = np.array([1 / (t.variance * t.counts.size) for t in self.tables])
        totals = np.array([float(t.counts.sum()) for t in self.tables])
        self.total = float(max(1.0, precisions @ totals / precisions.sum()))
        """Estimated number of true rows."""
        self.weight = self.total / max(1, self.rows)
        """True rows that a released row stands for."""

    def weighted_sum(self, weights: FloatArray, attributes: Names) -> Sums:
        """Return a sum over rows.

        weights      what each row adds: float (rows,)
        attributes   on which the weights depend
        """
        attributes = self._modelled(attributes)
        direct, variance = self._direct_sum(weights, attributes)
        pair, unmeasured = self._scored_pair(attributes), nan
        if np.isfinite(variance):
            unmeasured = 0.0
        elif pair is not None:
            unmeasured = pair.variance(self._cell_means(weights, *attributes))
        value = float(weights.sum()) * self.weight
        noise = float(self.noise_variance(weights[None, :])[0])
        parts = value, noise, unmeasured, direct, variance
        return Sums(*(np.array([part]) for part in parts))

    def cell_counts(self, attributes: Names) -> Sums:
        """Return the rows in every cell over these attributes."""
        keys, shape = self._keys_over(attributes)
        counts = self.rough_counts(attributes)
        return replace(counts, noise=self._noise_variance_of_cells(keys, prod(shape)))

    def rough_counts(self, attributes: Names) -> Sums:
        """Return the same at once, with more noise than is in truth: that of tables over these
        attributes alone, or of the margins of two.
        """
        keys, shape = self._keys_over(attributes)
        attributes, cells = self._modelled(attributes), prod(shape)
        direct, variance = self._direct_counts(attributes, cells)
        pair, unmeasured = self._scored_pair(attributes), np.full(cells, nan)
        if pair is not None:
            unmeasured = pair.variances.ravel()
        unmeasured = np.where(np.isfinite(variance), 0.0, unmeasured)
        counts = np.bincount(keys, minlength=cells)
        return Sums(
            np.asarray(counts * self.weight, np.float64),
            np.where(np.isfinite(variance), variance, self._margin_noise(attributes, cells)),
            unmeasured,
            direct,
            variance,
        )

    def _margin_noise(self, attributes: Names, cells: int) -> FloatArray:
        """Variance that noise of two margins gives to counts if the attributes are independent;
        without bound for another number of attributes.
        """
        if len(attributes) != 2:
            return np.full(cells, inf)
        variances = [self._direct_counts((name,), self.sizes[name])[1] for name in attributes]
        squares = [self._shares(name) ** 2 for name in attributes]
        noise = np.outer(variances[0], squares[1]) + np.outer(squares[0], variances[1])
        return np.asarray(noise.ravel())

    def noise_variance(self, values: FloatArray) -> FloatArray:
        """Return the variance that noise gives to weighted sums over rows: float (numbers,).

        values   (numbers, rows): what each row adds to each number

        *Derivation.* Let F = N·E[x xᵀ] be the second moments of the measured cells x and W the
        inverse variances of their noise. The fit minimises (y − μ(θ))ᵀ W (y − μ(θ)) with
        ∂μ/∂θ = F, so θ moves by (F W F)⁻¹ F W e for noise e, and a number with g = N·E[f x] by
        gᵀ of that: variance gᵀ (F W F)⁻¹ g. F/κ is added as the widest prior (κ = 10⁴).
        """
        solved = self._solve(self._factor, self._moments(values))
        return np.asarray((solved**2).sum(axis=0))

    def _noise_variance_of_cells(self, keys: IntArray, cells: int) -> FloatArray:
        """Return the same of the count of every cell: float (cells,).

        keys   cell of every row: int (rows,)
        """
        many = len(self._variances)
        moments = np.zeros(many * cells)
        for feature in self._keys.T:
            moments += np.bincount(feature * cells + keys, minlength=many * cells)
        solved = self._solve(self._factor, moments.reshape(many, cells) * self.weight)
        return np.asarray((solved**2).sum(axis=0))

    def _direct_sum(self, values: FloatArray, attributes: Names) -> tuple[float, float]:
        """Return a weighted sum by tables that hold all its attributes alone, averaged by
        precision, and its variance: infinite where no table tells these values apart.
        """
        numerator, denominator, tables = 0.0, 0.0, self._tables_with(attributes)
        if tables and not values.any():
            # No released row has any of it: what it may be is in the noise of a cell.
            return 0.0, min(table.variance for table in tables)
        for table in tables:
            keys = table.keys(self.codes, self.groups)
            means = _means(values, keys, table.counts.size)
            if table.is_grouped and self._coarse(attributes) and not _is_same(means[keys], values):
                continue
            if not attributes:
                means = np.full(table.counts.size, float(means.max(initial=0.0)))
            variance = table.variance * float((means**2).sum())
            if variance > 0:
                numerator += float((means * table.counts.ravel()).sum()) / variance
                denominator += 1 / variance
        return (numerator / denominator, 1 / denominator) if denominator else (0.0, inf)

    def _direct_counts(self, attributes: Names, cells: int) -> tuple[FloatArray, FloatArray]:
        """Return ``_direct_sum`` of every cell: counts and variances, float (cells,) each."""
        numerator, denominator = np.zeros(cells), np.zeros(cells)
        for table in self._tables_with(attributes):
            axes = tuple(i for i, name in enumerate(table.attributes) if name not in attributes)
            order = [name for name in table.attributes if name in attributes]
            counts = table.counts.sum(axis=axes)
            counts = counts.transpose([order.index(name) for name in attributes])
            variance, is_single = table.variance * table.counts.size / counts.size, np.ones(cells)
            if table.is_grouped:
                groups = [self._groups_of(name) for name in attributes]
                counts = counts[np.ix_(*groups)]
                singles = [np.bincount(group)[group] == 1 for group in groups]
                is_single = np.all(np.meshgrid(*singles, indexing="ij"), axis=0).ravel()
            numerator += counts.ravel() / variance
            denominator += is_single / variance
        is_direct = denominator > 0
        counts = np.divide(numerator, denominator, out=np.zeros(cells), where=is_direct)
        return counts, np.divide(1, denominator, out=np.full(cells, inf), where=is_direct)

    def has_table(self, attributes: Names) -> bool:
        """Return whether a table has all of these, by levels or groups of them."""
        return bool(self._tables_with(attributes))

    def is_scored(self, attributes: Names) -> bool:
        """Return whether the dependence of these two was scored."""
        return self._scored_pair(attributes) is not None

    def _tables_with(self, attributes: Names) -> list[MeasuredTable]:
        """Tables that have all these attributes, by levels or groups of them; none for none."""
        return [table for table in self.tables if set(attributes) <= set(table.attributes)]

    def _modelled(self, attributes: Names) -> Names:
        """The attributes that have more than one level."""
        return tuple(name for name in attributes if self.sizes[name] > 1)

    def means_by_cell(
        self, weights: FloatArray, attributes: Names
    ) -> tuple[FloatArray, FloatArray]:
        """Return the mean weight and the true rows of every cell over these attributes that has
        rows: float (cells,) each.
        """
        keys = np.zeros(self.rows, dtype=np.int64)
        for name in attributes:
            keys = np.unique(keys * self.sizes[name] + self.codes[name], return_inverse=True)[1]
        counts = np.bincount(keys)
        return _means(weights, keys, len(counts)), np.asarray(counts * self.weight, np.float64)

    def draw_weights(self, rng: np.random.Generator) -> FloatArray:
        """Return weights of the released rows as another draw of the same noise could have made
        them, in true rows: float (rows,), none below 0.
        """
        from scipy.linalg import solve_triangular

        normal = rng.standard_normal(len(self._variances))
        tilt = solve_triangular(self._factor, normal, lower=True, trans="T", check_finite=False)
        tilted = 1.0 + tilt[self._keys].sum(axis=1)
        total, tilted = max(0.0, float(tilted.sum())), np.maximum(0.0, tilted)
        tilted *= total / max(tilted.sum(), np.finfo(float).tiny)
        unmeasured = [n for n in self.dependence if not self.has_table(n) or self._coarse(n)]
        change = np.zeros(self.rows)
        for names in unmeasured:
            change += self._draw_interaction(names, rng)
        weights = np.maximum(0.0, tilted + change)
        # What was measured is as the noise alone has it, whatever was not.
        for _ in range(RAKINGS if unmeasured else 0):
            for keys in self._keys.T:
                expected, actual = np.bincount(keys, tilted), np.bincount(keys, weights)
                factors = np.divide(expected, actual, out=np.ones(len(actual)), where=actual > 0)
                weights *= factors[keys]
        return np.asarray(self.weight * weights)

    def _draw_interaction(self, names: Names, rng: np.random.Generator) -> FloatArray:
        """Return a random dependence of a pair that was not measured, relative to the weight of
        every row: float (rows,).
        """
        pair = self._scored_pair(names)
        assert pair is not None
        relative = np.clip(pair.draw(rng) / self.total, -1.0, 1.0)
        return np.asarray(relative[self.codes[names[0]], self.codes[names[1]]])

    def _scored_pair(self, attributes: Names) -> ScoredPair | None:
        """Return what the score of a pair says; None unless these are two that were scored."""
        if len(attributes) != 2:
            return None
        if attributes not in self._scored_pairs:
            self._scored_pairs[attributes] = self._new_scored_pair(*attributes)
        return self._scored_pairs[attributes]

    def _new_scored_pair(self, first: str, second: str) -> ScoredPair | None:
        attributes = (first, second)
        score = self.dependence.get((first, second), self.dependence.get((second, first)))
        if score is None:
            return None
        distance = TAIL_FACTOR * hypot(score, self._score_error)
        shares = self._doubtful_shares(first), self._doubtful_shares(second)
        if not self._tables_with(attributes):
            return ScoredPair.unmeasured(*shares, distance)
        groups, second_groups = map(self._groups_of, attributes)
        labels = groups[:, None] * (int(second_groups.max()) + 1) + second_groups
        return ScoredPair.grouped(*shares, distance, self._joint(attributes), labels)

    def _groups_of(self, name: str) -> IntArray:
        """Group of each level."""
        return self.groups.get(name, np.arange(self.sizes[name]))

    def _coarse(self, attributes: Names) -> Names:
        """The attributes of which some group has several levels."""
        return tuple(n for n in attributes if int(self._groups_of(n).max()) + 1 < self.sizes[n])

    def _shares(self, name: str) -> FloatArray:
        counts = np.bincount(self.codes[name], minlength=self.sizes[name])
        return np.asarray(counts / max(1, self.rows))

    def _doubtful_shares(self, name: str) -> FloatArray:
        """Return the same with its noise: a level without a released row may have had some."""
        noise = min(table.variance * table.counts.size for table in self._tables_with((name,)))
        noise /= self.sizes[name] * self.total**2
        shares = np.sqrt(self._shares(name) ** 2 + noise)
        return np.asarray(shares / shares.sum())

    def _cell_means(self, values: FloatArray, *attributes: str) -> FloatArray:
        keys, shape = self._keys_over(attributes)
        return _means(values, keys, prod(shape)).reshape(shape)

    def _joint(self, attributes: Names) -> FloatArray:
        """Shares of the released rows in every cell."""
        keys, shape = self._keys_over(attributes)
        return np.asarray(np.bincount(keys, minlength=prod(shape)).reshape(shape) / self.rows)

    def _keys_over(self, attributes: Names) -> tuple[IntArray, tuple[int, ...]]:
        """Cell of every row over some attributes, and the shape of their table."""
        shape = tuple(self.sizes[name] for name in attributes)
        keys = np.zeros(self.rows, dtype=np.int64)
        for name, size in zip(attributes, shape, strict=True):
            keys = keys * size + self.codes[name]
        return keys, shape

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
    def _score_error(self) -> float:
        """Rows by which scores are off from the dependence of pairs that were measured as well,
        in the square mean; the mean of all scores where such pairs are too few to tell.
        """
        errors = []
        for names, score in self.dependence.items():
            if self._tables_with(names):
                joint = self._joint(names)
                independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
                errors.append(score - self.total * float(np.abs(joint - independent).sum()))
        seen = errors if len(errors) >= FEWEST_MEASURED else list(self.dependence.values())
        return float(np.sqrt(np.mean(np.square(seen))))

    @cached_property
    def _features(self) -> tuple[IntArray, FloatArray, list[tuple[int, int]]]:
        """Features of every row (rows, tables), variances of features, and where each table's
        features lie: cells with too few rows for their noise are pooled.
        """
        threshold = POOLED
        while True:
            keys, variances, ranges, offset = [], [], [], 0
            for table in self.tables:
                cells_of_rows = table.keys(self.codes, self.groups)
                expected = np.bincount(cells_of_rows, minlength=table.counts.size) * self.weight
                is_single = expected > threshold * sqrt(table.variance)
                label = np.cumsum(is_single) - 1
                many = int(is_single.sum())
                noise = np.full(many, table.variance)
                pooled = int((~is_single).sum())
                if pooled:
                    label[~is_single] = many
                    noise = np.append(noise, table.variance * pooled)
                keys.append(label[cells_of_rows] + offset)
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


def _is_same(values: FloatArray, others: FloatArray) -> bool:
    """Return whether two sides agree up to the last digits."""
    return bool(np.allclose(values, others, rtol=1e-9, atol=1e-12 * float(np.abs(others).max())))


def _means(values: FloatArray, keys: IntArray, cells: int) -> FloatArray:
    """Return the mean of the values in every cell; 0 where there is no row."""
    counts = np.bincount(keys, minlength=cells)
    sums = np.bincount(keys, values, minlength=cells)
    return np.asarray(sums / np.maximum(counts, 1))
