"""The effect of the noise of measured tables on a fitted distribution."""

from functools import cached_property
from math import sqrt

import numpy as np

from dp_pipeline.answers.noisy_tables import NoisyTables
from dp_pipeline.answers.released_rows import ReleasedRows
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.errors import DeclarationError

FEATURES = 2_000
"""Measured cells and pools of them, at most: their Gram matrix is factorised once, in about 2 s."""

POOLED = 0.25
"""Cells with fewer expected rows than this part of their noise's deviation are pooled, because such
a cell alone moves the fit hardly at all."""

WIDEST_PRIOR = 1e4
"""κ, the largest variance with which a fit follows noise, in multiples of the rows of a cell."""


class FitResponse:
    """The effect of noise on a fit: variances of sums of rows, and random draws of the fit.

    rows     released rows
    tables   what was measured
    weight   true rows that a released row of the weight 1 stands for

    A fit follows noise by changing the weights of rows along the cells that were measured (the
    exponential family of graphical models), so to first order every linear number has a variance in
    closed form, whichever model was fitted.

    *Derivation.* Let F = N·E[x xᵀ] be the second moments of the measured cells x and W the inverse
    variances of their noise. The fit minimises (y − μ(θ))ᵀ W (y − μ(θ)) with ∂μ/∂θ = F, so θ moves
    by (F W F)⁻¹ F W e for noise e, and a number with g = N·E[f x] by gᵀ of that: variance
    gᵀ (F W F)⁻¹ g. F/κ is added as the widest prior (κ = 10⁴)."""

    def __init__(self, rows: ReleasedRows, tables: NoisyTables, weight: float) -> None:
        self._rows, self._tables, self._weight = rows, tables, weight

    def variances(self, values: FloatArray) -> FloatArray:
        """Return the variances (numbers,) of weighted sums over rows, in rows².

        values   what each row adds to each number: float (numbers, rows)
        """
        cells, variances, _ = self._features
        many = len(variances)
        moments = np.zeros((many, len(values)))
        for number, weights in enumerate(values):
            chosen = np.flatnonzero(weights)
            repeated = np.tile(self._rows.weigh(weights)[chosen], len(cells))
            moments[:, number] = np.bincount(cells[:, chosen].ravel(), repeated, minlength=many)
        return self._variances(moments)

    def variances_of_cells(self, keys: IntArray, many: int) -> FloatArray:
        """Return the variance of the number of rows in each cell of a table (many,), in rows².

        keys   cell of every released row: int (rows,)
        many   number of cells
        """
        features = len(self._features[1])
        moments = np.zeros(features * many)
        for of_table in self.cells:
            moments += self._rows.sums(of_table * many + keys, features * many)
        return self._variances(moments.reshape(features, many))

    def _variances(self, moments: FloatArray) -> FloatArray:
        """Return the variance gᵀ (F W F + F/κ)⁻¹ g for each column g of the moments
        (features, many): (many,) in rows²."""
        from scipy.linalg import solve_triangular

        scaled = moments * self._weight
        solved = solve_triangular(self._factor, scaled, lower=True, check_finite=False)
        return np.asarray((solved**2).sum(axis=0))

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return a random factor for the weight of each row, none below 0: float (rows,).

        With these factors the released rows are what the fit could have been with other noise."""
        from scipy.linalg import solve_triangular

        normal = rng.standard_normal(len(self._factor))
        tilt = solve_triangular(self._factor, normal, lower=True, trans="T", check_finite=False)
        tilted = 1.0 + tilt[self.cells].sum(axis=0)
        total, tilted = max(0.0, float(self._rows.weigh(tilted).sum())), np.maximum(0.0, tilted)
        positive = max(float(self._rows.weigh(tilted).sum()), np.finfo(float).tiny)
        return np.asarray(tilted * (total / positive))

    @property
    def cells(self) -> IntArray:
        """The index of each row's cell in every table: int (tables, rows).

        Indices run on from table to table. A table's cells with few rows have one index, as a
        pool."""
        return self._features[0]

    @cached_property
    def _features(self) -> tuple[IntArray, FloatArray, list[tuple[int, int]]]:
        """(``cells``, noise variance of each cell or pool, range of indices of each table).

        Ranges are (first, last), the last exclusive."""
        tables, threshold = self._tables.tables, POOLED
        cells_of_tables = [self._tables.cells(table) for table in tables]
        while True:
            cells, variances, ranges, offset = [], [], [], 0
            for table, of_rows in zip(tables, cells_of_tables, strict=True):
                expected = self._rows.sums(of_rows, table.table.size) * self._weight
                is_single = expected > threshold * sqrt(table.variance)
                label, many = np.cumsum(is_single) - 1, int(is_single.sum())
                noise, pooled = np.full(many, table.variance), int((~is_single).sum())
                if pooled:
                    label[~is_single] = many
                    noise = np.append(noise, table.variance * pooled)
                cells.append(label[of_rows] + offset)
                variances.append(noise)
                ranges.append((offset, offset + len(noise)))
                offset += len(noise)
            if offset <= max(FEATURES, 2 * len(tables)):
                return np.stack(cells), np.concatenate(variances), ranges
            threshold *= 2

    @cached_property
    def _factor(self) -> FloatArray:
        """The lower Cholesky factor of F W F + F/κ (features, features); DeclarationError without
        released rows."""
        if not len(self._rows):
            raise DeclarationError(
                "The release has no row, so no number of it has an interval: open another one"
            )
        cells, variances, ranges = self._features
        many = len(variances)
        gram = np.zeros((many, many))
        for table, (start, end) in enumerate(ranges[:-1]):
            # All pairs of a table's cells with those of the tables behind it at once.
            keys = (cells[table] - start) * (many - end) + (cells[table + 1 :] - end)
            block = self._rows.sums(keys, (end - start) * (many - end))
            gram[start:end, end:] = block.reshape(end - start, many - end)
        gram += gram.T
        gram[np.diag_indices(many)] = self._rows.sums(cells, many)
        gram *= self._weight
        matrix = (gram / variances) @ gram + gram / WIDEST_PRIOR
        # Margins of one table are sums of another's: without this the matrix is singular.
        matrix[np.diag_indices(many)] += 1e-7 * float(np.trace(matrix)) / many
        return np.asarray(np.linalg.cholesky(matrix))
