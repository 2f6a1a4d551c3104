"""Sources of noise: OpenDP, exact samplers, or a seed; entropy is drawn in this file alone.

The numbers that they take and give: int64 arrays, exact scales, floats and roots rounded upwards.
"""

import math
import os
import re
import threading
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.gate import samplers, sparse_sampler

MAX_SCALE = 2**55
"""Largest scale of noise: it passes 2^62, and so may leave int64, with probability e^(−128)."""


def int64_array(values: object, *, of: str) -> IntArray:
    """Return an integer array as int64; BoundaryViolation for another type or a larger number.

    A number that wrapped around would have no sensitivity.

    of   name of the numbers, for the message

    >>> int64_array(np.array([1, 2], np.uint8), of="counts")
    array([1, 2])
    >>> int64_array(np.array([1.0]), of="counts")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dp_pipeline.config.errors.BoundaryViolation: The array of counts must hold integers, ...
    """
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu":
        got = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise BoundaryViolation(f"The array of {of} must hold integers, not {got}")
    if values.dtype == np.uint64 and int(values.max(initial=0)) > np.iinfo(np.int64).max:
        raise BoundaryViolation(
            f"The array of {of} must hold integers below 2^63, but one is larger"
        )
    return np.asarray(values, np.int64)


def checked_scale(scale: Fraction, *, of: str = "scale", power: int = 1) -> Fraction:
    """Return a noise scale unchanged; BoundaryViolation unless it is a Fraction in (0, 2^55].

    of, power   for a power of a scale: its name and exponent, such as "variance σ²" and 2
    """
    if not isinstance(scale, Fraction) or scale <= 0:
        raise BoundaryViolation(f"The {of} of noise must be a positive Fraction, not {scale!r}")
    if scale > MAX_SCALE**power:
        raise BoundaryViolation(
            f"The {of} of noise must be at most 2^{55 * power}, but it is up to "
            f"{-(-scale // MAX_SCALE**power)} times that: raise ε, or lower `at_most`"
        )
    return scale


def float_at_least(value: Fraction) -> float:
    """Return the smallest float that is at least ``value``, a positive number up to 2^1023.

    A scale rounded down would give less noise than the charge demands.

    >>> float_at_least(Fraction(1, 10)) >= Fraction(1, 10)
    True
    """
    nearest = value.numerator / value.denominator
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def root_at_least(square: Fraction) -> Fraction:
    """Return the square root of a number above 0, rounded up by less than one part in 10^9, as a
    Fraction of few digits.

    It is the smallest N / 2^k that is large enough, with 2^30 ≤ N ≤ 2^32: it exceeds the root by
    less than 1 / 2^k, one part in N. It is a float without rounding, unless too small for one.

    >>> root_at_least(Fraction(4)), float(root_at_least(Fraction(2)))
    (Fraction(2, 1), 1.4142135623842478)
    """
    # 2^(bits − 1) < square < 2^(bits + 1), so square · 4^k is from 2^60 to 2^63.
    bits = square.numerator.bit_length() - square.denominator.bit_length()
    k = (62 - bits) // 2
    least = math.isqrt(math.ceil(square * Fraction(4) ** k) - 1) + 1
    return least / Fraction(2) ** k


MIN_EXACT_CELLS = 1 << 15
"""Size of a question from which the exact sampler draws in place of OpenDP, which takes fifty times
as long; the size is public."""


@dataclass(frozen=True, slots=True, eq=False)
class NoiseSource:
    """A source of random noise at exact scales, which knows no sensitivities.

    It uses the exact samplers of ``gate.samplers`` on any random bytes. Noisy counts are int64, cut
    at the ends of int64, and have the shape of the exact ones, but for ``sparse_laplace``.

    name            of the source in release keys: "opendp", "exact" or "seeded"
    is_releasable   whether the noise protects persons; the noise of a known seed does not
    """

    name: ClassVar[str]
    is_releasable: ClassVar[bool]
    _uniform: samplers.UniformIntegers = field(init=False, repr=False)

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        """Return counts + independent noise with P(x) ∝ exp(−|x| / scale): ε = Δ1 / scale."""
        counts = int64_array(counts, of="counts")
        noise = samplers.laplace_noise(counts.size, checked_scale(scale), self._uniform)
        return samplers.saturating_sum(counts.ravel(), noise).reshape(counts.shape)

    def sparse_laplace(
        self, occupied: IntArray, scale: Fraction, *, cells: int, threshold: int
    ) -> IntArray:
        """Return key and noisy count of each cell of a sparse table whose noisy count reaches
        ``threshold``, (m', 2), ascending by key.

        Every cell gets the noise of ``discrete_laplace``, empty ones too.

        occupied   key and exact count of each cell that is not empty, (m, 2)
        cells      number of cells of the table
        """
        return sparse_sampler.sparse_laplace(
            int64_array(occupied, of="counts"),
            checked_scale(scale),
            cells=cells,
            threshold=threshold,
            uniform=self._uniform,
        )

    def refined_laplace(
        self, counts: IntArray, first: IntArray, scale: Fraction, finer: Fraction
    ) -> IntArray:
        """Return counts + discrete Laplace noise of scale ``finer``, given an earlier answer.

        ``first`` is counts + noise of ``scale`` (``sampling_scale``): ε = Δ1 / finer for both
        answers together.
        """
        counts, first = int64_array(counts, of="counts"), int64_array(first, of="first answers")
        # A difference of two numbers of 64 bits needs one more.
        coarse = first.ravel().astype(object) - counts.ravel()
        is_small = int(max(map(abs, coarse.tolist()), default=0)) <= np.iinfo(np.int64).max
        coarse = coarse.astype(np.int64) if is_small else coarse
        noise = samplers.refined_noise(
            coarse, checked_scale(scale), checked_scale(finer), self._uniform
        )
        return samplers.saturating_sum(counts.ravel(), noise).reshape(counts.shape)

    def discrete_linf(self, counts: IntArray, scale: Fraction) -> IntArray:
        """Return counts + joint noise with P(z) ∝ exp(−max |z_i| / scale), (p,): ε = Δ∞ / scale."""
        counts = int64_array(counts, of="counts")
        return samplers.saturating_sum(
            counts, samplers.linf_noise(counts.size, checked_scale(scale), self._uniform)
        )

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        """Return the index of a nearly highest score, by noisy max: ε = 2·Δ∞ / scale."""
        # Report noisy max with geometric noise, ties to the lowest index.
        return samplers.noisy_argmax(_candidates(scores), checked_scale(scale), self._uniform)

    def discrete_gaussian(self, counts: IntArray, sigma2: Fraction) -> IntArray:
        """Return counts + independent noise with P(x) ∝ exp(−x² / (2·sigma2)): ρ = Δ2² / 2σ²."""
        counts = int64_array(counts, of="counts")
        noise = samplers.gaussian_noise(counts.size, _checked_variance(sigma2), self._uniform)
        return samplers.saturating_sum(counts.ravel(), noise).reshape(counts.shape)

    def exponential_choice(self, scores: IntArray, scale: Fraction) -> int:
        """Return the index of a nearly highest score, by the exponential mechanism.

        P(i) ∝ exp(scores_i / scale): ρ = (2·Δ∞ / scale)² / 8, which is a quarter of the ρ = ε² / 2
        of ``noisy_max`` at the same scale.
        """
        return samplers.exponential_choice(_candidates(scores), checked_scale(scale), self._uniform)


@dataclass(frozen=True, slots=True, eq=False)
class ExactNoise(NoiseSource):
    """A noise source with exact samplers on the operating system's randomness.

    >>> ExactNoise().discrete_laplace(np.zeros((2, 3), np.int64), Fraction(10)).shape
    (2, 3)
    """

    name: ClassVar[str] = "exact"
    is_releasable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "_uniform", samplers.UniformIntegers(os.urandom))


@dataclass(frozen=True, slots=True)
class OpenDPNoise(ExactNoise):
    """A noise source that uses the OpenDP library (0.16); the default for releases.

    The exact samplers answer questions of MIN_EXACT_CELLS counts or more, sparse tables,
    refinements and the L∞ mechanism, which OpenDP does not have. Its ``make_laplace`` on i64
    vectors is the discrete Laplace, cut like ours; ``make_noisy_max`` under pure DP is
    permute-and-flip on exact rationals (McKenna, Sheldon 2020, arXiv:2010.12603), which costs
    2Δ/scale too. Under zero-concentrated DP ``make_gaussian`` is the discrete Gaussian of the
    float's exact value, and ``make_noisy_max`` the exponential mechanism by rejection: 20 ms for
    4,000 candidates of which one has all the probability.
    """

    name: ClassVar[str] = "opendp"

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        counts = int64_array(counts, of="counts")
        scale = sampling_scale(self, checked_scale(scale), counts.size)
        if not 0 < counts.size < MIN_EXACT_CELLS:
            return ExactNoise.discrete_laplace(self, counts, scale)
        from opendp.measurements import make_laplace
        from opendp.metrics import l1_distance

        return _draw(make_laplace, l1_distance, counts, scale=float(scale)).reshape(counts.shape)

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        from opendp.measures import max_divergence

        return self._choice(scores, scale, max_divergence)

    def discrete_gaussian(self, counts: IntArray, sigma2: Fraction) -> IntArray:
        counts, sigma2 = int64_array(counts, of="counts"), _checked_variance(sigma2)
        if not 0 < counts.size < MIN_EXACT_CELLS:
            return ExactNoise.discrete_gaussian(self, counts, sigma2)
        from opendp.measurements import make_gaussian
        from opendp.metrics import l2_distance

        scale = float_at_least(root_at_least(sigma2))
        return _draw(make_gaussian, l2_distance, counts, scale=scale).reshape(counts.shape)

    def exponential_choice(self, scores: IntArray, scale: Fraction) -> int:
        from opendp.measures import zero_concentrated_divergence

        return self._choice(scores, scale, zero_concentrated_divergence)

    def _choice(self, scores: IntArray, scale: Fraction, measure: Callable[[], Any]) -> int:
        scores, at_least = _candidates(scores), float_at_least(checked_scale(scale))
        from opendp.measurements import make_noisy_max
        from opendp.metrics import linf_distance

        return int(_draw(make_noisy_max, linf_distance, scores, measure(), scale=at_least))


@dataclass(frozen=True, slots=True, eq=False)
class SeededNoise(NoiseSource):
    """A noise source with a known seed (PCG64), for research and tests; it protects nobody.

    The same seed and the same calls give the same answers.

    >>> zeros = np.zeros(5, np.int64)
    >>> first, again = (SeededNoise(7).discrete_laplace(zeros, Fraction(10)) for _ in range(2))
    >>> bool((first == again).all())
    True
    """

    name: ClassVar[str] = "seeded"
    is_releasable: ClassVar[bool] = False
    seed: InitVar[int]

    def __post_init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise DeclarationError(
                f"The seed of noise must be an integer of at least 0, not {seed!r}"
            )
        words = np.random.PCG64(seed)

        def entropy(size: int) -> bytes:
            return words.random_raw(-(-size // 8)).astype("<u8").tobytes()[:size]

        object.__setattr__(self, "_uniform", samplers.UniformIntegers(entropy))


def sampling_scale(source: NoiseSource, scale: Fraction, size: int) -> Fraction:
    """Return the scale at which a source actually draws ``size`` numbers of discrete Laplace noise.

    It is ``scale``, but rounded up to a float for fewer than MIN_EXACT_CELLS numbers by OpenDP.

    >>> sampling_scale(OpenDPNoise(), Fraction(1, 3), 5) - Fraction(1, 3)
    Fraction(1, 27021597764222976)
    """
    is_float = isinstance(source, OpenDPNoise) and size < MIN_EXACT_CELLS
    return Fraction(float_at_least(scale)) if is_float else scale


RELEASABLE_SOURCES = (OpenDPNoise, ExactNoise)
"""The sources that protect persons; ``is_releasable`` of any other class is not trusted."""


def parse_noise(text: str) -> NoiseSource:
    """Return the source that a setting names: ``opendp``, ``exact`` or ``seeded:NUMBER``.

    DeclarationError for any other spelling, because the name is part of every release key.

    >>> parse_noise("opendp"), parse_noise("seeded:7").is_releasable
    (OpenDPNoise(), False)
    """
    sources = {source.name: source for source in RELEASABLE_SOURCES}
    if text in sources:
        return sources[text]()
    if re.fullmatch(r"seeded:(0|[1-9][0-9]{0,17})", text):
        return SeededNoise(int(text.removeprefix("seeded:")))
    raise DeclarationError(
        "The source of noise must be opendp, exact or seeded:NUMBER (at most 18 digits, no "
        f"leading 0), not {text[:60]!r}: correct the argument `noise`, or the variable "
        "DP_PIPELINE_NOISE"
    )


def _candidates(scores: IntArray) -> IntArray:
    scores = int64_array(scores, of="scores")
    if scores.ndim != 1 or not scores.size:
        raise BoundaryViolation(
            "The scores of a choice must be a vector of one or more numbers, not of shape "
            f"{scores.shape}"
        )
    return scores


def _checked_variance(sigma2: Fraction) -> Fraction:
    return checked_scale(sigma2, of="variance σ²", power=2)


_opendp_features = threading.Lock()


def _draw(
    make: Callable[..., Any],
    metric: Callable[..., Any],
    numbers: IntArray,
    *measure: Any,
    scale: float,
) -> IntArray:
    """Return the answer of an OpenDP mechanism about integers, a vector or one number.

    OpenDP's "contrib" feature is enabled while the mechanism is constructed. It is one global set
    of the process: other code keeps its setting, our threads share a lock.
    """
    # Imported late: 0.3 s that a command without noise saves.
    from opendp import mod
    from opendp.domains import atom_domain, vector_domain

    with _opendp_features:
        is_enabled = "contrib" in mod.GLOBAL_FEATURES
        mod.enable_features("contrib")
        try:
            space = vector_domain(atom_domain(T="i64")), metric(T="i64")
            mechanism = make(*space, *measure, scale=scale)
        finally:
            if not is_enabled:
                mod.disable_features("contrib")
    return np.array(mechanism(numbers.ravel().tolist()), np.int64)
