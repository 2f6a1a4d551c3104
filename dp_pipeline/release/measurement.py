"""Noisy answers: frozen values that carry the scale of their noise and may leave."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import pi, sinh, sqrt

import numpy as np

from dp_pipeline.schema.encoding import FloatArray, IntArray

MOST_RATE = 30.0
"""Above this rate nothing but 0 is drawn: a variance of 0 would divide by 0."""

SHARES = 1 << 12
"""Whole shares that a tree's ε is accounted in: a public grid, so that paths add up exactly."""


@dataclass(frozen=True)
class NoisyMarginal:
    """A contingency table after noise.

    attributes   in the order of the table's axes
    table        int64, shape ``domain.shape(attributes)``; cells may be negative
    scale        of the noise in every cell: Laplace scale in rows, or σ² in squared rows
    gaussian     whether it is σ² of discrete Gaussian noise
    """

    attributes: tuple[str, ...]
    table: IntArray
    scale: Fraction
    gaussian: bool = False

    @property
    def variance(self) -> float:
        """Variance of the noise in one cell, in squared rows."""
        return gaussian_moments(self.scale)[1] if self.gaussian else variance(self.scale)

    @property
    def deviation(self) -> float:
        """Mean |noise| of one cell, in rows."""
        return gaussian_moments(self.scale)[0] if self.gaussian else deviation(self.scale)


@dataclass(frozen=True)
class NoisyGrid:
    """Counts of equal cells over the declared box, after noise.

    table   int64, shape (cells,) · d, empty cells included; may be negative
    scale   Laplace scale in rows
    """

    columns: tuple[str, ...]
    table: IntArray
    scale: Fraction


@dataclass(frozen=True)
class NoisyNodes:
    """Counts of disjoint tree nodes, after noise; ``table`` is in the order that was asked."""

    table: IntArray
    scale: Fraction


@dataclass(frozen=True)
class NoisyClusters:
    """Sizes and fixed-point totals of clusters in m subsets, after noise.

    sizes         int64 (m, k), rows
    totals        int64 (m, k, d), coordinates; one half-width is 2^16
    size_scale    Laplace scale in rows
    total_scale   Laplace scale in coordinates
    """

    sizes: IntArray
    totals: IntArray
    size_scale: Fraction
    total_scale: Fraction


@dataclass(frozen=True)
class NoisyNumber:
    """One number after noise.

    value   in ``unit``; a float only because the unit may be a fraction of a row
    scale   Laplace scale, or that of Laplace noise with the same deviation; in the same unit
    """

    value: float
    scale: float
    unit: str


def variance(scale: Fraction) -> float:
    """Variance of the discrete Laplace: 2q/(1−q)², q = e^(−1/scale).

    >>> round(variance(Fraction(1)), 4)
    1.8413
    """
    return float(variances(np.array([1 / float(scale)]))[0])


def deviation(scale: Fraction) -> float:
    """Mean |x| of the discrete Laplace: 1/sinh(1/scale).

    >>> round(deviation(Fraction(1)), 4)
    0.8509
    """
    return 1 / sinh(min(1 / float(scale), MOST_RATE))


def gaussian_moments(sigma2: Fraction) -> tuple[float, float]:
    """Mean |x| and variance of the discrete Gaussian, P(x) ∝ exp(−x²/(2σ²)).

    >>> [round(moment, 4) for moment in gaussian_moments(Fraction(100))]
    [7.9722, 100.0]
    """
    # From here on the sums below are σ·√(2/π), to 1e-5 of it, and σ², to the last digit.
    if sigma2 > 10**4:
        return sqrt(2 * sigma2 / pi), float(sigma2)
    spread = max(float(sigma2), 1 / (2 * MOST_RATE))
    x = np.arange(1, 12 * round(sqrt(spread) + 1))
    weights = np.exp(-(x**2) / (2 * spread))
    total = 0.5 + weights.sum()
    return float(x @ weights / total), float(x**2 @ weights / total)


def variances(rates: FloatArray) -> FloatArray:
    """Variance of the discrete Laplace at every rate 1/scale.

    >>> variances(np.array([1.0])).round(4).tolist()
    [1.8413]
    """
    few = np.minimum(rates, MOST_RATE)
    return np.asarray(2 * np.exp(-few) / np.expm1(-few) ** 2)
