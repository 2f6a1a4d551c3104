"""Exact discrete Laplace noise on all cells of a sparse table, in time of the cells that pass."""

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from math import exp

import numpy as np

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.gate.samplers import (
    UniformIntegers,
    geometric_noise,
    laplace_noise,
    saturating_sum,
)

MAX_CELLS = 1 << 62
"""Cells of a sparse table, at most, so that a key fits int64."""

MAX_THRESHOLD_SCALES = 1 << 32
"""Largest threshold in scales of the noise; no empty cell would ever reach a higher one."""

_DIGITS = 80
_BITS = 128


def expected_above_threshold(cells: int, threshold: int, scale: Fraction) -> float:
    """Return the mean number of empty cells that reach ``threshold``: cells · P(X ≥ threshold).

    X is discrete Laplace noise, so with q = e^(−1/scale) the chance is q^threshold / (1 + q).

    >>> round(expected_above_threshold(1000, 1, Fraction(1)), 1)
    268.9
    """
    return cells * exp(-threshold / scale) / (1 + exp(-1 / scale))


def threshold_binomial(
    cells: int, threshold: int, scale: Fraction, uniform: UniformIntegers
) -> int:
    """Return an exact draw of the number of ``cells`` whose noise reaches ``threshold``, that is
    from Binomial(cells, P(X ≥ threshold)), X discrete Laplace noise of ``scale``.

    cells      up to 2^62
    threshold  from 1 to 2^32 scales

    Inversion: the number is the k with F(k − 1) ≤ U < F(k), F its distribution function and U
    uniform on [0, 1). U is drawn bit by bit and F computed to more and more digits, until both
    are known well enough to decide k, which happens with probability 1. No rounding enters it.
    """
    uniform_bits, bits, digits = 0, 0, _DIGITS
    while True:
        uniform_bits = uniform_bits << _BITS | int(uniform.below(1 << _BITS, 1)[0])
        bits += _BITS
        number = invert_distribution(
            cells, threshold, scale, uniform_bits=uniform_bits, bits=bits, digits=digits
        )
        if number is not None:
            return number
        digits *= 2


def invert_distribution(
    cells: int, threshold: int, scale: Fraction, *, uniform_bits: int, bits: int, digits: int
) -> int | None:
    """Return the binomial draw k, F(k − 1) ≤ U < F(k); None if ``digits`` of F do not decide it.

    cells, threshold, scale   as for ``threshold_binomial``, whose F this is
    uniform_bits   u: k is the same for every U of [u, u + 1) / 2^bits
    digits         80 or more

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
        low = Decimal(uniform_bits) / (1 << bits) - allowed
        high = Decimal(uniform_bits + 1) / (1 << bits) + allowed
        distance, next_chance = _exp(threshold / scale), _exp(1 / scale)
        chance = distance / (1 + next_chance)
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
    return (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()


def sparse_laplace(
    occupied: IntArray, scale: Fraction, *, cells: int, threshold: int, uniform: UniformIntegers
) -> IntArray:
    """Return the cells of a sparse table whose noisy count reaches a threshold, ascending by key.

    occupied   int64 (m, 2): key and count of the cells that are not empty, each key once
    cells      of the whole table, up to 2^62; keys are 0 … cells − 1
    threshold  least noisy count that is returned, at least 1
    returns    int64 (m', 2): key and noisy count

    The answer has exactly the distribution of independent discrete Laplace noise on all cells,
    empty ones included. The work does not grow with the number of cells.

    *Proof.* Cells have independent noise, so they can be drawn apart. Occupied ones are drawn
    directly. Of *all* cells, mark those whose noise X alone reaches the threshold: independently,
    each with p = P(X ≥ threshold). Their number is Binomial(cells, p), and given the number every
    set of so many cells is as likely as any other: different uniform keys. Marks on occupied cells
    are thrown away, which changes nothing for the others. Given X ≥ threshold ≥ 1, P(X = threshold
    + m) ∝ e^(−m/scale): X − threshold is one-sided geometric, and needs no memory of how it got
    there. Sorted by key, the answer does not say which cells were occupied. ∎

    Source: Cormode, Procopiuc, Srivastava, Tran, "Differentially Private Summaries for Sparse
    Data" (ICDT 2012), whose geometric noise is the discrete Laplace.
    """
    noisy = saturating_sum(occupied[:, 1], laplace_noise(len(occupied), scale, uniform))
    is_kept = noisy >= threshold
    marked_keys = _sample_distinct(
        threshold_binomial(cells, threshold, scale, uniform), cells, uniform
    )
    empty = marked_keys[~np.isin(marked_keys, occupied[:, 0])]
    least = np.full(len(empty), threshold, dtype=np.int64)
    reached = saturating_sum(least, geometric_noise(len(empty), scale, uniform))
    keys = np.concatenate([occupied[is_kept, 0], empty])
    cells_above = np.stack([keys, np.concatenate([noisy[is_kept], reached])], axis=1)
    return np.asarray(cells_above[np.argsort(keys)], np.int64)


def _sample_distinct(size: int, bound: int, uniform: UniformIntegers) -> IntArray:
    keys: set[int] = set()
    while len(keys) < size:
        # Never more than are missing: the same as drawing them one by one.
        keys.update(uniform.below(bound, size - len(keys)).tolist())
    return np.array(sorted(keys), dtype=np.int64)
