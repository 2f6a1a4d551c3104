"""Six private mechanisms with their proofs: integers in, integers out.

Every private answer comes from one of them, or has its proof in ``gate.trees`` or ``gate.texts``.
Sensitivities are integers *per protected unit*, not per row. ``measure``, ``refine``,
``measure_linf`` and ``choose`` pay in ε; ``measure_gaussian`` and ``choose_exponential`` in the ρ
of zero-concentrated DP (Bun, Steinke 2016): the Rényi divergence of order α between neighbours is
at most α·ρ, for every α > 1.
"""

from fractions import Fraction

import numpy as np

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.noise import NoiseSource, int64_array, root_at_least


def laplace_scale(*, l1: int, epsilon: Fraction) -> Fraction:
    """Return the scale of discrete Laplace noise at which an L1 sensitivity costs ε: l1 / ε.

    Raises BoundaryViolation unless l1 is an int ≥ 1 and epsilon a positive Fraction.

    >>> laplace_scale(l1=3, epsilon=Fraction("0.5"))
    Fraction(6, 1)
    """
    return _distance(l1, of="l1") / _paid(epsilon)


def refine(
    exact: IntArray,
    first: IntArray,
    *,
    l1: int,
    before: Fraction,
    scale: Fraction,
    epsilon: Fraction,
    noise: NoiseSource,
) -> IntArray:
    """Return noisy answers with the smaller noise of a larger ε, at the price of the difference.

    exact    integer array of any shape
    first    answer of ``measure`` or ``refine`` for the same array and l1
    before   ε that was paid for ``first`` in all
    scale    at which the noise of ``first`` was drawn, at least l1 / before
    epsilon  additional ε
    returns  int64 of the same shape, distributed as ``measure`` at before + epsilon

    *Proof.* Let s be ``scale`` and s' = l1 / (before + epsilon) < l1 / before ≤ s. Noise Z of scale
    s is Z' + V, Z' of scale s' and V independent of it and of the rows, and the result is exact +
    Z', with Z' drawn given Z' + V = Z (``gate.samplers.refined_noise``). So the pair
    (first, returned) has the probability P(Z' = y' − exact)·P(V = y − y'), whose ratio between
    neighbours is that of the first factor alone: at most exp(l1 / s') = e^(before + epsilon) for
    both answers together. Whether there is a second one, and its ε, may depend on the first: the
    ratio holds for each pair of answers. A chain of refinements is the same, one after the other.
    V depends on s, so s is the scale at which the noise was drawn. A source may have rounded it up
    (``gate.noise.sampling_scale``): then ``first`` alone has cost l1 / s, a little less than
    ``before``, and both together before + epsilon, since s' does not depend on s. ∎

    BoundaryViolation as for ``measure``, for a smaller scale than was paid for, and where ``first``
    was cut at the ends of int64, so that its noise is unknown.
    """
    exact, first = int64_array(exact, of="exact answers"), int64_array(first, of="first answers")
    if scale < laplace_scale(l1=l1, epsilon=before):
        raise BoundaryViolation(
            "The scale of a refinement must be at least that of the first answer, l1 / ε = "
            f"{float(l1 / before):.4g}, not {float(scale):.4g}"
        )
    finer = laplace_scale(l1=l1, epsilon=before + _paid(epsilon))
    if exact.shape != first.shape:
        raise BoundaryViolation(
            f"The answer to refine must have shape {exact.shape} of its counts, not {first.shape}"
        )
    ends = np.iinfo(np.int64)
    if ((first == ends.max) | (first == ends.min)).any():
        raise BoundaryViolation(
            "The counts to refine must lie inside the ends of int64, but one was cut off there"
        )
    return noise.refined_laplace(exact, first, scale, finer)


MAX_LINF_SIZE = 20
"""Length of a vector for the L∞ mechanism, in scales of its noise, at most: for longer ones nearly
every proposed radius is refused, and drawing takes long."""


def linf_scale(*, linf: int, epsilon: Fraction) -> Fraction:
    """Return the scale of the L∞ mechanism at which an L∞ sensitivity costs ε: linf / ε.

    >>> linf_scale(linf=3, epsilon=Fraction("0.5"))
    Fraction(6, 1)
    """
    return _distance(linf, of="linf") / _paid(epsilon)


def choice_scale(*, linf: int, epsilon: Fraction) -> Fraction:
    """Return the scale of a noisy max at which scores that move by ``linf`` cost ε: 2·linf / ε.

    The factor 2 is needed: the chosen score may fall while every other one rises.

    >>> choice_scale(linf=3, epsilon=Fraction("0.5"))
    Fraction(12, 1)
    """
    return 2 * _distance(linf, of="linf") / _paid(epsilon)


def gaussian_variance(*, l2_squared: int, rho: Fraction) -> Fraction:
    """Return the variance σ² = l2² / (2ρ) of Gaussian noise at which l2² ``l2_squared`` costs ρ.

    Raises BoundaryViolation unless l2_squared is an int ≥ 1 and rho a positive Fraction.

    >>> gaussian_variance(l2_squared=3, rho=Fraction("0.01"))
    Fraction(150, 1)
    """
    return _distance(l2_squared, of="l2_squared") / (2 * _paid(rho, of="rho"))


def exponential_scale(*, linf: int, rho: Fraction) -> Fraction:
    """Return the scale s of the exponential mechanism, P(i) ∝ exp(score_i / s), at which scores
    that move by ``linf`` cost ρ.

    It is linf / √(2ρ), rounded up by less than one part in 10^9 to a Fraction of few digits: its
    cost linf² / (2·s²) is at most ρ, which is charged.

    >>> exponential_scale(linf=3, rho=Fraction("0.02"))
    Fraction(15, 1)
    """
    return root_at_least(_distance(linf, of="linf") ** 2 / (2 * _paid(rho, of="rho")))


def measure(exact: IntArray, *, l1: int, epsilon: Fraction, noise: NoiseSource) -> IntArray:
    """Return integer answers plus discrete Laplace noise of scale l1 / ε: ε-DP.

    Source: Ghosh, Roughgarden, Sundararajan 2009.

    exact    integer array of any shape, also empty
    l1       largest Σ|exact − exact'| over neighbours that differ by one protected unit
    returns  int64 of the same shape; cells may be negative; cut to int64 at its ends

    Proof: P(x) ∝ exp(−|x|/s) on the integers, so the ratio of the probabilities of any answer y
    is at most exp(Σ| |y − exact| − |y − exact'| | / s) ≤ exp(l1 / s) = e^ε at s = l1 / ε. The
    coordinates are integers on both sides, so both neighbours have the same support.

    Raises BoundaryViolation for anything but integers (floats and booleans too), for l1 below 1,
    for an ε that is not a positive Fraction and for a scale above 2^55.

    >>> from dp_pipeline.gate.noise import SeededNoise
    >>> measure(np.array([3, 0, 5]), l1=1, epsilon=Fraction(1000), noise=SeededNoise(7))
    array([3, 0, 5])
    """
    scale = laplace_scale(l1=l1, epsilon=epsilon)
    return noise.discrete_laplace(int64_array(exact, of="exact answers"), scale)


def measure_linf(exact: IntArray, *, linf: int, epsilon: Fraction, noise: NoiseSource) -> IntArray:
    """Return integer answers plus noise of the discrete L∞ mechanism of scale linf / ε: ε-DP.

    exact    integer vector, also empty
    linf     largest |exact_i − exact'_i| of any number over neighbours that differ by one unit
    returns  int64 of the same length; cut to int64 at its ends

    It suits p numbers all of which one unit moves a little: the standard deviation of each is about
    √((p + 1)(p + 2)/3)/a for a = ε/linf, where Laplace noise has √2·p/a.

    *Proof.* P(z) ∝ exp(−max |z_i| / s) on the integer vectors, and by the triangle inequality
    |max |y_i − exact_i| − max |y_i − exact'_i|| ≤ max |exact_i − exact'_i| ≤ linf: the ratio of the
    probabilities of any answer y is at most exp(linf / s) = e^ε at s = linf / ε. ∎

    Source: Hardt, Talwar, "On the geometry of differential privacy" (STOC 2010), the K-norm
    mechanism; for the cube Steinke, Ullman, "Between pure and approximate differential privacy"
    (JPC 2016). The discrete form is ours (``gate.samplers.linf_noise``).

    Raises BoundaryViolation as ``measure`` does, and for more numbers than MAX_LINF_SIZE scales.

    >>> from dp_pipeline.gate.noise import SeededNoise
    >>> measure_linf(np.array([3, 0, 5]), linf=1, epsilon=Fraction(5), noise=SeededNoise(7))
    array([3, 0, 5])
    """
    exact = int64_array(exact, of="exact answers")
    scale = linf_scale(linf=linf, epsilon=epsilon)
    if exact.ndim != 1 or exact.size > MAX_LINF_SIZE * scale:
        raise BoundaryViolation(
            f"The L∞ mechanism takes a vector of at most {float(MAX_LINF_SIZE * scale):.3g} "
            f"numbers at scale {float(scale):.3g}, not an array of shape {exact.shape}"
        )
    return noise.discrete_linf(exact, scale)


def choose(scores: IntArray, *, linf: int, epsilon: Fraction, noise: NoiseSource) -> int:
    """Return the index of a nearly highest score, by noisy max: ε-DP.

    scores   integer vector, one candidate each, at least one
    linf     largest |score − score'| of any candidate over neighbours that differ by one unit
    proof    ``gate.samplers.noisy_argmax`` for our sources, McKenna and Sheldon (2020)
             for OpenDP's permute-and-flip; both cost 2·linf / scale

    Raises BoundaryViolation as ``measure`` does, and for an empty or not one-dimensional array.

    >>> from dp_pipeline.gate.noise import SeededNoise
    >>> choose(np.array([3, 0, 50]), linf=1, epsilon=Fraction(100), noise=SeededNoise(7))
    2
    """
    scale = choice_scale(linf=linf, epsilon=epsilon)
    return noise.noisy_max(_vector(scores), scale)


def measure_gaussian(
    exact: IntArray, *, l2_squared: int, rho: Fraction, noise: NoiseSource
) -> IntArray:
    """Return integer answers plus discrete Gaussian noise of variance l2² / (2ρ): ρ-zCDP.

    Source: Canonne, Kamath, Steinke 2020, Theorem 4.

    exact       integer array of any shape, also empty
    l2_squared  largest Σ(exact − exact')² over neighbours that differ by one protected unit
    returns     int64 of the same shape; cells may be negative; cut to int64 at its ends

    Proof, for one coordinate with exact answers a and b. Of order α, the Rényi divergence is
    ln( Σ_y exp(−(α(y − a)² + (1 − α)(y − b)²) / 2σ²) / Σ_y exp(−y² / 2σ²) ) / (α − 1), and
    α(y − a)² + (1 − α)(y − b)² = (y − c)² − α(α − 1)(a − b)² with c = αa + (1 − α)b. By Poisson
    summation Σ_y exp(−(y − c)² / 2σ²) has positive Fourier coefficients in c, so it is largest at
    c = 0: the divergence is at most α(a − b)² / 2σ². Coordinates have independent noise, so their
    divergences add up to α·l2² / 2σ² = αρ at most. ∎

    Raises BoundaryViolation for anything but integers (floats and booleans too), for l2_squared
    below 1, for a ρ that is not a positive Fraction and for a σ above 2^55.

    >>> from dp_pipeline.gate.noise import SeededNoise
    >>> measure_gaussian(
    ...     np.array([3, 0, 5]), l2_squared=1, rho=Fraction(1000), noise=SeededNoise(7)
    ... )
    array([3, 0, 5])
    """
    sigma2 = gaussian_variance(l2_squared=l2_squared, rho=rho)
    return noise.discrete_gaussian(int64_array(exact, of="exact answers"), sigma2)


def choose_exponential(scores: IntArray, *, linf: int, rho: Fraction, noise: NoiseSource) -> int:
    """Return the index of a nearly highest score, by the exponential mechanism: ρ-zCDP.

    scores   integer vector, one candidate each, at least one
    linf     largest |score − score'| of any candidate over neighbours that differ by one unit

    Proof (Dong, Durfee, Rogers 2020, Prop. 2, and Cesar, Rogers 2021, Lemma 3.2). For neighbours
    with distributions P and P', let L(i) = ln(P(i) / P'(i)) = (score_i − score'_i)/s − ln(Z/Z'):
    all L(i) lie in one interval of length η = 2Δ/s (the mechanism has bounded range η).
    K(t) = ln Σ P'(i) exp(t·L(i)) has K(0) = K(1) = 0, and K''(t) is the variance of L under a
    tilted distribution, so at most η²/4. Interpolating K linearly at 0 and 1 errs at α by
    K''(·)·α(α − 1)/2, hence K(α) ≤ α(α − 1)·η²/8, and the Rényi divergence of order α, which is
    K(α) / (α − 1), is at most α·η²/8 = α·Δ²/(2s²) ≤ αρ at s = ``exponential_scale``. ∎

    Raises BoundaryViolation as ``choose`` does, with ρ in place of ε.

    >>> from dp_pipeline.gate.noise import SeededNoise
    >>> choose_exponential(np.array([3, 0, 50]), linf=1, rho=Fraction(100), noise=SeededNoise(7))
    2
    """
    scale = exponential_scale(linf=linf, rho=rho)
    return noise.exponential_choice(_vector(scores), scale)


def _vector(scores: IntArray) -> IntArray:
    scores = int64_array(scores, of="scores")
    if scores.ndim != 1 or not scores.size:
        raise BoundaryViolation(
            "The scores of a choice must be a vector of one or more numbers, not of shape "
            f"{scores.shape}"
        )
    return scores


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
