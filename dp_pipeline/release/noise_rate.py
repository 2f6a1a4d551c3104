"""NoiseRate: how the noise in a cell falls with what is paid for its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import pi, sqrt


@dataclass(frozen=True)
class NoiseRate:
    """Planning numbers, floats: nothing is charged by them.

    concentrated   amounts are ρ, noise is Gaussian; else amounts are ε, noise is Laplace
    reach          rows of one protected unit

    One table of ``cells`` for the amount a has a total |noise| of about cells · deviation(a). For
    several tables of weights w that share an amount, Σ w · deviation is least at shares ∝
    w^(1/2) for Laplace (Lagrange: w/a² is equal) and ∝ w^(2/3) for Gaussian noise (w/a^(3/2)).

    >>> NoiseRate(concentrated=False, reach=1).least([4.0, 16.0], 0.5)
    72.0
    """

    concentrated: bool
    reach: int

    def deviation(self, amount: float) -> float:
        """Mean |noise| of one cell."""
        return self.reach / (sqrt(pi * amount) if self.concentrated else amount)

    def variance(self, amount: float) -> float:
        """Variance of the noise in one cell: 2·(reach/ε)², or reach²/(2ρ)."""
        return self.reach**2 / (2 * amount) if self.concentrated else 2 * (self.reach / amount) ** 2

    def together(self, one: float, other: float) -> float:
        """The amount that is worth as much as two measurements for these two amounts."""
        return one + other if self.concentrated else sqrt(one**2 + other**2)

    def for_choice(self, reach: float) -> float:
        """What a choice costs whose noise has a scale of 1 where a unit moves scores by ``reach``:
        noisy max, scale 2·reach/ε; exponential mechanism, scale reach/√(2ρ).
        """
        return reach**2 / 2 if self.concentrated else 2 * reach

    def share(self, weight: float) -> float:
        """What a table's share of the amount is proportional to."""
        return weight ** (2 / 3) if self.concentrated else sqrt(weight)

    def of_shares(self, total: float, amount: float) -> float:
        """Least Σ weight · deviation, from the sum of the shares: (Σs)²/a, or (Σs)^(3/2)/√(πa)."""
        return self.reach * (
            total**1.5 / sqrt(pi * amount) if self.concentrated else total**2 / amount
        )

    def least(self, weights: Sequence[float], amount: float) -> float:
        """Least Σ weight · deviation."""
        return self.of_shares(sum(map(self.share, weights)), amount)

    def whole_shares(self, weights: Sequence[float]) -> list[Fraction]:
        """The shares in whole thousandths and at least one, as exact weights for a split."""
        return [Fraction(max(1, round(1000 * self.share(weight)))) for weight in weights]
