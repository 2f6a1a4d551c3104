"""Scores of contingency tables that a private choice may maximise, with proofs of sensitivity.

In a table of more than two axes the first axis is a child, all others are its parents. Scores are
integers in units of 1/2^16 row; rounding is part of the score and of its sensitivity. Neighbours
differ by all rows of one protected unit, at most ``rows_per_unit`` (add/remove, ⊕), and the number
of rows is private. Two scores of the literature need a public number of rows n and neighbours that
replace one row (↔): the gate takes them on benchmark rows alone.
"""

from dataclasses import dataclass
from math import ceil, log, log1p, log2, prod
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.noise import int64_array
from dp_pipeline.gate.samplers import max_abs

UNIT = 2**16
"""One row, in the units of every score."""

MAX_PUBLIC_ROWS = 1 << 24
"""Rows up to which x·log2 x in floats rounds to the right integer."""

_UNREACHABLE = np.int64(-(1 << 60))
"""Less than any number of rows, and far from the end of int64 when rows are added."""


class Score(Protocol):
    """A score of one exact contingency table, with its sensitivity to one protected unit.

    kind   name of the formula in transcripts, which never changes
    """

    __slots__ = ()
    kind: ClassVar[str]

    def require_shape(self, shape: tuple[int, ...]) -> None:
        """Raise BoundaryViolation if the score is not defined for tables of a shape."""
        if not shape:
            raise BoundaryViolation(
                "A score needs a table of one or more attributes, but this one has none"
            )

    def score(self, table: IntArray) -> int:
        """Return the score of an exact table of counts, in 1/2^16 of a row or bit."""

    def linf(self, rows_per_unit: int) -> int:
        """Return the sensitivity: the largest |score − score'| over neighbours.

        rows_per_unit   rows that neighbours differ by; BoundaryViolation for a number that the
                        score has no proof for
        """


@dataclass(frozen=True, slots=True, eq=False)
class DependenceScore(Score):
    """Score G: the L1 distance of a pair table from the prediction of two *released* marginals.

    G(c) = ‖2^16·c − expected‖₁,  expected = rint(2^16 · N̂ p̂_i p̂_jᵀ),  Δ⊕ = 2^16 per row.

    Proof: ``expected`` is a constant, because everything in it has been released (and paid for)
    before. One row moves one cell of c by 1, so by the triangle inequality G by at most 2^16;
    L rows move it by at most L·2^16. All is integer: rounding costs nothing. A row in a cell with
    more rows than expected reaches the bound. N̂ must be the released row count: with the true one
    the prediction would move too, by Σ p̂_i p̂_jᵀ per row: about twice the sensitivity.
    Source: the edge filter of PrivHD, made free of n.

    expected   int64 table, in 1/2^16 rows

    >>> gap = DependenceScore.of_product(10.0, [0.5, 0.5], [0.5, 0.5])
    >>> gap.score(np.array([[5, 0], [0, 5]])) / UNIT, gap.linf(3) // UNIT
    (10.0, 3)
    """

    kind: ClassVar[str] = "gap"

    expected: IntArray

    def __post_init__(self) -> None:
        expected = int64_array(self.expected, of="predicted cells").copy()
        expected.flags.writeable = False
        object.__setattr__(self, "expected", expected)

    @classmethod
    def of_product(cls, noisy_rows: float, noisy_left: ArrayLike, noisy_right: ArrayLike) -> Self:
        """Return the score against the prediction that two attributes are independent.

        noisy_rows                number of rows, as released
        noisy_left, noisy_right   released shares of the levels of each attribute

        All three are public, so floats are allowed. BoundaryViolation for NaN, infinity and a
        predicted cell above 2^46 rows.
        """
        with np.errstate(all="ignore"):  # ``of_shares`` refuses an overflow
            shares = np.outer(np.asarray(noisy_left), np.asarray(noisy_right))
        return cls.of_shares(noisy_rows, shares)

    @classmethod
    def of_shares(cls, noisy_rows: float, shares: NDArray[np.float64]) -> Self:
        """Return the score against the prediction ``noisy_rows`` times a table of released shares.

        BoundaryViolation as for ``of_product``.
        """
        with np.errstate(all="ignore"):  # the next line refuses an overflow
            product = UNIT * noisy_rows * shares
        if not np.all(np.abs(product) <= 2.0**62):
            raise BoundaryViolation(
                "The prediction of a dependence score must be at most 2^46 rows in each cell, "
                "but one is larger"
            )
        return cls(np.rint(product).astype(np.int64))

    def score(self, table: IntArray) -> int:
        counts = _counts(table, self)
        # Every term below is at most 2^61 / size and their sum at most 2^61; else Python integers.
        most = max(UNIT * int(counts.max(initial=0)), max_abs(self.expected))
        fits = 2 * most * counts.size <= 2**61
        wide, expected = (
            array if fits else array.astype(object) for array in (counts, self.expected)
        )
        return int(np.abs(UNIT * wide - expected).sum())

    def require_shape(self, shape: tuple[int, ...]) -> None:
        if shape != self.expected.shape:
            raise BoundaryViolation(
                f"The table of a dependence score must have shape {self.expected.shape}, not "
                f"{shape}"
            )

    def linf(self, rows_per_unit: int) -> int:
        return UNIT * _rows(rows_per_unit)


@dataclass(frozen=True, slots=True)
class Independence(Score):
    """Score U: half the L1 distance of a pair table from the product of its own margins, in rows.

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

    kind: ClassVar[str] = "independence"

    def score(self, table: IntArray) -> int:
        counts = _two_sides(table, self)
        # Up to n = 2^30 every product below is at most 2^60 and their sum at most 2^61.
        fits = int(counts.max(initial=0)) * counts.size <= 2**30
        wide: NDArray[Any] = counts if fits else counts.astype(object)
        n = int(wide.sum())
        if n == 0:
            return 0
        distance = np.abs(n * wide - np.outer(wide.sum(axis=1), wide.sum(axis=0))).sum()
        return UNIT * int(distance) // (2 * n)

    def linf(self, rows_per_unit: int) -> int:
        return 2 * UNIT * _rows(rows_per_unit) + 1


@dataclass(frozen=True, slots=True)
class Purity(Score):
    """Score S: the purity of a child within the cells of its parents, half of Σ n_gy²/n_g, in rows.

    S(c) = Σ_g ⌊2^15 · Σ_y n_gy² / n_g⌋ for the sizes n_g > 0 of the parents' cells g and the
    child's levels y in them; S(∅) = 0, Δ⊕ = ½ row, so Δ_int = 2^15 · L for L rows per unit.

    This is ½(n − I), I = Σ_g n_g·(1 − Σ_y (n_gy/n_g)²) the Gini impurity, half of which an added
    row raises by 0 to 1: noisy max sees differences alone, so the ½n takes a ½ off either end.

    Proof. A row of level a that is added to a cell of n ≥ 1 rows, x of them of level a, moves
    f = ½Σ n_y²/n by f' − f = ½[(2x + 1)·n − Σ n_y²]/(n(n + 1)), and x² ≤ Σ n_y² ≤ x² + (n − x)².
    With the former it is at most ½(2x·n + n − x²)/(n(n + 1)), which rises up to x = n, to ½.
    With the latter it is at least ½(4x·n − 2x² + n − n²)/(n(n + 1)), which rises from x = 0,
    where it is ½(1 − n)/(n + 1) > −½. The first row of a cell moves f from 0 to ½. A row is in one
    cell, so L rows move the cells' sum by L/2, those in cell g its term by L_g/2: in whole units
    by 2^15·L_g, since |⌊a⌋ − ⌊b⌋| ≤ m wherever |a − b| ≤ m is whole. ∎

    >>> Purity().score(np.array([[5, 0], [0, 5]])) / UNIT, Purity().linf(1)
    (5.0, 32768)
    """

    kind: ClassVar[str] = "purity"

    def score(self, table: IntArray) -> int:
        counts = _two_sides(table, self)
        # Up to 2^23 rows a cell, every product below is at most 2^61.
        fits = int(counts.max(initial=0)) * counts.shape[0] <= 2**23
        wide: NDArray[Any] = counts if fits else counts.astype(object)
        sizes = wide.sum(axis=0)
        seen = sizes > 0
        return int((UNIT // 2 * (wide * wide).sum(axis=0)[seen] // sizes[seen]).sum())

    def linf(self, rows_per_unit: int) -> int:
        return UNIT // 2 * _rows(rows_per_unit)


@dataclass(frozen=True, slots=True)
class MutualInformation(Score):
    """Score n·I: rows times the mutual information I of the first axis and all others, in bits.

    n·I(c) = Σ f(c_ij) − Σ f(r_i) − Σ f(c_j) + f(n),  f(x) = rint(2^16 · x·log2 x),  f(0) = 0.
    Δ↔ = log2 n + (n − 1)·log2(n/(n − 1)) where a side has two levels, else
    Δ↔ = 2·log2((n + 1)/2) + (n − 1)·log2((n + 1)/(n − 1)) (PrivBayes, Zhang et al., SIGMOD
    2014, Theorem 4.1 and its lemma), so Δ_int = ⌈2^16·Δ↔⌉ + 9.

    *Rounding.* Replacing a row changes at most two cells and four margins: twelve values of f
    before and after. A logarithm of the machine is taken to be right to 2^-48 of itself (eight
    times worse than any in use): with n ≤ 2^24 the product is below 2^45, so each value of f
    is within ½ + 1/8 of 2^16·x·log2 x, and twelve move a difference by at most 7½. The last
    unit is for Δ↔ itself, which is computed in floats. f is a function of the count alone, so
    both neighbours use the same one, and all sums are of whole numbers.

    rows     n, the number of rows of the table, which is public under this relation
    binary   whether one side of the table has at most two levels

    >>> round(MutualInformation(10).score(np.array([[5, 0], [0, 5]])) / UNIT, 3)
    10.0
    """

    kind: ClassVar[str] = "mutual information"

    rows: int
    binary: bool = False

    def __post_init__(self) -> None:
        if type(self.rows) is not int or not 0 <= self.rows <= MAX_PUBLIC_ROWS:
            raise BoundaryViolation(
                f"A score by mutual information needs 0 to 2^24 rows, not {self.rows!r:.30}: "
                "choose a model or parameters without it"
            )

    def require_shape(self, shape: tuple[int, ...]) -> None:
        Score.require_shape(self, shape)
        if self.binary and min(shape[0], prod(shape[1:])) > 2:
            raise BoundaryViolation(
                "The table of a binary mutual information needs a side of two levels, not shape "
                f"{shape}"
            )

    def score(self, table: IntArray) -> int:
        counts = _two_sides(table, self)
        if int(counts.sum()) != self.rows:
            raise BoundaryViolation(
                f"The table of a mutual information must count {self.rows} rows, but it does not"
            )
        margins = (_bits(counts.sum(axis=axis)) for axis in (0, 1))
        return _bits(counts) + _bits(np.array([self.rows])) - sum(margins)

    def linf(self, rows_per_unit: int) -> int:
        _require_one_replaced(rows_per_unit)
        n = self.rows
        if n < 2:
            return 9
        if self.binary:
            bits = log2(n) + (n - 1) * log1p(1 / (n - 1)) / log(2)
        else:
            bits = 2 * log2((n + 1) / 2) + (n - 1) * log1p(2 / (n - 1)) / log(2)
        return ceil(UNIT * bits) + 9


@dataclass(frozen=True, slots=True)
class FScore(Score):
    """Score F: minus the rows to change until a binary child is a balanced function of its parents.

    F(c) = −½ min over A ⊆ parents' cells of (n − 2·Σ_A c_0j)⁺ + (n − 2·Σ_Aᶜ c_1j)⁺, Δ↔ = 1 row.
    This is n times the score F of PrivBayes (SIGMOD 2014, Section 4.3), a whole number of half
    rows: exact, no rounding.

    *Proof.* Fix A, and write k0, k1 for the two sums. Replacing a row takes one row from a cell
    and gives one to another, so k0 falls by at most 1 or rises by at most 1, and so does k1,
    and never do both fall or both rise. Hence their two terms move by at most 2 each, in
    opposite directions, and their sum by at most 2; n is the same. The minimum over a fixed
    family of A moves by no more. Half of it: 1 row. ∎

    Dynamic programming over the parents' cells computes it: for every k0, up to ⌈n/2⌉ where its
    term is 0, the largest k1.

    >>> [FScore().score(np.array(table)) / UNIT for table in ([[5, 0], [0, 5]], [[5], [5]])]
    [0.0, -5.0]
    """

    kind: ClassVar[str] = "F"

    def require_shape(self, shape: tuple[int, ...]) -> None:
        if shape[:1] != (2,):
            raise BoundaryViolation(
                f"The score F needs a binary child as first axis, not a table of shape {shape}"
            )

    def score(self, table: IntArray) -> int:
        counts = zero_counts, one_counts = _two_sides(table, self)
        n = int(counts.sum())
        most_ones = _most_ones(zero_counts, one_counts, (n + 1) // 2)
        short = n - 2 * np.arange(len(most_ones))
        missing = np.maximum(short, 0) + np.maximum(n - 2 * most_ones, 0)
        return -UNIT // 2 * int(missing.min())

    def linf(self, rows_per_unit: int) -> int:
        _require_one_replaced(rows_per_unit)
        return UNIT


SCORES = (DependenceScore, Independence, Purity, MutualInformation, FScore)
"""All scores that the gate maximises; it takes no other class, since a score sees exact tables."""

PUBLIC_ROW_SCORES = (MutualInformation, FScore)
"""Scores proven only for neighbours that replace one row, with a public number of rows."""


def _counts(table: IntArray, score: Score) -> IntArray:
    """Return an exact table as int64; BoundaryViolation for other types and negative cells, and
    for a shape that the score is not defined for."""
    counts = int64_array(table, of="cells of a score")
    score.require_shape(counts.shape)
    if int(counts.min(initial=0)) < 0:
        raise BoundaryViolation(
            "A score needs a table of counts, but a cell of this one is negative"
        )
    return counts


def _two_sides(table: IntArray, score: Score) -> IntArray:
    """Return a checked table as a matrix: the first axis, and all other axes as one."""
    counts = _counts(table, score)
    return counts.reshape(counts.shape[0], prod(counts.shape[1:]))


def _bits(counts: IntArray) -> int:
    return int(np.rint(UNIT * (counts * np.log2(np.maximum(counts, 1)))).astype(np.int64).sum())


def _most_ones(zero_counts: IntArray, one_counts: IntArray, half: int) -> IntArray:
    """Return the most ones outside of a set of parents' cells (half + 1,), by the zeros in the set:
    0, 1, …, ``half`` or more; ``_UNREACHABLE`` or little more where no set has that many zeros."""
    most = np.full(half + 1, _UNREACHABLE)
    most[0] = 0
    for zero_count, one_count in zip(zero_counts.tolist(), one_counts.tolist(), strict=True):
        gained = min(zero_count, half)
        shifted = np.full(half + 1, _UNREACHABLE)
        shifted[gained:] = most[: half + 1 - gained]
        shifted[half] = most[half - gained :].max()
        most = np.maximum(shifted, most + one_count)
    return most


def _require_one_replaced(rows_per_unit: int) -> None:
    """Raise BoundaryViolation unless ``rows_per_unit`` is 2: neighbours that replace a row."""
    if _rows(rows_per_unit) != 2:
        raise BoundaryViolation(
            "This score needs neighbours that differ by 2 rows, as with `relation: replace_one` "
            f"and one row a person, not by {rows_per_unit}"
        )


def _rows(rows_per_unit: int) -> int:
    if isinstance(rows_per_unit, bool) or not isinstance(rows_per_unit, int) or rows_per_unit < 1:
        raise BoundaryViolation(
            f"The rows_per_unit must be an integer of at least 1, not {rows_per_unit!r}"
        )
    return rows_per_unit
