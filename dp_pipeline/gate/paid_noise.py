"""PaidNoise: a charge and the noise that it pays for, in the currency of the release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_pipeline.gate import mechanisms
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.release.accountant import EXPONENTIAL, GAUSSIAN, LAPLACE, NOISY_MAX, Spend
from dp_pipeline.schema.currency import PURE, Currency
from dp_pipeline.schema.encoding import IntArray


@dataclass(frozen=True)
class PaidNoise:
    """One question's charge, and the function that makes its exact answer noisy."""

    spend: Spend
    make_noisy: Callable[[IntArray], IntArray]


@dataclass(frozen=True)
class Prices:
    """What noise costs in one release.

    currency   ε or ρ: which mechanisms are used where both would do
    noise      where it is drawn
    """

    currency: Currency
    noise: NoiseSource

    def of_vector(self, what: str, *, l1: int, l2_squared: int, amount: Fraction) -> PaidNoise:
        """Noise on whole numbers that a protected unit moves by at most ``l1`` in L1 and by
        ``l2_squared`` in squared L2: Laplace for an ε, Gaussian for a ρ.
        """
        if self.currency == PURE:
            return self.of_laplace(what, l1=l1, epsilon=amount)
        return self.of_gaussian(what, l2_squared=l2_squared, rho=amount)

    def of_laplace(self, what: str, *, l1: int, epsilon: Fraction) -> PaidNoise:
        """Discrete Laplace noise on a vector."""
        scale = mechanisms.laplace_scale(l1=l1, epsilon=epsilon)

        def make_noisy(exact: IntArray) -> IntArray:
            return mechanisms.measure(exact, l1=l1, epsilon=epsilon, noise=self.noise)

        return PaidNoise(Spend(what, LAPLACE, epsilon, l1, scale), make_noisy)

    def of_gaussian(self, what: str, *, l2_squared: int, rho: Fraction) -> PaidNoise:
        """Discrete Gaussian noise on a vector."""
        variance = mechanisms.gaussian_variance(l2_squared=l2_squared, rho=rho)

        def make_noisy(exact: IntArray) -> IntArray:
            return mechanisms.measure_gaussian(
                exact, l2_squared=l2_squared, rho=rho, noise=self.noise
            )

        return PaidNoise(Spend(what, GAUSSIAN, rho, l2_squared, variance, "zcdp"), make_noisy)

    def of_choice(self, what: str, *, linf: int, amount: Fraction) -> PaidNoise:
        """The place of a nearly highest score, of which a unit moves each by at most ``linf``:
        noisy max for an ε, the exponential mechanism for a ρ.
        """
        if self.currency == PURE:
            scale = mechanisms.choice_scale(linf=linf, epsilon=amount)
            spend = Spend(what, NOISY_MAX, amount, linf, scale)
        else:
            scale = mechanisms.exponential_scale(linf=linf, rho=amount)
            spend = Spend(what, EXPONENTIAL, amount, linf, scale, "zcdp")

        def make_noisy(scores: IntArray) -> IntArray:
            if self.currency == PURE:
                at = mechanisms.choose(scores, linf=linf, epsilon=amount, noise=self.noise)
            else:
                at = mechanisms.choose_exponential(scores, linf=linf, rho=amount, noise=self.noise)
            return np.array(at, dtype=np.int64)

        return PaidNoise(spend, make_noisy)
