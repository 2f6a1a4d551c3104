"""Noisy answers: frozen values that carry the scale of their noise and may leave."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_pipeline.schema.encoding import FloatArray, IntArray

SHARES = 1 << 12
"""Whole shares that a tree's ε is accounted in: a public grid, so that paths add up exactly."""


@dataclass(frozen=True)
class NoisyMarginal:
    """A contingency table after noise.

    attributes   in the order of the table's axes
    table        int64, shape ``domain.shape(attributes)``; cells may be negative
    scale        Laplace scale in rows
    """

    attributes: tuple[str, ...]
    table: IntArray
    scale: Fraction


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


def variances(rates: FloatArray) -> FloatArray:
    """Variance of the discrete Laplace at every rate 1/scale.

    >>> variances(np.array([1.0])).round(4).tolist()
    [1.8413]
    """
    # Above a rate of 30 nothing but 0 is drawn: a variance of 0 would divide by 0.
    few = np.minimum(rates, 30.0)
    return np.asarray(2 * np.exp(-few) / np.expm1(-few) ** 2)
