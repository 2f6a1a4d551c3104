"""What one release has spent: recorded by the code that draws the noise, never by the model."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.errors import BoundaryViolation, BudgetExceeded

LAPLACE = "discrete Laplace"
NOISY_MAX = "noisy max"


@dataclass(frozen=True)
class Spend:
    """One charged look at the rows.

    what          the question, in words
    mechanism     ``discrete Laplace`` or ``noisy max``
    epsilon       what it cost
    sensitivity   most that one protected unit moves the answer: L1 of a vector for
                  the Laplace, one score for the noisy max; whole numbers
    scale         scale of the noise that was drawn
    """

    what: str
    mechanism: str
    epsilon: Fraction
    sensitivity: int
    scale: Fraction

    @property
    def epsilon_of_scale(self) -> Fraction:
        """The ε that the drawn scale proves, without looking at what was claimed.

        Laplace: Δ1/scale. Noisy max of scores that may move in either direction: 2Δ∞/scale.
        """
        twice = 2 if self.mechanism == NOISY_MAX else 1
        return Fraction(twice * self.sensitivity) / self.scale


class Accountant:
    """Basic composition inside one release: charges add up, and never above ``epsilon``."""

    def __init__(self, epsilon: Fraction) -> None:
        if not isinstance(epsilon, Fraction) or epsilon <= 0:
            raise BoundaryViolation("budget: expected a positive Fraction, got something else")
        self.epsilon = epsilon
        self._spends: list[Spend] = []

    @property
    def spends(self) -> tuple[Spend, ...]:
        """Every charge so far, in order."""
        return tuple(self._spends)

    @property
    def spent(self) -> Fraction:
        """Σ of the charges."""
        return sum((spend.epsilon for spend in self._spends), Fraction(0))

    @property
    def left(self) -> Fraction:
        """What may still be charged."""
        return self.epsilon - self.spent

    def charge(self, spend: Spend) -> None:
        """Record one charge, or raise BudgetExceeded with nothing recorded."""
        if not isinstance(spend.epsilon, Fraction) or spend.epsilon <= 0:
            raise BoundaryViolation(f"{spend.what}: expected a positive Fraction as ε, got another")
        if spend.mechanism not in (LAPLACE, NOISY_MAX):
            raise BoundaryViolation(f"{spend.what}: expected a known mechanism, got another")
        if not isinstance(spend.scale, Fraction) or spend.scale <= 0:
            raise BoundaryViolation(
                f"{spend.what}: expected a positive Fraction as scale, got another"
            )
        if spend.epsilon_of_scale != spend.epsilon:
            raise BoundaryViolation(
                f"{spend.what}: expected a scale that costs ε={spend.epsilon}, "
                f"got one that costs {spend.epsilon_of_scale}"
            )
        if spend.epsilon > self.left:
            raise BudgetExceeded(
                spend.what,
                asked=spend.epsilon,
                spent=self.spent,
                ceiling=self.epsilon,
                where="this release",
            )
        self._spends.append(spend)

    def require_all_spent(self) -> None:
        """Raise unless the charges are exactly the budget: an unspent rest is a wrong claim too."""
        if self.left != 0:
            raise BoundaryViolation(
                f"release: expected charges of exactly ε={epsilon_text(self.epsilon)}, "
                f"got {epsilon_text(self.spent)}"
            )
