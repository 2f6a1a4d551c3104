"""Exact samplers of discrete noise, in whole arrays.

Only integers are compared, so no rounding can tell two neighbours apart. Numbers that do not fit 64
bits are Python integers in an object array: slower, with the same formulas.

Source: Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020,
arXiv:2004.00010): Algorithm 1 is ``bernoulli_exp``, Algorithm 2 ``laplace_noise``, Algorithm 3
``gaussian_noise``. Every round of the paper's loop is one array operation on the undecided draws.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
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
    """A source of independent uniform integers below any bound, made from random bytes.

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
        """Return uniform integers below ``bound`` from ``size`` random words; some are rejected."""
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
        negative: NDArray[np.bool_] = uniform.below(2, magnitudes.size) == 1
        is_valid = ~negative | (magnitudes > 0)
        magnitudes = magnitudes[is_valid]
        return np.where(negative[is_valid], -magnitudes, magnitudes)

    return _first_accepted(size, attempt)


def geometric_noise(size: int, scale: Fraction, uniform: UniformIntegers) -> WholeNumbers:
    """Return ``size`` independent draws with P(x) ∝ exp(−x / scale) over the integers x ≥ 0.

    Algorithm 2 without its sign, so P(X ≥ m) = exp(−m / scale) for every integer m ≥ 0.
    """
    return _first_accepted(size, lambda proposals: _magnitudes(proposals, scale, uniform))


def refined_noise(
    first: WholeNumbers, scale: Fraction, finer: Fraction, uniform: UniformIntegers
) -> WholeNumbers:
    """Return discrete Laplace noise of the smaller scale ``finer``, drawn conditionally on noise of
    a larger scale.

    first    independent discrete Laplace noise of ``scale``
    finer    scale of the returned noise, below ``scale``

    With q = e^(−1/scale) and p = e^(−1/finer), discrete Laplace noise of ``scale`` is Z + V for Z
    discrete Laplace of ``finer`` and V independent: 0 with probability (p/q)(1 − q)²/(1 − p)², else
    discrete Laplace of ``scale`` (characteristic functions: 1 + p² − 2p·cos t is
    (p/q)(1 + q² − 2q·cos t) + (1 − p/q)(1 − qp), divided by the first of these). This draws Z given
    Z + V = z.

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
    """Toss two coins in turn until one shows False; return whether it is the second, (size,).

    first, second   the coins show True with probability exp(−first) and exp(−second)
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
    """Return ``size`` booleans, each True with probability exp(−exponent)."""
    wide = max(exponent.numerator, exponent.denominator) > _INT64.max
    numerators = np.full(size, exponent.numerator, object if wide else np.int64)
    return bernoulli_exp_of_any(numerators, exponent.denominator, uniform)


_RADII = 16
"""Radii proposed at a time: an array operation takes as long for a few numbers as for one."""


def linf_noise(size: int, scale: Fraction, uniform: UniformIntegers) -> WholeNumbers:
    """Return an integer vector z with P(z) ∝ exp(−max |z_i| / scale) over all of ℤ^size.

    A radius R with P(r) ∝ (2r + 1)^size · e^(−r/scale), then z uniform in {−R..R}^size: so
    P(z) ∝ Σ over r ≥ max |z_i| of e^(−r/scale), which is e^(−max |z_i|/scale) times a constant. ∎

    The radius: a sum of size + 1 geometric numbers has P(r) ∝ Π (r + i) · e^(−r/scale), i = 1 …
    size, and is accepted with probability Π (2r + 1)/(2r + 2i) ≤ 1. One uniform integer below the
    product of the denominators decides that exactly. About e^(−size/(2·scale)) are accepted.

    >>> import random
    >>> noise = linf_noise(5, Fraction(1, 100), UniformIntegers(random.Random(1).randbytes))
    >>> noise.tolist()
    [0, 0, 0, 0, 0]
    """
    if not size:
        return np.zeros(0, np.int64)
    radius = _draw_radius(size, scale, uniform)
    places = uniform.below(2 * radius + 1, size)
    if radius > _INT64.max // 2:
        return np.asarray(places.astype(object) - radius)
    return np.asarray(places.astype(np.int64) - radius)


def _draw_radius(size: int, scale: Fraction, uniform: UniformIntegers) -> int:
    while True:
        proposed = geometric_noise(_RADII * (size + 1), scale, uniform).reshape(_RADII, -1)
        for numbers in proposed:
            radius = int(sum(numbers.tolist()))
            bound = math.prod(2 * radius + 2 * i for i in range(1, size + 1))
            if int(uniform.below(bound, 1)[0]) < (2 * radius + 1) ** size:
                return radius


def noisy_argmax(scores: IntArray, scale: Fraction, uniform: UniformIntegers) -> int:
    """Return the index of the largest score + geometric noise (noisy max), the lowest of equals.

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
    """Return counts + noise, clipped to the range of int64.

    The exact sum is what is private; cutting it afterwards is post-processing.
    """
    if noise.dtype == np.int64 and max_abs(counts) + max_abs(noise) <= _INT64.max:
        return np.asarray(counts + noise, np.int64)
    total = np.clip(counts.astype(object) + noise, int(_INT64.min), int(_INT64.max))
    return np.asarray(total, np.int64)


def bernoulli_exp(
    numerators: WholeNumbers, denominator: int, uniform: UniformIntegers
) -> NDArray[np.bool_]:
    """Return a boolean for each numerator n, True with probability exp(−n / denominator).

    Algorithm 1, for 0 ≤ n ≤ denominator: round k goes on with probability n / (denominator · k),
    and the answer is whether the last round is odd. Both factors are drawn apart: denominator · k
    need not fit 64 bits.
    """
    answer = np.zeros(numerators.size, np.bool_)
    undecided = np.arange(numerators.size)
    k = 1
    while undecided.size:
        goes_on = uniform.below(denominator, numerators.size) < numerators
        if k > 1:
            goes_on &= uniform.below(k, numerators.size) == 0
        # Final for draws that stop here; the others are overwritten in the round where they stop.
        answer[undecided] = goes_on == (k % 2 == 0)
        still = np.flatnonzero(goes_on)
        undecided, numerators = undecided[still], numerators[still]
        k += 1
    return answer


def _magnitudes(proposals: int, scale: Fraction, uniform: UniformIntegers) -> WholeNumbers:
    """Return draws of geometric noise of ``scale``, ⌊(U + n·V) / d⌋: the accepted ones of
    ``proposals``, about 1 − 1/e of them.

    With scale = n / d, U + n·V is geometric with scale n: U has probability ∝ exp(−U/n) by
    rejection, V counts whole factors e^(−1). Dividing by d and rounding down gives scale n / d.
    """
    n, d = scale.numerator, scale.denominator
    low = uniform.below(n, proposals)
    low = low[bernoulli_exp(low, n, uniform)]
    # V of each is the number of successes of probability e^(−1) before a failure.
    high = np.zeros(low.size, np.int64)
    running = np.arange(low.size)
    while running.size:
        came_true = bernoulli_exp(np.ones(running.size, np.uint16), 1, uniform)
        running = running[np.flatnonzero(came_true)]
        high[running] += 1
    if n * (max_abs(high) + 1) <= _INT64.max and d <= _INT64.max:
        return np.asarray((low.astype(np.int64) + n * high) // d)
    exact: WholeNumbers = (low.astype(object) + n * high.astype(object)) // d
    return exact.astype(np.int64) if max_abs(exact) <= _INT64.max else exact


def _first_accepted(size: int, attempt: Callable[[int], WholeNumbers]) -> WholeNumbers:
    """Return the first ``size`` accepted draws among independent proposals, drawn in blocks.

    attempt   number of proposals → those accepted: at least about 1 − 1/e of them, so that 7/4 of a
              block mostly suffice in one attempt
    """
    parts: list[WholeNumbers] = [np.zeros(0, np.int64)]
    while size > 0:
        block = min(size, _BLOCK)
        parts.append(attempt(block * 7 // 4 + 16)[:block])
        size -= parts[-1].size
    return np.asarray(np.concatenate(parts))


def max_abs(numbers: WholeNumbers) -> int:
    """Return the largest absolute value, 0 for an empty array."""
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))


def bernoulli_exp_of_any(
    numerators: WholeNumbers, denominator: int, uniform: UniformIntegers
) -> NDArray[np.bool_]:
    """Return a boolean for each numerator n ≥ 0, True with probability exp(−n / denominator).

    numerators   int64, or Python integers (dtype object) where they or the denominator are large

    Algorithm 1 for γ = n/denominator > 1: exp(−γ) is exp(−1)^⌊γ⌋ times exp(−rest). One unit is
    drawn for all at a time, and the first failure decides: about ln(size) rounds for any γ.
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

    Algorithm 3. With t = ⌊σ⌋ + 1, a discrete Laplace y of scale t is accepted with probability
    exp(−(|y| − σ²/t)² / (2σ²)). Multiplied out, exp(−|y|/t) times this is exp(−y²/(2σ²)) times
    exp(−σ²/(2t²)), which is the same for every y. At least 0.44 of the proposals are accepted.

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
    """Return the proposed draws y that are accepted, with probability exp(−(|y| − σ²/t)² / (2σ²)).

    In integers, with σ² = n / d, the exponent is (|y|·d·t − n)² / (2·n·d·t²).
    """
    n, d = sigma2.numerator, sigma2.denominator
    magnitudes = np.abs(proposed)
    denominator = 2 * n * d * t * t
    farthest = max_abs(magnitudes) * d * t + n
    if max(farthest * farthest, denominator, d * t) > _INT64.max:
        magnitudes = magnitudes.astype(object)
    distances: WholeNumbers = magnitudes * (d * t) - n
    return proposed[bernoulli_exp_of_any(distances * distances, denominator, uniform)]


_BATCH = 1 << 12
"""Proposals at a time, at most: nearly all of them may be accepted, and one is needed."""


def exponential_choice(scores: IntArray, scale: Fraction, uniform: UniformIntegers) -> int:
    """Return a random index i with P(i) = exp(scores_i / scale) / Σ_j exp(scores_j / scale).

    scores   int64, at least one; cost and proof of privacy: ``gate.mechanisms.exponential_query``

    Rejection: propose an index uniformly, accept it with probability exp(−(max − score) / scale),
    and answer the first accepted one.

    Proof. A proposal is index i *and* accepted with probability exp(−(max − scores_i)/scale)/m,
    for m candidates. Proposals are independent and alike, so the first accepted one is i with
    probability proportional to this, that is to exp(scores_i / scale): max and m are the same for
    every i. Batches change nothing: all after the first accepted one are thrown away. ∎

    The largest score is always accepted: m proposals are expected at most. About 3 ms for 4,000
    candidates, 50 ms for 10^5.
    """
    top, bottom = int(scores.max()), int(scores.min())
    fits = max((top - bottom) * scale.denominator, scale.numerator) <= _INT64.max
    # (max − score) · d for every candidate, where scale = n / d.
    gaps = np.asarray((top - (scores if fits else scores.astype(object))) * scale.denominator)
    batch = min(scores.size, _BATCH)
    while True:
        proposed = uniform.below(scores.size, batch)
        accepted = bernoulli_exp_of_any(gaps[proposed], scale.numerator, uniform)
        first = np.flatnonzero(accepted)[:1]
        if first.size:
            return int(proposed[first[0]])
