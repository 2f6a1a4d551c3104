"""Exact samplers: each draws from its distribution as it is on paper, in whole arrays. Only
integers are compared, so no rounding can tell two neighbours apart. Numbers that do not fit 64 bits
are Python integers in an object array: slower, the same formulas.

Source: Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020,
arXiv:2004.00010): Algorithm 1 is ``bernoulli_exp``, Algorithm 2 ``laplace_noise``, Algorithm 3
``gaussian_noise``. The paper draws one number in a loop; here every round of the loop is one array
operation on the draws that are still undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import IntArray

WholeNumbers = NDArray[Any]
"""int64 or unsigned integers, or Python integers (dtype object) where 64 bits are too few."""

_WIDTHS = ((2**8, np.uint16), (2**24, np.uint32), (2**63, np.uint64))
"""(largest bound, word): the narrowest word that rejects less than one draw in 256, since random
bytes from the operating system cost more than the arithmetic; above 2^55 up to half is rejected."""


@dataclass(frozen=True, slots=True)
class UniformIntegers:
    """Independent uniform integers below any bound, from a source of random bytes.

    entropy   ``entropy(n)`` returns n fresh, independent, uniform bytes

    >>> import random
    >>> UniformIntegers(random.Random(1).randbytes).below(6, 1000).max()
    np.uint16(5)
    """

    entropy: Callable[[int], bytes] = field(repr=False)

    def below(self, bound: int, size: int) -> WholeNumbers:
        """Return ``size`` integers, each uniform on 0 … bound − 1, for every bound ≥ 1.

        The array is unsigned, or holds Python integers when the bound exceeds 2^63.
        A word w of b bits becomes w // ⌊2^b / bound⌋: every result below ``bound`` comes
        from equally many words, and all other results are rejected and drawn again.
        """
        if bound == 1:
            return np.zeros(size, np.uint16)
        accepted = self._attempt(bound, size)
        while accepted.size < size:
            accepted = np.concatenate([accepted, self._attempt(bound, size - accepted.size)])
        return accepted

    def _attempt(self, bound: int, size: int) -> WholeNumbers:
        """Return the accepted of ``size`` words; whether one is does not depend on the others."""
        for largest, word in _WIDTHS:
            if bound <= largest:
                width = np.dtype(word).itemsize
                words: WholeNumbers = np.frombuffer(self.entropy(width * size), word)
                break
        else:
            width = bound.bit_length() // 8 + 2
            text = self.entropy(width * size)
            words = np.empty(size, object)
            words[:] = [
                int.from_bytes(text[start : start + width], "little")
                for start in range(0, len(text), width)
            ]
        draws = words // (256**width // bound)
        accepted: WholeNumbers = draws[draws < bound]
        return accepted


_INT64 = np.iinfo(np.int64)
_BLOCK = 1 << 16
"""Numbers drawn at a time: the working arrays of one block stay in the processor's cache."""


def laplace_noise(size: int, scale: Fraction, uniform: UniformIntegers) -> WholeNumbers:
    """Return ``size`` independent draws with P(x) ∝ exp(−|x| / scale) over all integers x.

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
    """Return ``size`` independent draws with P(x) ∝ exp(−x / scale) over the integers x ≥ 0.

    Algorithm 2 without its sign, so P(X ≥ m) = exp(−m / scale) for every integer m ≥ 0.
    """
    return _first_accepted(size, lambda proposals: _magnitudes(proposals, scale, uniform))


def refined_noise(
    first: WholeNumbers, scale: Fraction, finer: Fraction, uniform: UniformIntegers
) -> WholeNumbers:
    """Return discrete Laplace noise of a smaller scale, of which existing noise is a coarser form.

    first    noise of ``scale``, each number by itself
    finer    scale of what is returned, below ``scale``

    With q = e^(−1/scale) and p = e^(−1/finer), discrete Laplace noise of ``scale`` is Z + V for Z
    discrete Laplace of ``finer`` and V independent: 0 with probability (p/q)(1 − q)²/(1 − p)², else
    discrete Laplace of ``scale`` (characteristic functions: 1 + p² − 2p·cos t is
    (p/q)(1 + q² − 2q·cos t) + (1 − p/q)(1 − qp), divided by the first of these). What is drawn is Z
    given Z + V = z.

    *Proof.* Let z ≥ 0, t = p/q and A = p(1 − q²)/((q − p)(1 − qp)): P(Z = x | z) is in proportion
    to p^|x|·(q^|z − x|, and A more at x = z). Divided by q^z that is t^x for 0 ≤ x < z, (qp)^j at
    x = −j and t^z·(qp)^j at x = z + j, j ≥ 1, and t^z·(1 + A) at z. With c = qp/(1 − qp) the sum is
    c + 1/(1 − t) for every z, as 1 + A + c = 1/(1 − t). So: below zero with probability
    c/(c + 1/(1 − t)) = p(q − p)/(1 − p²), there −1 − geometric in qp. Else a geometric number in t:
    below z it is the answer. Else z + j with probability (1 − t)(qp)^j, j ≥ 1, which is a geometric
    number in qp that is kept with probability (1 − t)/(1 − qp), and z where it is not. Of two coins
    tossed in turn until one fails, qp and t, it is t with probability qp(1 − t)/(1 − qp·t), which
    is p(q − p)/(1 − p²); of t and q², it is t with probability (1 − t)/(1 − t·q²). ∎

    Source: Koufogiannis, Han, Pappas, "Gradual release of sensitive data under differential
    privacy" (JPC 2016), for the continuous Laplace; the discrete form is ours.
    """
    size, magnitude = first.size, np.abs(first)
    product, ratio = scale * finer / (scale + finer), scale * finer / (scale - finer)
    beyond = 1 + geometric_noise(size, product, uniform)
    below = _second_fails(size, 1 / product, 1 / ratio, uniform)
    inside = geometric_noise(size, ratio, uniform)
    steps = geometric_noise(size, product, uniform)
    is_beyond = ~_second_fails(size, 1 / ratio, 2 / scale, uniform)
    above = magnitude + np.where(is_beyond, steps, 0)
    noise = np.where(below, -beyond, np.where(inside < magnitude, inside, above))
    return np.asarray(np.where(first < 0, -noise, noise))


def _second_fails(
    size: int, first: Fraction, second: Fraction, uniform: UniformIntegers
) -> NDArray[np.bool_]:
    """Return whether of two coins that fall True with probability exp(−first) and exp(−second),
    tossed in turn until one falls False, the second does; ``size`` times.
    """
    answer = np.zeros(size, np.bool_)
    running = np.arange(size)
    while running.size:
        running = running[_toss(running.size, first, uniform)]
        came_true = _toss(running.size, second, uniform)
        answer[running[~came_true]] = True
        running = running[came_true]
    return answer


def _toss(size: int, exponent: Fraction, uniform: UniformIntegers) -> NDArray[np.bool_]:
    """Return True with probability exp(−exponent), ``size`` times."""
    wide = max(exponent.numerator, exponent.denominator) > _INT64.max
    numerators = np.full(size, exponent.numerator, object if wide else np.int64)
    return bernoulli_exp_of_any(numerators, exponent.denominator, uniform)


_RADII = 16
"""Proposed at a time: one array operation takes as long for a few numbers as for one."""


def linf_noise(size: int, scale: Fraction, uniform: UniformIntegers) -> WholeNumbers:
    """Return ``size`` integers together, z, with P(z) ∝ exp(−max |z_i| / scale) over all of ℤ^size.

    A radius R with P(r) ∝ (2r + 1)^size · e^(−r/scale), then z uniform in {−R..R}^size: so
    P(z) ∝ Σ over r ≥ max |z_i| of e^(−r/scale), which is e^(−max |z_i|/scale) times a constant. ∎

    The radius: a sum of size + 1 geometric numbers has P(r) ∝ Π (r + i) · e^(−r/scale), i = 1 …
    size, and is kept with probability Π (2r + 1)/(2r + 2i) ≤ 1. One uniform whole number below
    the product of the denominators decides that exactly. About e^(−size/(2·scale)) are kept.

    The array is int64 unless the radius is too large for it.

    >>> import random
    >>> noise = linf_noise(5, Fraction(1, 100), UniformIntegers(random.Random(1).randbytes))
    >>> noise.tolist()
    [0, 0, 0, 0, 0]
    """
    if not size:
        return np.zeros(0, np.int64)
    radius = next(_accepted_radii(size, scale, uniform))
    places = uniform.below(2 * radius + 1, size)
    if radius > _INT64.max // 2:
        return np.asarray(places.astype(object) - radius)
    return np.asarray(places.astype(np.int64) - radius)


def _accepted_radii(size: int, scale: Fraction, uniform: UniformIntegers) -> Iterator[int]:
    """Yield proposed radii that are accepted, one after the other."""
    while True:
        proposed = geometric_noise(_RADII * (size + 1), scale, uniform).reshape(_RADII, -1)
        for numbers in proposed:
            radius = sum(numbers.tolist())
            bound = math.prod(2 * radius + 2 * i for i in range(1, size + 1))
            if int(uniform.below(bound, 1)[0]) < (2 * radius + 1) ** size:
                yield radius


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
    """Return counts + noise, cut to what int64 holds.

    The exact sum is what is private; cutting it afterwards is post-processing.
    """
    if noise.dtype == np.int64 and _largest(counts) + _largest(noise) <= _INT64.max:
        return np.asarray(counts + noise, np.int64)
    total = np.clip(counts.astype(object) + noise, int(_INT64.min), int(_INT64.max))
    return np.asarray(total, np.int64)


def bernoulli_exp(
    numerators: WholeNumbers, denominator: int, uniform: UniformIntegers
) -> NDArray[np.bool_]:
    """Return True with probability exp(−n / denominator), for each numerator n with 0 ≤ n ≤
    denominator (Algorithm 1).

    Round k goes on with probability numerator / (denominator · k), and the answer is whether the
    last round is odd. The two factors are drawn apart: denominator · k need not fit 64 bits.
    """
    answer = np.zeros(numerators.size, np.bool_)
    undecided = np.arange(numerators.size)
    k = 1
    while undecided.size:
        goes_on = uniform.below(denominator, numerators.size) < numerators
        if k > 1:
            goes_on &= uniform.below(k, numerators.size) == 0
        # Right for those that stop here; the others are overwritten in the round where they stop.
        answer[undecided] = goes_on == (k % 2 == 0)
        still = np.flatnonzero(goes_on)
        undecided, numerators = undecided[still], numerators[still]
        k += 1
    return answer


def _magnitudes(proposals: int, scale: Fraction, uniform: UniformIntegers) -> WholeNumbers:
    """Return at most ``proposals`` draws of the one-sided geometric: ⌊(U + n·V) / d⌋, scale = n /
    d.

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
    """Return how often exp(−1) comes true before it first does not: P(v) ∝ e^(−v)."""
    counts = np.zeros(size, np.int64)
    running = np.arange(size)
    while running.size:
        came_true = bernoulli_exp(np.ones(running.size, np.uint16), 1, uniform)
        running = running[np.flatnonzero(came_true)]
        counts[running] += 1
    return counts


def _signed(magnitudes: WholeNumbers, negative: NDArray[np.bool_]) -> WholeNumbers:
    """Return magnitudes with signs, without those that would be "−0"."""
    is_valid = ~negative | (magnitudes > 0)
    magnitudes = magnitudes[is_valid]
    return np.where(negative[is_valid], -magnitudes, magnitudes)


def _first_accepted(size: int, attempt: Callable[[int], WholeNumbers]) -> WholeNumbers:
    """Return the first ``size`` accepted draws of independent proposals, block by block.

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
    """Return the largest absolute value as a Python integer; 0 of nothing."""
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))


def bernoulli_exp_of_any(
    numerators: WholeNumbers, denominator: int, uniform: UniformIntegers
) -> NDArray[np.bool_]:
    """Return True with probability exp(−n / denominator), for each numerator n ≥ 0, however large.

    numerators   int64, or Python integers (dtype object) where they or the denominator are large

    Canonne, Kamath, Steinke 2020, Algorithm 1 for γ > 1: exp(−γ) is exp(−1) as often as γ has
    whole units, times exp(−rest). One unit is drawn for all at a time, and the first that fails
    decides: about ln(size) rounds, even if every γ is astronomical.
    """
    answer = np.ones(numerators.size, np.bool_)
    units = numerators // denominator
    running = np.flatnonzero(units > 0)
    while running.size:
        came_true = bernoulli_exp(np.ones(running.size, np.uint16), 1, uniform)
        answer[running[~came_true]] = False
        running = running[came_true]
        units[running] -= 1
        running = running[units[running] > 0]
    undecided = np.flatnonzero(answer)
    answer[undecided] = bernoulli_exp(numerators[undecided] % denominator, denominator, uniform)
    return answer


def gaussian_noise(size: int, sigma2: Fraction, uniform: UniformIntegers) -> WholeNumbers:
    """Return ``size`` independent draws with P(x) ∝ exp(−x² / (2·sigma2)) over all integers x.

    Algorithm 3. With t = ⌊σ⌋ + 1, a discrete Laplace y of scale t is kept with probability
    exp(−(|y| − σ²/t)² / (2σ²)). Multiplied out, exp(−|y|/t) times this is exp(−y²/(2σ²)) times
    exp(−σ²/(2t²)), which is the same for every y: what is kept has the right distribution.
    At least 0.44 of the proposals are kept, whatever σ² is.

    About 0.5 µs a number; 1 to 2 µs where a σ² of many digits needs Python integers.
    The array is int64 unless a draw is too large for it (σ above 2^60, or as good as never).

    >>> import random
    >>> uniform = UniformIntegers(random.Random(1).randbytes)
    >>> noise = gaussian_noise(100_000, Fraction(7, 3), uniform)
    >>> noise.dtype, bool(abs(noise.mean()) < 0.05), bool(abs(noise.var() - 7 / 3) < 0.1)
    (dtype('int64'), True, True)
    """
    scale = Fraction(math.isqrt(math.floor(sigma2)) + 1)
    parts: list[WholeNumbers] = [np.zeros(0, np.int64)]
    while size > 0:
        proposed = laplace_noise(2 * min(size, _BLOCK) + 16, scale, uniform)
        parts.append(_accepted_gaussian(proposed, sigma2, int(scale), uniform)[:size])
        size -= parts[-1].size
    return np.asarray(np.concatenate(parts))


def _accepted_gaussian(
    proposed: WholeNumbers, sigma2: Fraction, t: int, uniform: UniformIntegers
) -> WholeNumbers:
    """Return those of the draws y that pass with probability exp(−(|y| − σ²/t)² / (2σ²)).

    In integers, with σ² = n / d, the exponent is (|y|·d·t − n)² / (2·n·d·t²).
    """
    n, d = sigma2.numerator, sigma2.denominator
    magnitudes = np.abs(proposed)
    denominator = 2 * n * d * t * t
    largest = int(magnitudes.max(initial=0)) * d * t + n
    if max(largest * largest, denominator, d * t) > np.iinfo(np.int64).max:
        magnitudes = magnitudes.astype(object)
    distances: WholeNumbers = magnitudes * (d * t) - n
    return proposed[bernoulli_exp_of_any(distances * distances, denominator, uniform)]


_BATCH = 1 << 12
"""Proposals at a time: many enough for NumPy, few enough where every proposal is a good one."""


def exponential_choice(scores: IntArray, scale: Fraction, uniform: UniformIntegers) -> int:
    """Return an index i with P(i) = exp(scores_i / scale) / Σ_j exp(scores_j / scale).

    scores   int64, at least one; ``gate.mechanisms.choose_exponential`` says what the choice costs

    Rejection: propose an index uniformly, accept it with probability exp(−(max − score) / scale),
    and answer the first that is accepted.

    Proof. A proposal is index i *and* accepted with probability exp(−(max − scores_i)/scale)/m,
    for m candidates. Proposals are independent and alike, so given that one is the first to be
    accepted it is i with probability proportional to this, that is to exp(scores_i / scale):
    max and m are the same for every i. Drawing proposals in batches and reading them in order
    changes nothing, since what follows the first accepted one is thrown away. ∎

    The largest score accepts whenever it is proposed: m proposals are expected at most, even
    where one candidate has all the probability. About 3 ms for 4,000 candidates, 50 ms for 10^5.
    """
    gaps = _gaps(scores, scale)
    batch = min(scores.size, _BATCH)
    while True:
        proposed = uniform.below(scores.size, batch)
        accepted = bernoulli_exp_of_any(gaps[proposed], scale.numerator, uniform)
        first = np.flatnonzero(accepted)[:1]
        if first.size:
            return int(proposed[first[0]])


def _gaps(scores: IntArray, scale: Fraction) -> WholeNumbers:
    """Return (max − score) · d of every candidate, scale = n / d; int64 where they and n fit."""
    top, bottom = int(scores.max()), int(scores.min())
    if max((top - bottom) * scale.denominator, scale.numerator) > np.iinfo(np.int64).max:
        wide: WholeNumbers = (top - scores.astype(object)) * scale.denominator
        return wide
    return np.asarray((top - scores) * scale.denominator)


MAX_CELLS = 1 << 62
"""Keys of cells are int64."""

MAX_THRESHOLD_SCALES = 1 << 32
"""A threshold of more scales is no threshold: nothing empty would ever reach it."""

_DIGITS = 80
_BITS = 128


def expected_above_threshold(cells: int, threshold: int, scale: Fraction) -> float:
    """Return the empty cells that reach ``threshold`` on average: cells · P(X ≥ threshold).

    X is discrete Laplace noise, so with q = e^(−1/scale) the chance is q^threshold / (1 + q).

    >>> round(expected_above_threshold(1000, 1, Fraction(1)), 1)
    268.9
    """
    return cells * exp(-threshold / scale) / (1 + exp(-1 / scale))


def threshold_binomial(
    cells: int, threshold: int, scale: Fraction, uniform: UniformIntegers
) -> int:
    """Return a draw of Binomial(cells, P(X ≥ threshold)), X discrete Laplace of this scale: exact.

    cells      up to 2^62
    threshold  from 1 to 2^32 scales

    Inversion: the number is the k with F(k − 1) ≤ U < F(k), F its distribution function and U
    uniform on [0, 1). U is drawn bit by bit and F computed to more and more digits, until both
    are known well enough to tell k. No number is rounded into the answer: however close U is
    to an F(k), it is told apart in the end, with probability 1.
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
    """Return the k with F(k − 1) ≤ U < F(k) for every U of [u, u + 1) / 2^bits; None if
    ``digits`` (80 or more) of F do not decide.

    uniform_bits   u

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
    """Return e^(−exponent)."""
    return (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()


def sparse_laplace(
    occupied: IntArray, scale: Fraction, *, cells: int, threshold: int, uniform: UniformIntegers
) -> IntArray:
    """Return noise on every cell of a table; those that reach the threshold, (kept, 2), by key.

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
    """Return a uniform set of ``size`` different integers below ``bound``; repeats are redrawn."""
    keys: set[int] = set()
    while len(keys) < size:
        # Never more than are missing, so it is as if they were drawn one by one.
        keys.update(uniform.below(bound, size - len(keys)).tolist())
    return np.array(sorted(keys), dtype=np.int64)
