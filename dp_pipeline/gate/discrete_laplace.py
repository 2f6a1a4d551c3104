"""Discrete Laplace and one-sided geometric noise, exact for every rational scale, in whole arrays.

Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020,
arXiv:2004.00010): Algorithm 1 is ``bernoulli_exp``, Algorithm 2 is ``laplace_noise``. The paper
draws one number in a loop; here every round of the loop is one array operation on the draws that
are still undecided. Only integers are compared, so no rounding can tell two neighbours apart.
Numbers that do not fit 64 bits are Python integers in an object array: slower, the same formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.gate.words import UniformIntegers, WholeNumbers

IntArray = NDArray[np.int64]

_INT64 = np.iinfo(np.int64)
_BLOCK = 1 << 16
"""Numbers drawn at a time: the working arrays of one block stay in the processor's cache."""


def laplace_noise(size: int, scale: Fraction, uniform: UniformIntegers) -> WholeNumbers:
    """``size`` independent draws with P(x) ∝ exp(−|x| / scale) over all integers x.

    Algorithm 2: a one-sided geometric magnitude with a fair sign, where "−0" is rejected, or
    else 0 would be twice as likely as it should be.
    The array is int64 unless a draw is too large for it (probability below e^(−2^63 / scale)).

    >>> import random
    >>> uniform = UniformIntegers(random.Random(1).randbytes)
    >>> noise = laplace_noise(100_000, Fraction(7, 3), uniform)
    >>> noise.dtype, bool(abs(noise.mean()) < 0.1), bool(abs(noise.std() - 3.27) < 0.1)
    (dtype('int64'), True, True)
    """

    def attempt(proposals: int) -> WholeNumbers:
        magnitudes = _magnitudes(proposals, scale, uniform)
        return _signed(magnitudes, uniform.below(2, magnitudes.size) == 1)

    return _first_accepted(size, attempt)


def geometric_noise(size: int, scale: Fraction, uniform: UniformIntegers) -> WholeNumbers:
    """``size`` independent draws with P(x) ∝ exp(−x / scale) over the integers x ≥ 0.

    Algorithm 2 without its sign, so P(X ≥ m) = exp(−m / scale) for every integer m ≥ 0.
    """
    return _first_accepted(size, lambda proposals: _magnitudes(proposals, scale, uniform))


def noisy_argmax(scores: IntArray, scale: Fraction, uniform: UniformIntegers) -> int:
    """Report noisy max: the index of the largest score + geometric noise, ties to the lowest.

    Promise: if no score moves by more than Δ between neighbours, the index is 2Δ/scale-DP.

    Proof. Write X for the noise of one candidate and s for the scale.
    (1) P(X ≥ m + t) ≥ e^(−t/s) · P(X ≥ m) for all integers m and t ≥ 0. If m ≥ 0 both sides are
    e^(−(m+t)/s). If m < 0, then P(X ≥ m) = 1 and P(X ≥ m + t) = e^(−max(m+t, 0)/s) ≥ e^(−t/s).
    (2) Fix the noise x of all candidates but i. Index i is returned exactly if its noisy score is
    strictly above those before it and not below those after it; in integers, exactly if X_i ≥ m,
    m = max( max over j < i of scores_j + x_j + 1 , max over j > i of scores_j + x_j ) − scores_i.
    The tie-break is in the +1, which is the same for both neighbours.
    (3) Between neighbours each term of the maximum moves by at most Δ, hence the maximum does,
    and scores_i moves by at most Δ: m' ≤ m + 2Δ. With (1), given x,
    P'(i | x) = P(X ≥ m') ≥ P(X ≥ m + 2Δ) ≥ e^(−2Δ/s) · P(i | x). Averaging over x, whose
    distribution is the same for both neighbours, gives P'(i) ≥ e^(−2Δ/s) · P(i). ∎
    (With a single candidate the index is constant.) No monotonicity is used, so none is needed.

    The sums are Python integers: a score cut at the end of int64 would break step (2).
    """
    noise = geometric_noise(scores.size, scale, uniform)
    return int(np.argmax(scores.astype(object) + noise))


def saturating_sum(counts: IntArray, noise: WholeNumbers) -> IntArray:
    """counts + noise, cut to what int64 holds.

    The exact sum is what is private; cutting it afterwards is post-processing.
    """
    if noise.dtype == np.int64 and _largest(counts) + _largest(noise) <= _INT64.max:
        return np.asarray(counts + noise, np.int64)
    total = np.clip(counts.astype(object) + noise, int(_INT64.min), int(_INT64.max))
    return np.asarray(total, np.int64)


def bernoulli_exp(part: WholeNumbers, whole: int, uniform: UniformIntegers) -> NDArray[np.bool_]:
    """True with probability exp(−part / whole), for each 0 ≤ part ≤ whole (Algorithm 1).

    Round k goes on with probability part / (whole · k), and the answer is whether the round
    that stops is odd. The two factors are drawn apart, so whole · k need not fit 64 bits.
    """
    answer = np.zeros(part.size, np.bool_)
    undecided = np.arange(part.size)
    k = 1
    while undecided.size:
        goes_on = uniform.below(whole, part.size) < part
        if k > 1:
            goes_on &= uniform.below(k, part.size) == 0
        # Right for those that stop here; the others are overwritten in the round where they stop.
        answer[undecided] = goes_on == (k % 2 == 0)
        still = np.flatnonzero(goes_on)
        undecided, part = undecided[still], part[still]
        k += 1
    return answer


def _magnitudes(proposals: int, scale: Fraction, uniform: UniformIntegers) -> WholeNumbers:
    """At most ``proposals`` draws of the one-sided geometric: ⌊(U + n·V) / d⌋, scale = n / d.

    U + n·V is geometric with scale n: U carries exp(−U/n) by rejection, V counts whole factors
    e^(−1). Dividing by d and rounding down makes it geometric with scale n / d.
    """
    n, d = scale.numerator, scale.denominator
    low = uniform.below(n, proposals)
    low = low[bernoulli_exp(low, n, uniform)]
    high = _successes(low.size, uniform)
    if n * (_largest(high) + 1) <= _INT64.max and d <= _INT64.max:
        return np.asarray((low.astype(np.int64) + n * high) // d)
    exact: WholeNumbers = (low.astype(object) + n * high.astype(object)) // d
    return exact.astype(np.int64) if _largest(exact) <= _INT64.max else exact


def _successes(size: int, uniform: UniformIntegers) -> IntArray:
    """How often exp(−1) comes true before it first does not: P(v) ∝ e^(−v)."""
    counts = np.zeros(size, np.int64)
    running = np.arange(size)
    while running.size:
        came_true = bernoulli_exp(np.ones(running.size, np.uint16), 1, uniform)
        running = running[np.flatnonzero(came_true)]
        counts[running] += 1
    return counts


def _signed(magnitudes: WholeNumbers, negative: NDArray[np.bool_]) -> WholeNumbers:
    """Magnitudes with signs, without those that would be "−0"."""
    kept = ~negative | (magnitudes > 0)
    magnitudes = magnitudes[kept]
    return np.where(negative[kept], -magnitudes, magnitudes)


def _first_accepted(size: int, attempt: Callable[[int], WholeNumbers]) -> WholeNumbers:
    """The first ``size`` accepted draws of independent proposals, block by block.

    At least 1 − 1/e of the proposals are accepted, or a little less for a scale near 0:
    7/4 of what is missing is mostly enough in one attempt.
    """
    parts: list[WholeNumbers] = [np.zeros(0, np.int64)]
    while size > 0:
        block = min(size, _BLOCK)
        parts.append(attempt(block * 7 // 4 + 16)[:block])
        size -= parts[-1].size
    return np.asarray(np.concatenate(parts))


def _largest(numbers: WholeNumbers) -> int:
    """The largest absolute value as a Python integer; 0 of nothing."""
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
