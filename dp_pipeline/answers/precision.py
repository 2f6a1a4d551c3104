"""The variances of numbers that are computed from a release, as estimates of the true ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf, prod

import numpy as np

from dp_pipeline.answers.estimate import Basis
from dp_pipeline.answers.fit_response import FitResponse
from dp_pipeline.answers.noisy_tables import NoisyTables
from dp_pipeline.answers.released_rows import MOST_CELLS, ReleasedRows
from dp_pipeline.answers.unmeasured_pairs import UnmeasuredPairs
from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyCounts

RAKINGS = 3
"""Rounds in which the weights of a replicate are scaled to the measured tables, as drawn."""

BEYOND_PAIRS = 4
"""Variance of the dependence of three columns that their pairs do not explain, in variances of
sampling a table: on NLTCS, where all pairs are measured, intervals then hold 95 of 100 numbers."""


@dataclass(frozen=True)
class Sums:
    """Weighted sums over rows, such as counts of cells, with their errors: float (sums,) each.

    values            sums over the released rows, scaled to the estimated number of true rows
    noise             variance by the noise of all tables
    unmeasured        variance by pairs and triples of columns without a table
    direct            the sums as noisy tables that contain these attributes state them
    direct_variance   variance of ``direct``; infinite without such a table
    is_bounded        whether every pair of these attributes has a table or a score
    """

    values: FloatArray
    noise: FloatArray
    unmeasured: FloatArray
    direct: FloatArray
    direct_variance: FloatArray
    is_bounded: bool

    @property
    def variances(self) -> FloatArray:
        """The variance of the values as estimates of the true sums.

        Where a value differs from its own tables by more than noise, the fit has moved it away from
        what was measured: the square of that difference is added."""
        variances = self.noise + self.unmeasured
        has_direct = np.isfinite(self.direct_variance)
        noise_between = np.maximum(0.0, np.where(has_direct, self.direct_variance, 0.0) - variances)
        moved = np.maximum(0.0, (self.values - self.direct) ** 2 - 2 * noise_between)
        return np.asarray(variances + np.where(has_direct, moved, 0.0))

    @property
    def bases(self) -> list[Basis]:
        """The basis of the interval of each sum: ``measured`` if a noisy table states it, else
        ``bounded`` or ``model``."""
        other: Basis = "bounded" if self.is_bounded else "model"
        is_measured = np.isfinite(self.direct_variance).tolist()
        return ["measured" if measured else other for measured in is_measured]


class Precision:
    """The variances of weighted sums over the rows of a release, such as counts.

    rows         released rows
    tables       what was measured
    groups       attribute → group of each level, for tables over groups
    dependence   (attribute, attribute) → likely L1 distance of the pair from independence, in rows,
                 for pairs that were scored

    The variances of all pairs without a table are added, as if their deviations were independent.
    So are those of triples, whose dependence beyond their pairs is taken to be about as large as
    sampling makes it.
    """

    def __init__(
        self,
        rows: ReleasedRows,
        tables: Sequence[NoisyCounts],
        groupings: Mapping[str, Grouping],
        dependence: Mapping[Names, float],
    ) -> None:
        self.released = rows
        self.codes, self.sizes, self.rows = rows.codes, rows.sizes, len(rows)
        self._tables = NoisyTables(rows, tables, groupings)
        self.total = self._tables.total
        """Estimated number of true rows."""
        self.weight = self.total / max(1, rows.total)
        """True rows, or units, that a released row of the weight 1 represents."""
        self._response = FitResponse(rows, self._tables, self.weight)
        self._pairs = UnmeasuredPairs(rows, self._tables, dependence)

    def weighted_sum(self, weights: FloatArray, attributes: Names) -> Sums:
        """Return a weighted sum over rows with its sources of error.

        weights      what each row adds: float (rows,)
        attributes   on which the weights depend
        """
        attributes = self._with_several_levels(attributes)
        direct, variance = self._tables.direct_sum(weights, attributes)
        unmeasured = 0.0
        if not np.isfinite(variance):
            for pair in combinations(attributes, 2):
                if not self._tables.has_levels(pair):
                    means = self.released.means(weights, pair)
                    unmeasured += self._pairs.get(*pair).variance(means)
            for triple in combinations(attributes, 3):
                if not self._tables.has_levels(triple):
                    beyond = self._variance_beyond_pairs(weights, triple)
                    unmeasured += BEYOND_PAIRS * self.total * beyond
        return Sums(
            np.array([float(self.released.weigh(weights).sum()) * self.weight]),
            self._response.variances(weights[None, :]),
            np.array([unmeasured]),
            np.array([direct]),
            np.array([variance]),
            self._is_bounded(attributes),
        )

    def _variance_beyond_pairs(self, weights: FloatArray, triple: Names) -> float:
        """Return the part of the variance of row values that no two of three attributes explain, or
        all of it if their table has more than ``MOST_CELLS`` cells."""
        if prod(self.sizes[name] for name in triple) > MOST_CELLS:
            return float(weights.var())
        values, shares = self.released.means(weights, triple), self._shares_along_axes(triple)
        for axis, along in enumerate(shares):
            values = values - (along * values).sum(axis=axis, keepdims=True)
        return float((shares[0] * shares[1] * shares[2] * values**2).sum())

    def _shares_along_axes(self, attributes: Names) -> list[FloatArray]:
        return [
            self.released.shares(name).reshape([-1 if other == name else 1 for other in attributes])
            for name in attributes
        ]

    def cell_counts(self, attributes: Names) -> Sums:
        """Return the estimated number of true rows in each cell of a table, with the variance by
        the noise of all measured tables."""
        cells, shape = self.released.cells(attributes)
        counts = self.rough_counts(attributes)
        return replace(counts, noise=self._response.variances_of_cells(cells, prod(shape)))

    def rough_counts(self, attributes: Names) -> Sums:
        """Return the estimated number of true rows in each cell of a table, with the variance by
        the noise of tables that contain these attributes.

        Without such a table the variance is that by the noise of both margins of two attributes,
        and infinite for another number. It is quicker to compute than that of ``cell_counts``."""
        cells, shape = self.released.cells(attributes)
        counts = self.released.sums(cells, prod(shape)) * self.weight
        attributes = self._with_several_levels(attributes)
        direct, variance = self._tables.direct_counts(attributes, len(counts))
        is_direct = np.isfinite(variance)
        unmeasured = np.zeros(len(counts))
        if not is_direct.all():
            unmeasured = np.where(is_direct, 0.0, self._unmeasured_of_cells(attributes))
        margin_noise = np.full(len(counts), inf)
        if len(attributes) == 2:
            variances = [
                self._tables.direct_counts((name,), self.sizes[name])[1] for name in attributes
            ]
            # Above 0, so that an infinite variance stays infinite.
            least = np.finfo(float).tiny
            squares = [np.maximum(self.released.shares(n) ** 2, least) for n in attributes]
            margin_noise = np.outer(variances[0], squares[1]).ravel()
            margin_noise += np.outer(squares[0], variances[1]).ravel()
        noise = np.where(is_direct, variance, margin_noise)
        is_bounded = self._is_bounded(attributes)
        return Sums(counts, noise, unmeasured, direct, variance, is_bounded)

    def _is_bounded(self, attributes: Names) -> bool:
        return len(attributes) > 1 and all(
            self.is_scored(pair) or self._tables.has_levels(pair)
            for pair in combinations(attributes, 2)
        )

    def _unmeasured_of_cells(self, attributes: Names) -> FloatArray:
        """Return the variance that pairs and triples without a table add to the count of each cell,
        (cells,), the last attribute fastest.

        A cell that holds a part f of the rows of its pair's cell has f² of its variance."""
        shares = self.released.shares(*attributes)
        variances = np.zeros(shares.shape)
        for pair in combinations(attributes, 2):
            if not self._tables.has_levels(pair):
                shape = [
                    size if n in pair else 1
                    for n, size in zip(attributes, shares.shape, strict=True)
                ]
                of_pair = self._pairs.get(*pair).variances.reshape(shape)
                variances += of_pair * _part_of(shares, attributes, pair) ** 2
        along = [axis * (1 - axis) for axis in self._shares_along_axes(attributes)]
        for triple in combinations(range(len(attributes)), 3):
            names = tuple(attributes[place] for place in triple)
            if not self._tables.has_levels(names):
                squares = along[triple[0]] * along[triple[1]] * along[triple[2]]
                parts = _part_of(shares, attributes, names)
                variances += BEYOND_PAIRS * self.total * squares * parts**2
        return variances.ravel()

    def least_noise(self, attributes: Names) -> float:
        """Return the least noise variance of a cell in the tables that have any of the attributes,
        or in all tables if none has."""
        tables = [table for name in attributes for table in self._tables.with_attributes((name,))]
        return min(table.variance for table in tables or self._tables.tables)

    def has_table(self, attributes: Names) -> bool:
        """Return whether a table contains all these attributes, by levels or groups of levels."""
        return bool(self._tables.with_attributes(attributes))

    def is_scored(self, pair: Names) -> bool:
        first, second = pair
        return self._pairs.score(first, second) is not None

    def _with_several_levels(self, attributes: Names) -> Names:
        return tuple(name for name in attributes if self.sizes[name] > 1)

    def draw_weights(self, rng: np.random.Generator) -> FloatArray:
        """Return random weights of the released rows, as other noise could have made them: the
        true rows that each represents, none below 0 (rows,).

        Scored pairs without a table get a random dependence too."""
        tilted = self._response.draw(rng)
        pairs = self._pairs.pairs_to_draw
        change = np.zeros(self.rows)
        for (first, second), pair in pairs:
            relative = np.clip(pair.draw(rng) / self.total, -1.0, 1.0)
            change += relative[self.codes[first], self.codes[second]]
        weights = np.maximum(0.0, tilted + change)
        # Drawn dependences must not change the counts that were measured.
        for _ in range(RAKINGS if pairs else 0):
            for cells in self._response.cells:
                expected, actual = (
                    np.bincount(cells, self.released.weigh(each)) for each in (tilted, weights)
                )
                factors = np.divide(expected, actual, out=np.ones(len(actual)), where=actual > 0)
                weights *= factors[cells]
        return np.asarray(self.weight * self.released.weigh(weights))


def _part_of(shares: FloatArray, attributes: Names, chosen: Names) -> FloatArray:
    """Return each cell's share of the rows that have its levels of the chosen attributes, in the
    shape of ``shares``; 1 where no row has them."""
    axes = tuple(axis for axis, name in enumerate(attributes) if name not in chosen)
    sums = shares.sum(axis=axes, keepdims=True)
    return np.asarray(np.divide(shares, sums, out=np.ones(shares.shape), where=sums > 0))
