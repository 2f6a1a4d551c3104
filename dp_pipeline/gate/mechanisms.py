"""Six private mechanisms, each with its price and its proof: integers in, integers out.

Every private answer comes from one of them, or has its proof in ``gate.trees`` or ``gate.texts``.
Sensitivities are integers *per protected unit*, not per row. Laplace noise, refinements, the L∞
mechanism and noisy max cost ε; Gaussian noise and the exponential mechanism cost the ρ of
zero-concentrated DP (Bun, Steinke 2016): the Rényi divergence of order α between neighbours is
at most α·ρ, for every α > 1.

BoundaryViolation for a sensitivity that is no int of at least 1 and for an amount that is no
positive Fraction, as the query is made; as noise is drawn, for anything but integers (floats and
booleans too), and for a scale above 2^55.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.noise import NoiseSource, int64_array, root_at_least, sampling_scale
from dp_pipeline.results.accountant import (
    EXPONENTIAL,
    GAUSSIAN,
    LAPLACE,
    LINF,
    NOISY_MAX,
    REFINED,
    Spend,
)


@dataclass(frozen=True)
class NoisyQuery:
    """The charge for one question, and the function that adds noise to its exact answer.

    add_noise   exact answer and source of noise → noisy answer
    scale_of    size of the answer and source of noise → scale of its discrete Laplace noise; None:
                other noise, which cannot be refined
    """

    spend: Spend
    add_noise: Callable[[IntArray, NoiseSource], IntArray]
    scale_of: Callable[[int, NoiseSource], Fraction] | None = None


def laplace_scale(*, l1: int, epsilon: Fraction) -> Fraction:
    """Return the scale of discrete Laplace noise at which an L1 sensitivity costs ε: l1 / ε.

    >>> laplace_scale(l1=3, epsilon=Fraction("0.5"))
    Fraction(6, 1)
    """
    return _distance(l1, of="l1") / _paid(epsilon)


def laplace_query(words: str, *, l1: int, epsilon: Fraction) -> NoisyQuery:
    """Return a query for integers plus discrete Laplace noise of scale l1 / ε: ε-DP.

    Source: Ghosh, Roughgarden, Sundararajan 2009.

    words    what is measured, for the charge
    l1       largest Σ|exact − exact'| over neighbours that differ by one protected unit
    answer   int64 of any shape, also empty; cells may be negative; cut to int64 at its ends

    Proof: P(x) ∝ exp(−|x|/s) on the integers, so the ratio of the probabilities of any answer y
    is at most exp(Σ| |y − exact| − |y − exact'| | / s) ≤ exp(l1 / s) = e^ε at s = l1 / ε. The
    coordinates are integers on both sides, so both neighbours have the same support.

    >>> from dp_pipeline.gate.noise import SeededNoise
    >>> query = laplace_query("counts", l1=1, epsilon=Fraction(1000))
    >>> query.add_noise(np.array([3, 0, 5]), SeededNoise(7))
    array([3, 0, 5])
    """
    scale = laplace_scale(l1=l1, epsilon=epsilon)
    return NoisyQuery(
        Spend(words, LAPLACE, epsilon, l1, scale),
        lambda exact, noise: noise.discrete_laplace(exact, scale),
        lambda size, noise: sampling_scale(noise, scale, size),
    )


def refinement_query(
    words: str, *, l1: int, first: IntArray, before: Fraction, scale: Fraction, epsilon: Fraction
) -> NoisyQuery:
    """Return a query for an earlier answer with the smaller noise of a larger ε, at the price of
    the difference.

    l1       as for the earlier answer
    first    answer of a Laplace query or of a refinement
    before   ε that was paid for ``first`` in all
    scale    at which the noise of ``first`` was drawn, at least l1 / before
    epsilon  additional ε
    answer   int64 of the same shape, distributed as that of a Laplace query for before + epsilon

    *Proof.* Let s be ``scale`` and s' = l1 / (before + epsilon) < l1 / before ≤ s. Noise Z of scale
    s is Z' + V, Z' of scale s' and V independent of it and of the rows, and the result is exact +
    Z', with Z' drawn given Z' + V = Z (``gate.samplers.refined_noise``). So the pair
    (first, answer) has the probability P(Z' = y' − exact)·P(V = y − y'), whose ratio between
    neighbours is that of the first factor alone: at most exp(l1 / s') = e^(before + epsilon) for
    both answers together. Whether there is a second one, and its ε, may depend on the first: the
    ratio holds for each pair of answers. A chain of refinements is the same, one after the other.
    V depends on s, so s is the scale at which the noise was drawn. A source may have rounded it up
    (``gate.noise.sampling_scale``): then ``first`` alone has cost l1 / s, a little less than
    ``before``, and both together before + epsilon, since s' does not depend on s. ∎

    BoundaryViolation for a smaller scale than was paid for, and where ``first`` was cut at the ends
    of int64, so that its noise is unknown.
    """
    added = laplace_scale(l1=l1, epsilon=epsilon)
    finer = laplace_scale(l1=l1, epsilon=before + epsilon)
    if scale < laplace_scale(l1=l1, epsilon=before):
        raise BoundaryViolation(
            "The scale of a refinement must be at least that of the first answer, l1 / ε = "
            f"{float(l1 / before):.4g}, not {float(scale):.4g}"
        )
    ends = np.iinfo(np.int64)
    if ((first == ends.max) | (first == ends.min)).any():
        raise BoundaryViolation(
            "The counts to refine must lie inside the ends of int64, but one was cut off there"
        )

    def draw(exact: IntArray, noise: NoiseSource) -> IntArray:
        if exact.shape != first.shape:
            raise BoundaryViolation(
                f"The answer to refine must have shape {exact.shape} of its counts, not "
                f"{first.shape}"
            )
        return noise.refined_laplace(exact, first, scale, finer)

    return NoisyQuery(Spend(words, REFINED, epsilon, l1, added), draw, lambda *_: finer)


MAX_LINF_SIZE = 20
"""Length of a vector for the L∞ mechanism, in scales of its noise, at most: for longer ones nearly
every proposed radius is refused, and drawing takes long."""


def linf_query(words: str, *, linf: int, epsilon: Fraction) -> NoisyQuery:
    """Return a query for integers plus noise of the discrete L∞ mechanism of scale linf / ε: ε-DP.

    linf     largest |exact_i − exact'_i| of any number over neighbours that differ by one unit
    answer   int64 vector, also empty; cut to int64 at its ends

    It suits p numbers all of which one unit moves a little: the standard deviation of each is about
    √((p + 1)(p + 2)/3)/a for a = ε/linf, where Laplace noise has √2·p/a.

    *Proof.* P(z) ∝ exp(−max |z_i| / s) on the integer vectors, and by the triangle inequality
    |max |y_i − exact_i| − max |y_i − exact'_i|| ≤ max |exact_i − exact'_i| ≤ linf: the ratio of the
    probabilities of any answer y is at most exp(linf / s) = e^ε at s = linf / ε. ∎

    Source: Hardt, Talwar, "On the geometry of differential privacy" (STOC 2010), the K-norm
    mechanism; for the cube Steinke, Ullman, "Between pure and approximate differential privacy"
    (JPC 2016). The discrete form is ours (``gate.samplers.linf_noise``).

    BoundaryViolation for a vector of more than MAX_LINF_SIZE scales.

    >>> from dp_pipeline.gate.noise import SeededNoise
    >>> query = linf_query("scores", linf=1, epsilon=Fraction(5))
    >>> query.add_noise(np.array([3, 0, 5]), SeededNoise(7))
    array([3, 0, 5])
    """
    scale = _distance(linf, of="linf") / _paid(epsilon)

    def draw(exact: IntArray, noise: NoiseSource) -> IntArray:
        exact = int64_array(exact, of="exact answers")
        if exact.ndim != 1 or exact.size > MAX_LINF_SIZE * scale:
            raise BoundaryViolation(
                f"The L∞ mechanism takes a vector of at most {float(MAX_LINF_SIZE * scale):.3g} "
                f"numbers at scale {float(scale):.3g}, not an array of shape {exact.shape}"
            )
        return noise.discrete_linf(exact, scale)

    return NoisyQuery(Spend(words, LINF, epsilon, linf, scale), draw)


def noisy_max_query(words: str, *, linf: int, epsilon: Fraction) -> NoisyQuery:
    """Return a query for the index of a nearly highest score, by noisy max of scale 2·linf / ε:
    ε-DP.

    linf     largest |score − score'| of any candidate over neighbours that differ by one unit
    answer   index in a vector of one score for each candidate, at least one; shape ()
    proof    ``gate.samplers.noisy_argmax`` for our sources, McKenna and Sheldon (2020)
             for OpenDP's permute-and-flip; both cost 2·linf / scale

    The factor 2 is needed: the chosen score may fall while every other one rises.

    >>> from dp_pipeline.gate.noise import SeededNoise
    >>> query = noisy_max_query("pair", linf=1, epsilon=Fraction(100))
    >>> int(query.add_noise(np.array([3, 0, 50]), SeededNoise(7)))
    2
    """
    scale = 2 * _distance(linf, of="linf") / _paid(epsilon)
    return NoisyQuery(
        Spend(words, NOISY_MAX, epsilon, linf, scale),
        lambda scores, noise: np.array(noise.noisy_max(scores, scale), np.int64),
    )


def gaussian_variance(*, l2_squared: int, rho: Fraction) -> Fraction:
    """Return the variance σ² = l2² / (2ρ) of Gaussian noise at which l2² ``l2_squared`` costs ρ.

    >>> gaussian_variance(l2_squared=3, rho=Fraction("0.01"))
    Fraction(150, 1)
    """
    return _distance(l2_squared, of="l2_squared") / (2 * _paid(rho, of="rho"))


def gaussian_query(words: str, *, l2_squared: int, rho: Fraction) -> NoisyQuery:
    """Return a query for integers plus discrete Gaussian noise of variance l2² / (2ρ): ρ-zCDP.

    Source: Canonne, Kamath, Steinke 2020, Theorem 4.

    l2_squared   largest Σ(exact − exact')² over neighbours that differ by one protected unit
    answer       int64 of any shape, also empty; cells may be negative; cut to int64 at its ends

    Proof, for one coordinate with exact answers a and b. Of order α, the Rényi divergence is
    ln( Σ_y exp(−(α(y − a)² + (1 − α)(y − b)²) / 2σ²) / Σ_y exp(−y² / 2σ²) ) / (α − 1), and
    α(y − a)² + (1 − α)(y − b)² = (y − c)² − α(α − 1)(a − b)² with c = αa + (1 − α)b. By Poisson
    summation Σ_y exp(−(y − c)² / 2σ²) has positive Fourier coefficients in c, so it is largest at
    c = 0: the divergence is at most α(a − b)² / 2σ². Coordinates have independent noise, so their
    divergences add up to α·l2² / 2σ² = αρ at most. ∎

    >>> from dp_pipeline.gate.noise import SeededNoise
    >>> query = gaussian_query("counts", l2_squared=1, rho=Fraction(1000))
    >>> query.add_noise(np.array([3, 0, 5]), SeededNoise(7))
    array([3, 0, 5])
    """
    sigma2 = gaussian_variance(l2_squared=l2_squared, rho=rho)
    return NoisyQuery(
        Spend(words, GAUSSIAN, rho, l2_squared, sigma2, "zcdp"),
        lambda exact, noise: noise.discrete_gaussian(exact, sigma2),
    )


def exponential_query(words: str, *, linf: int, rho: Fraction) -> NoisyQuery:
    """Return a query for the index of a nearly highest score, by the exponential mechanism,
    P(i) ∝ exp(score_i / s): ρ-zCDP.

    linf     largest |score − score'| of any candidate over neighbours that differ by one unit
    answer   index in a vector of one score for each candidate, at least one; shape ()

    Proof (Dong, Durfee, Rogers 2020, Prop. 2, and Cesar, Rogers 2021, Lemma 3.2). For neighbours
    with distributions P and P', let L(i) = ln(P(i) / P'(i)) = (score_i − score'_i)/s − ln(Z/Z'):
    all L(i) lie in one interval of length η = 2Δ/s (the mechanism has bounded range η).
    K(t) = ln Σ P'(i) exp(t·L(i)) has K(0) = K(1) = 0, and K''(t) is the variance of L under a
    tilted distribution, so at most η²/4. Interpolating K linearly at 0 and 1 errs at α by
    K''(·)·α(α − 1)/2, hence K(α) ≤ α(α − 1)·η²/8, and the Rényi divergence of order α, which is
    K(α) / (α − 1), is at most α·η²/8 = α·Δ²/(2s²) ≤ αρ. For s is Δ / √(2ρ), rounded up by less than
    one part in 10^9 to a Fraction of few digits. ∎

    >>> from dp_pipeline.gate.noise import SeededNoise
    >>> query = exponential_query("pair", linf=1, rho=Fraction(100))
    >>> int(query.add_noise(np.array([3, 0, 50]), SeededNoise(7)))
    2
    """
    scale = root_at_least(_distance(linf, of="linf") ** 2 / (2 * _paid(rho, of="rho")))
    return NoisyQuery(
        Spend(words, EXPONENTIAL, rho, linf, scale, "zcdp"),
        lambda scores, noise: np.array(noise.exponential_choice(scores, scale), np.int64),
    )


def vector_query(
    currency: Currency, words: str, *, l1: int, l2_squared: int, amount: Fraction
) -> NoisyQuery:
    """Return a query for an integer vector: Laplace noise for an ε, Gaussian noise for a ρ."""
    if currency == PURE:
        return laplace_query(words, l1=l1, epsilon=amount)
    return gaussian_query(words, l2_squared=l2_squared, rho=amount)


def choice_query(currency: Currency, words: str, *, linf: int, amount: Fraction) -> NoisyQuery:
    """Return a query for the index of a nearly highest score, by noisy max for an ε, by the
    exponential mechanism for a ρ."""
    if currency == PURE:
        return noisy_max_query(words, linf=linf, epsilon=amount)
    return exponential_query(words, linf=linf, rho=amount)


def _distance(value: int, *, of: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BoundaryViolation(
            f"The sensitivity {of} must be an integer of at least 1, not {value!r}"
        )
    return Fraction(value)


def _paid(amount: Fraction, *, of: str = "epsilon") -> Fraction:
    # A float would not be exactly the amount that was charged.
    if not isinstance(amount, Fraction) or amount <= 0:
        raise BoundaryViolation(f"The amount {of} must be a positive Fraction, not {amount!r}")
    return amount
