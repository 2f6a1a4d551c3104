"""The sum of several discrete Laplace numbers: its tail, exactly, and a margin that it keeps."""

from __future__ import annotations

from fractions import Fraction
from math import comb, exp, expm1, fsum, inf, log, log1p

import numpy as np

from dp_pipeline.schema.encoding import FloatArray

ROUNDING = 1e-9
"""The tail is taken this much larger, relatively: more than the floats can be off."""


def tail_of_sum(terms: int, scale: Fraction, above: int) -> float:
    """P(S > above), S the sum of C = ``terms`` independent numbers with P(x) ∝ exp(−|x|/scale).

    above   at least 0

    With q = e^(−1/scale), S = X − Y: X and Y are sums of C geometric numbers each, of generating
    functions u^C and v^C, u = (1 − q)/(1 − qz), v = (1 − q)/(1 − q/z). Multiplying out,
    u·v = (qz·u + v)/(1 + q): a factor v goes for a step z with probability q/(1 + q), or a factor
    u goes with 1/(1 + q), until one kind is used up. So S is C + (a sum of i geometric numbers)
    where i factors u are left, and k − (a sum of C − k of them) after k steps where none is.
    This is the convolution, of terms that are all positive: nothing cancels, and no array is as
    long as the scale is large.

    >>> round(tail_of_sum(1, Fraction(1), 0), 6), round(tail_of_sum(2, Fraction(3), 4), 6)
    (0.268941, 0.193303)
    """
    rate = float(1 / scale)
    stay = -log1p(exp(-rate))
    step = stay - rate
    with_u_left = [
        _log_comb(2 * terms - left - 1, terms - 1)
        + terms * step
        + (terms - left) * stay
        + _log_above(left, rate, above - terms)
        for left in range(1, terms + 1)
    ]
    with_v_left = [
        _log_comb(terms - 1 + steps, steps)
        + steps * step
        + terms * stay
        + _log_at_most(terms - steps, rate, steps - above - 1)
        for steps in range(above + 1, terms)
    ]
    return fsum(exp(one) for one in (*with_u_left, *with_v_left))


def margin_of_sum(terms: int, scale: Fraction, *, most: Fraction) -> int:
    """The smallest whole t ≥ 0 with P(S > t) ≤ ``most``; see ``tail_of_sum``.

    Twice the margin of one number, 2·scale·ln(1/most), is too little where there are many: ten
    pass it with a probability of .089, not .05.

    >>> margin_of_sum(2, Fraction(10), most=Fraction(1, 20))
    33
    """

    def is_enough(margin: int) -> bool:
        return tail_of_sum(terms, scale, margin) * (1 + ROUNDING) <= most

    high = 0
    while not is_enough(high):
        high = 2 * high + 1
    low = (high - 1) // 2
    # What was tried last was too little; of 0 there is no less.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _log_above(terms: int, rate: float, above: int) -> float:
    """ln P(G > above) of a sum G of so many geometric numbers, P(x) = (1 − q)q^x: fewer than
    ``terms`` successes in above + terms trials.
    """
    if above < 0:
        return 0.0
    trials, successes = above + terms, np.arange(terms)
    ways = _running_sum(np.log((trials - successes[1:] + 1) / successes[1:]))
    return _log_sum(ways + successes * _log_success(rate) - (trials - successes) * rate)


def _log_at_most(terms: int, rate: float, most: int) -> float:
    """ln P(G ≤ most) of the same sum, for few values: one by one."""
    if most < 0:
        return -inf
    failures = np.arange(most + 1)
    ways = _running_sum(np.log((failures[1:] + terms - 1) / failures[1:]))
    return terms * _log_success(rate) + _log_sum(ways - failures * rate)


def _running_sum(logs: FloatArray) -> FloatArray:
    """The sums of the first 0, 1, … numbers."""
    return np.concatenate([[0.0], np.cumsum(logs)])


def _log_sum(logs: FloatArray) -> float:
    """ln Σ e^x."""
    most = float(logs.max())
    return most + log(float(np.exp(logs - most).sum()))


def _log_success(rate: float) -> float:
    """ln(1 − q)."""
    return log(-expm1(-rate))


def _log_comb(n: int, k: int) -> float:
    return log(comb(n, k))
