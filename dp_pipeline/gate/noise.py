"""Where noise comes from: OpenDP, our exact sampler, or a seed. Entropy is drawn here alone."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np

from dp_pipeline.gate.discrete_laplace import (
    IntArray,
    laplace_noise,
    noisy_argmax,
    saturating_sum,
)
from dp_pipeline.gate.numbers import checked_scale, float_at_least, int64_array
from dp_pipeline.gate.words import UniformIntegers
from dp_pipeline.schema.errors import BoundaryViolation, DeclarationError

_opendp_features = threading.Lock()


class NoiseSource(Protocol):
    """Draws the noise of one release. Scales are exact; nothing here knows a sensitivity."""

    @property
    def name(self) -> str:
        """ "opendp", "exact" or "seeded", without its number."""

    @property
    def fit_for_release(self) -> bool:
        """False if whoever knows the seed can subtract the noise."""

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        """counts + independent noise with P(x) ∝ exp(−|x| / scale), cut to int64; same shape.

        Costs l1 / scale, where l1 is what one protected unit moves of ``counts``.
        """

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        """The flat index of a large score. Costs 2·linf / scale."""


@dataclass(frozen=True, slots=True)
class OpenDPNoise:
    """The OpenDP library (0.16): the default for releases, about 6 µs per number.

    Its ``make_laplace`` on i64 vectors is the discrete Laplace and saturates like ours. Its
    ``make_noisy_max`` under pure DP is permute-and-flip on exact rationals (McKenna, Sheldon
    2020, arXiv:2010.12603); we hand it i64 scores, never floats. It costs 2Δ/scale as well.
    """

    name: ClassVar[str] = "opendp"
    fit_for_release: ClassVar[bool] = True

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        """See NoiseSource."""
        counts, at_least = int64_array(counts, of="counts"), float_at_least(checked_scale(scale))
        if not counts.size:
            return counts.copy()
        # Late, and by submodule: 0.3 s that a command which draws nothing should not pay.
        from opendp.domains import atom_domain, vector_domain
        from opendp.measurements import make_laplace
        from opendp.metrics import l1_distance

        with _contrib_enabled():
            space = vector_domain(atom_domain(T="i64")), l1_distance(T="i64")
            add_noise = make_laplace(*space, scale=at_least)
        return np.array(add_noise(counts.ravel().tolist()), np.int64).reshape(counts.shape)

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        """See NoiseSource."""
        scores, at_least = _candidates(scores), float_at_least(checked_scale(scale))
        from opendp.domains import atom_domain, vector_domain
        from opendp.measurements import make_noisy_max
        from opendp.measures import max_divergence
        from opendp.metrics import linf_distance

        with _contrib_enabled():
            space = vector_domain(atom_domain(T="i64")), linf_distance(T="i64")
            select = make_noisy_max(*space, max_divergence(), scale=at_least)
        return int(select(scores.tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class _SampledNoise:
    """Our exact sampler on some random bytes."""

    _uniform: UniformIntegers = field(init=False, repr=False)

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        """See NoiseSource."""
        counts = int64_array(counts, of="counts")
        noise = laplace_noise(counts.size, checked_scale(scale), self._uniform)
        return saturating_sum(counts.ravel(), noise).reshape(counts.shape)

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        """See NoiseSource; report noisy max with geometric noise, ties to the lowest index."""
        return noisy_argmax(_candidates(scores), checked_scale(scale), self._uniform)


@dataclass(frozen=True, slots=True, eq=False)
class ExactNoise(_SampledNoise):
    """Our exact sampler on the operating system's randomness: for 10^5 cells and more.

    >>> ExactNoise().discrete_laplace(np.zeros((2, 3), np.int64), Fraction(10)).shape
    (2, 3)
    """

    name: ClassVar[str] = "exact"
    fit_for_release: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "_uniform", UniformIntegers(os.urandom))


@dataclass(frozen=True, slots=True, eq=False)
class SeededNoise(_SampledNoise):
    """The same sampler on PCG64 words: research, tests and studies; never a release.

    Draws follow one another: the same seed and the same calls give the same answers.

    >>> zeros = np.zeros(5, np.int64)
    >>> first, again = (SeededNoise(7).discrete_laplace(zeros, Fraction(10)) for _ in range(2))
    >>> bool((first == again).all())
    True
    """

    name: ClassVar[str] = "seeded"
    fit_for_release: ClassVar[bool] = False
    seed: InitVar[int]

    def __post_init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise DeclarationError(f"seed: expected a whole number from 0, got {seed!r}")
        words = np.random.PCG64(seed)

        def entropy(size: int) -> bytes:
            return words.random_raw(-(-size // 8)).astype("<u8").tobytes()[:size]

        object.__setattr__(self, "_uniform", UniformIntegers(entropy))


FIT_FOR_RELEASE = (OpenDPNoise, ExactNoise)
"""The sources that protect persons. Any object may say so of itself; these do."""


def noise_source(name: str, *, seed: int | None = None) -> NoiseSource:
    """The source of a declared name: "opendp", "exact", or "seeded" with its seed.

    Raises DeclarationError for any other name, and for a seed that is missing or superfluous.

    >>> noise_source("opendp"), noise_source("seeded", seed=7)
    (OpenDPNoise(), SeededNoise())
    """
    if name == SeededNoise.name:
        if seed is None:
            raise DeclarationError("noise: expected seeded:NUMBER, got 'seeded' without a number")
        return SeededNoise(seed)
    if name not in (OpenDPNoise.name, ExactNoise.name):
        raise DeclarationError(f"noise: expected opendp, exact or seeded, got {name!r}")
    if seed is not None:
        raise DeclarationError(f"noise: expected {name!r} without a seed, got one")
    return OpenDPNoise() if name == OpenDPNoise.name else ExactNoise()


def named_noise(text: str) -> NoiseSource:
    """The source that a setting names: ``opendp``, ``exact`` or ``seeded:NUMBER``.

    One spelling a source, because the name is part of every release key: anything else
    is a DeclarationError.

    >>> named_noise("seeded:7").fit_for_release
    False
    """
    if not re.fullmatch(r"[a-z]+(:(0|[1-9][0-9]{0,17}))?", text):
        raise DeclarationError(f"noise: expected opendp, exact or seeded:NUMBER, got {text[:60]!r}")
    name, _, seed = text.partition(":")
    return noise_source(name, seed=int(seed) if seed else None)


def _candidates(scores: IntArray) -> IntArray:
    """The scores as a flat int64 vector; a choice among none is refused."""
    scores = int64_array(scores, of="scores").ravel()
    if not scores.size:
        raise BoundaryViolation("noisy max: expected at least one candidate, got none")
    return scores


@contextmanager
def _contrib_enabled() -> Iterator[None]:
    """OpenDP's "contrib" feature, while a mechanism is built and no longer.

    The switch is one global set in OpenDP, read by constructors only. Someone else's code in
    this process keeps the setting it chose; the lock is for our own threads.
    """
    from opendp import mod

    with _opendp_features:
        before = "contrib" in mod.GLOBAL_FEATURES
        mod.enable_features("contrib")
        try:
            yield
        finally:
            if not before:
                mod.disable_features("contrib")
