"""Discrete Laplace noise on a table of which nearly all cells are empty, and few are kept.

How many of very many empty cells reach a threshold by noise alone: an exact binomial number.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from math import exp

import numpy as np

from dp_pipeline.gate.samplers import (
    UniformIntegers,
    geometric_noise,
    laplace_noise,
    saturating_sum,
)
from dp_pipeline.spec.encoding import IntArray

MOST_CELLS = 1 << 62
"""Keys of cells are int64."""

MOST_SCALES = 1 << 32
"""A threshold of more scales is no threshold: nothing empty would ever reach it."""

_DIGITS = 80
_BITS = 128


def expected_above_threshold(cells: int, threshold: int, scale: Fraction) -> float:
    """Empty cells that reach ``threshold`` on average: cells · P(X ≥ threshold).

    X is discrete Laplace noise, so with q = e^(−1/scale) the chance is q^threshold / (1 + q).

    >>> round(expected_above_threshold(1000, 1, Fraction(1)), 1)
    268.9
    """
    return cells * exp(-threshold / scale) / (1 + exp(-1 / scale))


def threshold_binomial(
    cells: int, threshold: int, scale: Fraction, uniform: UniformIntegers
) -> int:
    """A draw of Binomial(cells, P(X ≥ threshold)), X discrete Laplace of this scale: exact.

    cells      up to 2^62
    threshold  from 1 to 2^32 scales

    Inversion: the number is the k with F(k − 1) ≤ U < F(k), F its distribution function and U
    uniform on [0, 1). U is drawn bit by bit and F computed to more and more digits, until both
    are known well enough to tell k. No number is rounded into the answer: however close U is
    to an F(k), it is told apart in the end, with probability 1.
    """
    drawn, bits, digits = 0, 0, _DIGITS
    while True:
        drawn = drawn << _BITS | int(uniform.below(1 << _BITS, 1)[0])
        bits += _BITS
        number = inverted(cells, threshold, scale, drawn=drawn, bits=bits, digits=digits)
        if number is not None:
            return number
        digits *= 2


def inverted(
    cells: int, threshold: int, scale: Fraction, *, drawn: int, bits: int, digits: int
) -> int | None:
    """The k with F(k − 1) ≤ U < F(k) for every U of [drawn, drawn + 1) / 2^bits; None if
    ``digits`` (80 or more) of F do not tell.

    *Error.* Every operation of ``decimal``, exp and ln too, is within h = ½·10^(1 − digits) of
    the truth, relatively. Let N = cells and x = threshold/scale ≥ 1/scale. Then e^(−x) and
    e^(−1/scale) are within (x + 2)h of theirs, p = e^(−x)/(1 + e^(−1/scale)) < ½ within
    (2x + 6)h, 1 − p within (2x + 7)h, N·ln(1 − p) within N(2x + 10)h absolutely, F(0) =
    (1 − p)^N within N(2x + 12)h, and each further term adds at most (4x + 17)h. So F(k) is
    within (N + 2k + 2)(4x + 20)h < 10^(30 − digits) for N ≤ 2^62, x ≤ 2^32, k ≤ 2^30, far
    less than the 10^(−digits/2) that is allowed for it, and for the division of U. ∎
    """
    with localcontext(Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)):
        allowed = Decimal(10) ** -(digits // 2)
        low = Decimal(drawn) / (1 << bits) - allowed
        high = Decimal(drawn + 1) / (1 << bits) + allowed
        distance, one = _exp(threshold / scale), _exp(1 / scale)
        chance = distance / (1 + one)
        odds = chance / (1 - chance)
        term = (cells * (1 - chance).ln()).exp()
        total = Decimal(0)
        for number in range(cells):
            total += term
            if total > low:
                return number if total >= high else None
            term *= odds * (cells - number) / (number + 1)
        return cells


def _exp(exponent: Fraction) -> Decimal:
    """e^(−exponent)."""
    return (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()


def sparse_laplace(
    occupied: IntArray, scale: Fraction, *, cells: int, threshold: int, uniform: UniformIntegers
) -> IntArray:
    """Noise on every cell of a table; those that reach the threshold, (kept, 2), by key.

    occupied   int64 (m, 2): key and count of the cells that are not empty, each key once
    cells      of the whole table, up to 2^62; keys are 0 … cells − 1
    threshold  least noisy count that is kept, at least 1
    returns    int64 (kept, 2): key and noisy count

    Promise: the answer has exactly the distribution of adding independent discrete Laplace
    noise to all cells, empty ones included, and keeping those ≥ threshold. The work does not
    grow with the number of cells.

    *Proof.* Cells have independent noise, so they can be drawn apart. Occupied ones are drawn
    as they are. Of *all* cells, let those be marked whose own noise X would reach the
    threshold alone: independent, each with p = P(X ≥ threshold). Their number is
    Binomial(cells, p), and given the number every set of so many cells is as likely as any
    other: different uniform keys. Marks on occupied cells are thrown away, which changes
    nothing for the others. Given X ≥ threshold ≥ 1, P(X = threshold + m) ∝ e^(−m/scale):
    X − threshold is one-sided geometric, and needs no memory of how it got there. Sorted by
    key, the answer does not say which cells were occupied. ∎

    Source: Cormode, Procopiuc, Srivastava, Tran, "Differentially Private Summaries for Sparse
    Data" (ICDT 2012), whose geometric noise is the discrete Laplace.
    """
    noisy = saturating_sum(occupied[:, 1], laplace_noise(len(occupied), scale, uniform))
    kept = noisy >= threshold
    marked = _different(threshold_binomial(cells, threshold, scale, uniform), cells, uniform)
    empty = marked[~np.isin(marked, occupied[:, 0])]
    least = np.full(len(empty), threshold, dtype=np.int64)
    reached = saturating_sum(least, geometric_noise(len(empty), scale, uniform))
    keys = np.concatenate([occupied[kept, 0], empty])
    found = np.stack([keys, np.concatenate([noisy[kept], reached])], axis=1)
    return np.asarray(found[np.argsort(keys)], np.int64)


def _different(many: int, bound: int, uniform: UniformIntegers) -> IntArray:
    """A uniform set of ``many`` different integers below ``bound``: repeats are drawn again."""
    found: set[int] = set()
    while len(found) < many:
        # Never more than are missing, so it is as if they were drawn one by one.
        found.update(uniform.below(bound, many - len(found)).tolist())
    return np.array(sorted(found), dtype=np.int64)
