"""Noisy answers with the scale of their noise; and the noise that an ε or ρ buys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, lgamma, log, pi, sinh, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import FloatArray, IntArray, Names

MOST_RATE = 30.0
"""Largest 1/scale that is used: above it almost only 0 is drawn, and a variance may be 0."""

SHARES = 1 << 12
"""Equal parts in which the ε of a tree is spent along a path, so that paths add up exactly."""


@dataclass(frozen=True)
class NoisyMarginal:
    """A noisy contingency table, with the scale of its noise.

    attributes   in the order of the table's axes
    table        int64, shape ``domain.shape(attributes)``; cells may be negative
    scale        of the noise in every cell: Laplace scale in rows, or σ² in squared rows
    gaussian     whether the noise is discrete Gaussian
    """

    attributes: tuple[str, ...]
    table: IntArray
    scale: Fraction
    gaussian: bool = False

    @property
    def variance(self) -> float:
        """The variance of the noise in one cell, in squared rows."""
        return gaussian_moments(self.scale)[1] if self.gaussian else variance(self.scale)

    @property
    def mean_noise(self) -> float:
        """The mean |noise| of one cell, in rows."""
        return gaussian_moments(self.scale)[0] if self.gaussian else mean_noise(self.scale)

    def averaged(self, other: NoisyMarginal) -> NoisyMarginal:
        """Return the precision-weighted mean of two Gaussian measurements of a table, as integers.

        >>> first = NoisyMarginal(("a",), np.array([4, 9]), Fraction(6), gaussian=True)
        >>> again = NoisyMarginal(("a",), np.array([1, 9]), Fraction(3), gaussian=True)
        >>> both = first.averaged(again)
        >>> both.table.tolist(), both.scale
        ([2, 9], Fraction(2, 1))
        """
        total = self.scale + other.scale
        table = (self.table * float(other.scale) + other.table * float(self.scale)) / float(total)
        integers, scale = np.rint(table).astype(np.int64), self.scale * other.scale / total
        return NoisyMarginal(self.attributes, integers, scale, gaussian=True)


def marginal_of(table: NDArray[Any], names: Names, onto: Collection[str]) -> NDArray[Any]:
    """Return a table with axes ``names``, summed so that the axes ``onto`` remain, in their order.

    >>> marginal_of(np.array([[1.0, 2.0], [3.0, 4.0]]), ("a", "b"), ("b",)).tolist()
    [4.0, 6.0]
    """
    remaining = [name for name in names if name in onto]
    summed = table.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in onto))
    return np.asarray(summed).transpose([remaining.index(name) for name in onto])


def is_of_pairs(attributes: Names) -> bool:
    """Return whether a measured table is of pairs of parts of one unit.

    >>> [is_of_pairs(names) for names in (("size", "age"), ("size", "age", "next age"))]
    [False, True]
    """
    *names, last = attributes or ("",)
    return len(names) == 2 and last in (names[1], f"next {names[1]}")


def is_over_groups(attributes: Names) -> bool:
    """Return whether a measured table is over groups of levels, where a release has groups."""
    return len(attributes) > 1 and not is_of_pairs(attributes)


@dataclass(frozen=True)
class NoisyCounts:
    """A measured table, or its sum over some axes, with its noise.

    attributes   in the order of the table's axes
    table        numbers of rows, or of units where units have parts; cells may be negative
    deviation    standard deviation of the noise in one cell, in the same unit
    gaussian     whether the noise is Gaussian; else Laplace
    terms        number of measured cells that are summed in one cell
    is_grouped   whether axes are groups of levels, where the release has groups
    """

    attributes: tuple[str, ...]
    table: IntArray | FloatArray
    deviation: float
    gaussian: bool = False
    terms: int = 1
    is_grouped: bool = False

    @classmethod
    def of(cls, measured: NoisyMarginal) -> NoisyCounts:
        names, table, deviation = measured.attributes, measured.table, measured.variance**0.5
        is_grouped = is_over_groups(names)
        return cls(names, table, deviation, measured.gaussian, is_grouped=is_grouped)

    @property
    def variance(self) -> float:
        """The variance of the noise in one cell, in the square of that unit."""
        return self.deviation**2

    def summed(self, names: tuple[str, ...]) -> NoisyCounts:
        """Return the sum over all axes except ``names``, with axes in the order of ``names``.

        >>> NoisyCounts(("a", "b"), np.array([[1, 2], [3, 4]]), 2.0).summed(("b",)).deviation
        2.8284271247461903
        """
        table = marginal_of(self.table, self.attributes, names)
        terms = self.table.size // table.size
        deviation, terms_of_cell = self.deviation * sqrt(terms), self.terms * terms
        return replace(
            self, attributes=names, table=table, deviation=deviation, terms=terms_of_cell
        )

    def noise_distance(self, rows: float) -> tuple[float, float]:
        """Return the mean and standard deviation of ½ Σ |noise|/rows, the error of shares by noise.

        rows   number by which counts are divided

        For a sum of m Laplace numbers of scale b, E|x| = b · 2m · C(2m, m)/4^m.

        >>> mean, spread = NoisyCounts(("a",), np.zeros(2, dtype=int), 2**0.5).noise_distance(10)
        >>> round(mean, 6), round(spread, 6)
        (0.1, 0.070711)
        """
        m = self.terms
        # C(2m, m)/4^m by logarithms: for large m neither is a float.
        chance = exp(lgamma(2 * m + 1) - 2 * lgamma(m + 1) - m * log(4))
        mean = self.deviation * (sqrt(2 / pi) if self.gaussian else sqrt(2 * m) * chance)
        spread = sqrt(self.table.size * max(0.0, self.deviation**2 - mean**2))
        return self.table.size * mean / (2 * rows), spread / (2 * rows)


def least_noisy(
    measured: Iterable[NoisyCounts], names: tuple[str, ...], shape: tuple[int, ...]
) -> NoisyCounts | None:
    """Return the table over ``names`` with the least noise, which is a sum of a measured table.

    None if no measured table has all names, or none gives this shape.
    """
    sums = [counts.summed(names) for counts in measured if set(names) <= set(counts.attributes)]
    return min(
        (counts for counts in sums if counts.table.shape == shape),
        key=lambda counts: counts.deviation,
        default=None,
    )


@dataclass(frozen=True)
class NoisyGrid:
    """The noisy counts of equal cells over the declared box.

    table   int64, shape (cells,) · d, empty cells included; may be negative
    scale   Laplace scale in rows
    """

    columns: tuple[str, ...]
    table: IntArray
    scale: Fraction


@dataclass(frozen=True)
class NoisyNodes:
    """The noisy numbers of rows in disjoint tree nodes, in the requested order.

    table   int64 (m,), may be negative
    scale   Laplace scale in rows
    """

    table: IntArray
    scale: Fraction


@dataclass(frozen=True)
class NoisyClusters:
    """The noisy sizes of k clusters in m subsets of the rows, and sums of their coordinates.

    sizes         rows: int64 (m, k)
    totals        sums of fixed-point coordinates, half-width 2^16: int64 (m, k, d)
    size_scale    Laplace scale in rows
    total_scale   Laplace scale in coordinates
    """

    sizes: IntArray
    totals: IntArray
    size_scale: Fraction
    total_scale: Fraction


@dataclass(frozen=True)
class NoisyNumber:
    """A noisy number, with the scale of its noise.

    value   in ``unit``; a float only because the unit may be a fraction of a row
    scale   Laplace scale, or that of Laplace noise with the same deviation; in the same unit
    """

    value: float
    scale: float
    unit: str


def variance(scale: Fraction) -> float:
    """Return the variance of discrete Laplace noise: 2q/(1−q)², q = e^(−1/scale).

    >>> round(variance(Fraction(1)), 4)
    1.8413
    """
    return float(variances(np.array([1 / float(scale)]))[0])


def mean_noise(scale: Fraction) -> float:
    """Return the mean |x| of discrete Laplace noise: 1/sinh(1/scale).

    >>> round(mean_noise(Fraction(1)), 4)
    0.8509
    """
    return 1 / sinh(min(1 / float(scale), MOST_RATE))


def gaussian_moments(sigma2: Fraction) -> tuple[float, float]:
    """Return the mean |x| and the variance of discrete Gaussian noise, P(x) ∝ exp(−x²/(2σ²)).

    >>> [round(moment, 4) for moment in gaussian_moments(Fraction(100))]
    [7.9722, 100.0]
    """
    # From here on the moments are σ·√(2/π), to 1e-5 of it, and σ², to the last digit.
    if sigma2 > 10**4:
        return sqrt(2 * sigma2 / pi), float(sigma2)
    spread = max(float(sigma2), 1 / (2 * MOST_RATE))
    x = np.arange(1, 12 * round(sqrt(spread) + 1))
    weights = np.exp(-(x**2) / (2 * spread))
    total = 0.5 + weights.sum()
    return float(x @ weights / total), float(x**2 @ weights / total)


def variances(rates: FloatArray) -> FloatArray:
    """Return the variance of discrete Laplace noise at every rate 1/scale.

    >>> variances(np.array([1.0])).round(4).tolist()
    [1.8413]
    """
    capped = np.minimum(rates, MOST_RATE)
    return np.asarray(2 * np.exp(-capped) / np.expm1(-capped) ** 2)


@dataclass(frozen=True)
class NoiseRate:
    """The noise of answers as a function of the ε or ρ paid, in floats for planning.

    concentrated   amounts are ρ, noise is Gaussian; else amounts are ε, noise is Laplace
    distance       rows of one protected unit

    One table of ``cells`` for the amount a has a total |noise| of about cells · mean_noise(a). For
    several tables of weights w that share an amount, Σ w · mean_noise is least at shares ∝
    w^(1/2) for Laplace (Lagrange: w/a² is equal) and ∝ w^(2/3) for Gaussian noise (w/a^(3/2)).

    >>> rate = NoiseRate(concentrated=False, distance=1)
    >>> [rate.relative_share(weight) for weight in (4.0, 16.0)]
    [2.0, 4.0]
    """

    concentrated: bool
    distance: int

    def mean_noise(self, amount: float) -> float:
        """Return the mean |noise| of one cell, in rows: distance/ε, or distance/√(πρ)."""
        return self.distance / (sqrt(pi * amount) if self.concentrated else amount)

    def variance(self, amount: float) -> float:
        """Return the variance of the noise in one cell: 2·(distance/ε)², or distance²/(2ρ)."""
        if self.concentrated:
            return self.distance**2 / (2 * amount)
        return 2 * (self.distance / amount) ** 2

    def scale(self, row_change: float, amount: float) -> float:
        """Return the Laplace scale or the Gaussian σ of an answer, in its unit.

        row_change   largest change of the answer by one row
        amount       ε or ρ paid for the answer
        """
        change = self.distance * row_change
        return change / (sqrt(2 * amount) if self.concentrated else amount)

    def relative_share(self, weight: float) -> float:
        """Return the number to which the best share of a table of this weight is proportional."""
        return weight ** (2 / 3) if self.concentrated else sqrt(weight)

    def integer_shares(self, weights: Sequence[float]) -> list[Fraction]:
        """Return every ``relative_share`` in thousandths, rounded to integers of at least 1."""
        return [Fraction(max(1, round(1000 * self.relative_share(weight)))) for weight in weights]


@dataclass(frozen=True)
class SparseTable:
    """All cells of a table whose noisy count is at least a threshold.

    attributes   of the table
    shape        its size; the product may be larger than any array
    table        int64 (cells, 2): key and noisy count, ascending by key; a key is the codes read
                 as digits, the last attribute fastest
    threshold    least count of a retained cell
    scale        Laplace scale in rows, of every cell
    """

    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    table: IntArray
    threshold: int
    scale: Fraction

    @property
    def codes(self) -> IntArray:
        """The codes of the retained cells, int64 (cells, attributes)."""
        return codes_of_keys(self.table[:, 0], self.shape)

    @property
    def counts(self) -> IntArray:
        """The noisy counts of the retained cells, int64 (cells,)."""
        return self.table[:, 1]


def codes_of_keys(keys: IntArray, shape: tuple[int, ...]) -> IntArray:
    """Return the codes (m, axes) of the cells with these keys, the last axis fastest.

    >>> codes_of_keys(np.array([0, 5]), (2, 3)).tolist()
    [[0, 0], [1, 2]]
    """
    codes = np.empty((len(keys), len(shape)), dtype=np.int64)
    for axis in range(len(shape) - 1, -1, -1):
        keys, codes[:, axis] = np.divmod(keys, shape[axis])
    return codes


def threshold_for(cells: int, scale: Fraction, *, empty_cells: int) -> int:
    """Return the least threshold that, on average, at most ``empty_cells`` empty cells reach.

    An integer, at least 1. With q = e^(−1/scale) it is the least one with cells · q^threshold / (1
    + q) ≤ empty_cells.

    >>> threshold_for(65536, Fraction(5), empty_cells=100)
    30
    """
    expected = cells / (empty_cells * (1 + exp(-1 / scale)))
    # Slightly enlarged, because rounding errors must not let one more cell pass.
    return max(1, int(np.ceil(float(scale) * log(max(1.0, expected)) * (1 + 1e-12))))
