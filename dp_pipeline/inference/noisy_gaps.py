"""Noisy gaps: what gaps of pairs of attributes are likely to be, by what was measured.

Post-processing: everything here is public or was released.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray

STEPS = 128
"""Of what a gap may be, where its mean is computed."""

LEAST_MEAN = 1e-3
"""Of the gaps before they are looked at, in reaches of their noise."""

FEWEST_SAID = 10
"""Pairs from which it can be seen how far their gaps are from what something says of them."""
SLOPES = np.linspace(0.0, 2.0, 201)
"""How many times as large gaps may be as that: those that are tried."""
LEAST_SLOPE, MOST_SLOPE = 0.8, 1.25
MOST_OFF = 0.65
LEAST_CORRELATION = 0.6
"""It is believed where gaps are about so many times as large, off from that by so many standard
deviations of their noise at most, and noisy gaps so much correlated with it."""
LEAST_OFF = 0.02
"""How far they are off at least, in reaches of their noise: what is seen of it is noisy too."""


class GapNoise(Protocol):
    """The noise in one of many gaps.

    reach     rows beyond which there is next to none
    variance  in rows²
    """

    @property
    def reach(self) -> float: ...

    @property
    def variance(self) -> float: ...

    def density(self, off: FloatArray) -> FloatArray:
        """How likely it is to be so many rows, but for a factor."""
        ...


@dataclass(frozen=True)
class NoisyGaps:
    """Of pairs, each √(g² + b²) and noise, for a gap of g rows.

    noisy    (pairs,): as they were measured
    beside   (pairs,): b, the rows that the noise of one-way marginals puts there
    noise    of one pair
    """

    noisy: FloatArray
    beside: FloatArray
    noise: GapNoise

    def of(self, places: IntArray) -> NoisyGaps:
        """Those of some pairs alone."""
        return replace(self, noisy=self.noisy[places], beside=self.beside[places])

    def likely(self) -> FloatArray:
        """(pairs,): the mean of g given its noisy value, where g is exponential with the mean that
        they have together.
        """
        square = max(0.0, float(self.noisy.mean())) ** 2 - float((self.beside**2).mean())
        mean = max(square, 0.0) ** 0.5 + LEAST_MEAN * self.noise.reach
        return self._mean(lambda gaps: -gaps / mean)

    def likely_near(self, said: FloatArray) -> FloatArray | None:
        """The same where g is Laplace distributed around a multiple of what something says of it:
        the multiple with the least squares, and as wide as what noise leaves of these tells. None
        where that is not to be believed.

        said   (pairs,): rows
        """
        if len(said) < FEWEST_SAID:
            return None
        expected = np.hypot(SLOPES[:, None] * said, self.beside)
        squares = ((self.noisy - expected) ** 2).mean(axis=1)
        best = int(np.argmin(squares))
        least = (LEAST_OFF * self.noise.reach) ** 2
        off = (max(least, float(squares[best]) - self.noise.variance) / 2) ** 0.5
        (of_noisy, both), (_, of_expected) = np.cov(self.noisy, expected[best])
        if (
            not LEAST_SLOPE <= SLOPES[best] <= MOST_SLOPE
            or off > MOST_OFF * self.noise.variance**0.5
            or both <= LEAST_CORRELATION * (of_noisy * of_expected) ** 0.5
        ):
            return None
        middle = SLOPES[best] * said[:, None]
        return self._mean(lambda gaps: -np.abs(gaps - middle) / off)

    def _mean(self, logarithm: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """(pairs,): of g given its noisy value.

        logarithm   of how likely every g is before that is seen, but for a number
        """
        noisy, reach, beside = self.noisy, self.noise.reach, self.beside
        low = np.sqrt(np.maximum(0.0, np.maximum(0.0, noisy - reach) ** 2 - beside**2))
        width = np.maximum(0.0, noisy + reach - low)
        steps = (np.arange(STEPS) + 0.5) / STEPS
        # Squares of steps: denser where an exponential distribution has its mass.
        gaps = low[:, None] + width[:, None] * steps**2
        before = logarithm(gaps)
        weights = np.exp(before - before.max(axis=1, keepdims=True)) * steps
        weights *= self.noise.density(noisy[:, None] - np.hypot(gaps, beside[:, None]))
        total = weights.sum(axis=1)
        # None where even a gap of 0 is far above what was measured.
        return np.asarray((weights * gaps).sum(axis=1) / np.where(total > 0, total, 1.0))
