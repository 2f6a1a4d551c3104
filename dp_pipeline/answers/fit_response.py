"""FitResponse: how a fit answers the noise of measured tables."""

from __future__ import annotations

from functools import cached_property
from math import sqrt

import numpy as np

from dp_pipeline.answers.noisy_tables import NoisyTables
from dp_pipeline.answers.released_rows import ReleasedRows
from dp_pipeline.config.encoding import FloatArray, IntArray

FEATURES = 2_000
"""Most measured cells that are told apart: their Gram matrix is factorised once, in about 2 s."""

POOLED = 0.25
"""Cells with fewer expected rows than this part of their noise are pooled: they say next to
nothing by themselves."""

WIDEST_PRIOR = 1e4
"""Variance, in multiples of the rows of a cell, by which a fit may follow noise at most."""


class FitResponse:
    """The response of a fit to noise: variances of linear numbers, and random draws of the fit.

    weight   true rows that a released row of the weight 1 stands for

    A fit answers noise by tilting the weights of rows along the cells that were measured (the
    exponential family of graphical models), so to first order every linear number has a variance
    in closed form, whichever model was fitted.

    *Derivation.* Let F = N·E[x xᵀ] be the second moments of the measured cells x and W the inverse
    variances of their noise. The fit minimises (y − μ(θ))ᵀ W (y − μ(θ)) with ∂μ/∂θ = F, so θ moves
    by (F W F)⁻¹ F W e for noise e, and a number with g = N·E[f x] by gᵀ of that: variance
    gᵀ (F W F)⁻¹ g. F/κ is added as the widest prior (κ = 10⁴).
    """

    def __init__(self, rows: ReleasedRows, tables: NoisyTables, weight: float) -> None:
        self._rows, self._tables, self._weight = rows, tables, weight

    def variances(self, values: FloatArray) -> FloatArray:
        """Return the variance of weighted sums over rows: float (numbers,).

        values   (numbers, rows): what each row adds to each number
        """
        cells, many = self.cells, len(self._noise)
        moments = np.zeros((many, len(values)))
        for number, weights in enumerate(values):
            chosen = np.flatnonzero(weights)
            repeated = np.tile(self._rows.weigh(weights)[chosen], len(cells))
            moments[:, number] = np.bincount(cells[:, chosen].ravel(), repeated, minlength=many)
        return self._variances(moments)

    def variances_of_cells(self, keys: IntArray, many: int) -> FloatArray:
        """Return the variance of the count of each of ``many`` cells: float (many,).

        keys   cell of every row: int (rows,)
        """
        features = len(self._noise)
        moments = np.zeros(features * many)
        for of_table in self.cells:
            moments += self._rows.sums(of_table * many + keys, features * many)
        return self._variances(moments.reshape(features, many))

    def _variances(self, moments: FloatArray) -> FloatArray:
        """Return gᵀ (F W F + F/κ)⁻¹ g for every column g of the moments."""
        from scipy.linalg import solve_triangular

        scaled = moments * self._weight
        solved = solve_triangular(self._factor, scaled, lower=True, check_finite=False)
        return np.asarray((solved**2).sum(axis=0))

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return random relative weights of the released rows (rows,), as another draw of the
        noise gives.

        None is below 0."""
        from scipy.linalg import solve_triangular

        normal = rng.standard_normal(len(self._noise))
        tilt = solve_triangular(self._factor, normal, lower=True, trans="T", check_finite=False)
        tilted = 1.0 + tilt[self.cells].sum(axis=0)
        total, tilted = max(0.0, float(self._rows.weigh(tilted).sum())), np.maximum(0.0, tilted)
        return np.asarray(
            tilted * (total / max(self._rows.weigh(tilted).sum(), np.finfo(float).tiny))
        )

    @property
    def cells(self) -> IntArray:
        """The cell number of every row in every table, numbered through all tables: int (tables,
        rows)."""
        return self._features[0]

    @property
    def _noise(self) -> FloatArray:
        """The variance of the noise in every cell, or in a pool of a table's cells with few
        rows."""
        return self._features[1]

    @cached_property
    def _features(self) -> tuple[IntArray, FloatArray, list[tuple[int, int]]]:
        """The cells (tables, rows) with few rows pooled, the variances of their noise, and each
        table's range."""
        tables, threshold = self._tables.tables, POOLED
        cells_of_tables = [self._tables.cells(table) for table in tables]
        while True:
            cells, variances, ranges, offset = [], [], [], 0
            for table, of_rows in zip(tables, cells_of_tables, strict=True):
                expected = self._rows.sums(of_rows, table.counts.size) * self._weight
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
        """The lower Cholesky factor of F W F + F/κ."""
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
