"""Square roots of exact numbers, rounded upwards."""

from __future__ import annotations

import math
from fractions import Fraction


def root_at_least(square: Fraction) -> Fraction:
    """A short Fraction r with r² ≥ square > 0, above the root by less than one part in 10^9.

    r is N / 2^k with 2^30 ≤ N ≤ 2^32, the smallest such N whose square is large enough: one step
    less would be below the root, so r exceeds it by less than 1 / 2^k = r / N. It is a float
    without rounding, unless too small for one.

    >>> root_at_least(Fraction(4)), float(root_at_least(Fraction(2)))
    (Fraction(2, 1), 1.4142135623842478)
    """
    # 2^(bits − 1) < square < 2^(bits + 1), so square · 4^k is from 2^60 to 2^63.
    bits = square.numerator.bit_length() - square.denominator.bit_length()
    k = (62 - bits) // 2
    least = math.isqrt(math.ceil(square * Fraction(4) ** k) - 1) + 1
    return least / Fraction(2) ** k
