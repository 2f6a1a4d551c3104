"""What ``choose`` may maximise: each sensitivity beside its formula, its relation and its proof.

The relation is add/remove (⊕): neighbours differ by all rows of one protected unit, at most
``rows_per_unit`` of them. No formula may need the true number of rows to be public, and every
score is an integer, in units of 1/2^16 row: rounding is part of the score, and of its sensitivity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_pipeline.gate.discrete_laplace import IntArray
from dp_pipeline.gate.numbers import int64_array
from dp_pipeline.schema.errors import BoundaryViolation

UNIT = 2**16
"""One row, in the units of every score."""


class Score(Protocol):
    """A function of one exact contingency table, and how far one protected unit moves it."""

    def score(self, table: IntArray) -> int:
        """The score of an exact table of counts."""

    def linf(self, rows_per_unit: int) -> int:
        """Largest |score − score'| over neighbours that differ by one unit of that many rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Gap:
    """G: the L1 distance of a pair table from what two *released* marginals predict.

    G(c) = ‖2^16·c − expected‖₁,  expected = rint(2^16 · N̂ p̂_i p̂_jᵀ),  Δ⊕ = 2^16 per row.

    Proof: ``expected`` is a constant, because everything in it has been released (and paid for)
    before. One row moves one cell of c by 1, so by the triangle inequality G by at most 2^16;
    L rows move it by at most L·2^16. All is integer: rounding costs nothing. The bound is
    reached (a row in a cell above what is expected). N̂ must be the released row count: with the
    true one the prediction moves too, by Σ p̂_i p̂_jᵀ per row: about twice the sensitivity.
    Source: the edge filter of PrivHD, made free of n.

    expected   int64 table, in 1/2^16 rows

    >>> gap = Gap.of_product(10.0, [0.5, 0.5], [0.5, 0.5])
    >>> gap.score(np.array([[5, 0], [0, 5]])) / UNIT, gap.linf(3) // UNIT
    (10.0, 3)
    """

    expected: IntArray

    def __post_init__(self) -> None:
        expected = int64_array(self.expected, of="gap: expected table").copy()
        expected.flags.writeable = False
        object.__setattr__(self, "expected", expected)

    @classmethod
    def of_product(cls, noisy_rows: float, noisy_left: ArrayLike, noisy_right: ArrayLike) -> Gap:
        """The gap from independence, with released N̂ and released shares of the two attributes.

        Floats are fine here: all three are public. Raises BoundaryViolation for NaN, infinity
        and products above 2^46 rows.
        """
        with np.errstate(all="ignore"):  # what overflows is refused in the next line
            product = UNIT * noisy_rows * np.outer(np.asarray(noisy_left), np.asarray(noisy_right))
        if not np.all(np.abs(product) <= 2.0**62):
            raise BoundaryViolation("gap: expected a finite product of at most 2^46 rows")
        return cls(np.rint(product).astype(np.int64))

    def score(self, table: IntArray) -> int:
        """G of an exact table of the shape of ``expected``; BoundaryViolation for any other."""
        counts = _counts(table)
        if counts.shape != self.expected.shape:
            raise BoundaryViolation(
                f"gap: expected a table of shape {self.expected.shape}, got {counts.shape}"
            )
        # Python integers: 2^16 · c must not wrap, whatever the counts are.
        return int(np.abs(UNIT * counts.astype(object) - self.expected.astype(object)).sum())

    def linf(self, rows_per_unit: int) -> int:
        """2^16 per row."""
        return UNIT * _rows(rows_per_unit)


@dataclass(frozen=True, slots=True)
class Independence:
    """U: half the L1 distance of a pair table from the product of its own margins, in rows.

    U(c) = ⌊2^16 · Σ|n·c − r cᵀ| / (2n)⌋,  U(∅) = 0,  Δ⊕ = 2 rows, so
    Δ_int = ⌈2^16 · 2 · L⌉ + 1 for L rows per unit.

    This is n times PrivBayes' score R (Zhang, Cormode, Procopiuc, Srivastava, Xiao 2017),
    which is for neighbours that replace a row, with n public; here n is private.

    Proof. Adding a row in cell (a, b) moves c by 1 in L1. The product P = r cᵀ/n becomes
    (r + e_a)(c + e_b)ᵀ/(n + 1), and
    P' − P = [ n (r e_bᵀ + e_a cᵀ + e_a e_bᵀ) − r cᵀ ] / (n (n + 1)),
    whose L1 norm is at most [ n (n + n + 1) + n² ] / (n (n + 1)) = (3n + 1)/(n + 1) < 3.
    Hence ½‖c − P‖₁ moves by less than ½(1 + 3) = 2; from the empty table to one row it moves
    by 0. L rows move it by less than 2L. Rounding down moves a difference by less than 1.
    Brute force finds 2n/(n + 1), so the constant cannot be made smaller.

    >>> Independence().score(np.array([[5, 0], [0, 5]])) / UNIT, Independence().linf(1)
    (5.0, 131073)
    """

    def score(self, table: IntArray) -> int:
        """U of an exact two-dimensional table; several parents are flattened into one axis."""
        counts = _counts(table)
        if counts.ndim != 2:
            raise BoundaryViolation(f"independence: expected two axes, got {counts.ndim}")
        # Up to n = 2^30 every product below is at most 2^60 and their sum at most 2^61.
        fits = int(counts.max(initial=0)) * counts.size <= 2**30
        wide: NDArray[Any] = counts if fits else counts.astype(object)
        n = int(wide.sum())
        if n == 0:
            return 0
        distance = np.abs(n * wide - np.outer(wide.sum(axis=1), wide.sum(axis=0))).sum()
        return UNIT * int(distance) // (2 * n)

    def linf(self, rows_per_unit: int) -> int:
        """2·2^16 per row, and 1 for rounding two scores."""
        return 2 * UNIT * _rows(rows_per_unit) + 1


SCORES = (Gap, Independence)
"""All that the gate maximises: a score sees exact tables, so nobody brings one of their own."""


def _counts(table: IntArray) -> IntArray:
    """An exact table: integers, none negative. The proofs above are about counts of rows."""
    counts = int64_array(table, of="score: table")
    if int(counts.min(initial=0)) < 0:
        raise BoundaryViolation("score: expected an exact table of counts, got negative cells")
    return counts


def _rows(rows_per_unit: int) -> int:
    """How many rows one protected unit has at most."""
    if isinstance(rows_per_unit, bool) or not isinstance(rows_per_unit, int) or rows_per_unit < 1:
        raise BoundaryViolation(f"rows_per_unit: expected an int ≥ 1, got {rows_per_unit!r}")
    return rows_per_unit
