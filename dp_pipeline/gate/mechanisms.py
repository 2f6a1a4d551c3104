"""The two pure-ε primitives: integers in, integers out, the noise given by a source.

Everything private in this package is one of these two. Sensitivities are integers *per protected
unit*: whoever calls has already multiplied what one row moves by the rows of one unit.
"""

from __future__ import annotations

from fractions import Fraction

from dp_pipeline.gate.discrete_laplace import IntArray
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.gate.numbers import int64_array
from dp_pipeline.schema.errors import BoundaryViolation


def laplace_scale(*, l1: int, epsilon: Fraction) -> Fraction:
    """The scale of the discrete Laplace noise that makes an L1 reach of ``l1`` cost ε: l1 / ε.

    Raises BoundaryViolation unless l1 is an int ≥ 1 and epsilon a positive Fraction.

    >>> laplace_scale(l1=3, epsilon=Fraction("0.5"))
    Fraction(6, 1)
    """
    return _reach(l1, of="l1") / _paid(epsilon)


def choice_scale(*, linf: int, epsilon: Fraction) -> Fraction:
    """The scale of the noisy max that makes scores moving by at most ``linf`` cost ε: 2·linf / ε.

    The factor 2 is needed: the chosen score may fall while every other one rises.

    >>> choice_scale(linf=3, epsilon=Fraction("0.5"))
    Fraction(12, 1)
    """
    return 2 * _reach(linf, of="linf") / _paid(epsilon)


def measure(exact: IntArray, *, l1: int, epsilon: Fraction, noise: NoiseSource) -> IntArray:
    """Integer answers plus discrete Laplace noise: ε-DP (Ghosh, Roughgarden, Sundararajan 2009).

    exact    integer array of any shape, also empty
    l1       largest Σ|exact − exact'| over neighbours that differ by one protected unit
    returns  int64 of the same shape; cells may be negative; cut to int64 at its ends

    Proof: P(x) ∝ exp(−|x|/s) on the integers, so the ratio of the probabilities of any answer y
    is at most exp(Σ| |y − exact| − |y − exact'| | / s) ≤ exp(l1 / s) = e^ε at s = l1 / ε. The
    coordinates are integers on both sides, so both neighbours have the same support.

    Raises BoundaryViolation for anything but integers (floats and booleans too), for l1 below 1,
    for an ε that is not a positive Fraction and for a scale above 2^55.

    >>> import numpy as np
    >>> from dp_pipeline.gate.noise import SeededNoise
    >>> measure(np.array([3, 0, 5]), l1=1, epsilon=Fraction(1000), noise=SeededNoise(7))
    array([3, 0, 5])
    """
    scale = laplace_scale(l1=l1, epsilon=epsilon)
    return noise.discrete_laplace(int64_array(exact, of="exact answers"), scale)


def choose(scores: IntArray, *, linf: int, epsilon: Fraction, noise: NoiseSource) -> int:
    """The index of a large score, by noisy max: ε-DP.

    scores   integer vector, one candidate each, at least one
    linf     largest |score − score'| of any candidate over neighbours that differ by one unit
    proof    ``discrete_laplace.noisy_argmax`` for our sources, McKenna and Sheldon (2020)
             for OpenDP's permute-and-flip; both cost 2·linf / scale

    Raises BoundaryViolation as ``measure`` does, and for an empty or not one-dimensional array.

    >>> import numpy as np
    >>> from dp_pipeline.gate.noise import SeededNoise
    >>> choose(np.array([3, 0, 50]), linf=1, epsilon=Fraction(100), noise=SeededNoise(7))
    2
    """
    scale = choice_scale(linf=linf, epsilon=epsilon)
    scores = int64_array(scores, of="scores")
    if scores.ndim != 1 or not scores.size:
        raise BoundaryViolation(f"choose: expected a vector of scores, got shape {scores.shape}")
    return noise.noisy_max(scores, scale)


def _reach(value: int, *, of: str) -> Fraction:
    """A sensitivity: a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BoundaryViolation(f"{of}: expected an int of at least 1, got {value!r}")
    return Fraction(value)


def _paid(epsilon: Fraction) -> Fraction:
    """An ε: a positive Fraction; a float is a little more or less than what was charged."""
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise BoundaryViolation(f"epsilon: expected a positive Fraction, got {epsilon!r}")
    return epsilon
