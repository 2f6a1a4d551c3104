"""What one release has spent: recorded by the code that draws the noise, never by the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.errors import BoundaryViolation, BudgetExceeded

LAPLACE = "discrete Laplace"
NOISY_MAX = "noisy max"
TREE_PATHS = "discrete Laplace along tree paths"


def biased_splits(fan: int) -> str:
    """The mechanism that says which boxes of a ``fan``-way tree are split (PrivTree)."""
    return f"biased splits in {fan}"


_LOSS = {
    LAPLACE: Fraction(1),
    NOISY_MAX: Fraction(2),
    TREE_PATHS: Fraction(1),
    **{biased_splits(fan): Fraction(2 * fan - 1, fan - 1) for fan in (2, 4, 8, 16)},
}
"""Mechanism → ε of Δ/scale = 1. Their proofs: ``gate.mechanisms``, ``gate.tree_session``,
``gate.split_session``.
"""


@dataclass(frozen=True)
class Spend:
    """One charged look at the rows.

    what          the question, in words
    mechanism     ``discrete Laplace``, ``noisy max``, ``discrete Laplace along tree
                  paths`` or ``biased splits in 2 | 4 | 8 | 16``
    epsilon       what it cost
    sensitivity   most that one protected unit moves the answer: L1 of a vector for
                  the Laplace, one score for the noisy max; whole numbers
    scale         scale of the noise that was drawn; of a tree, the scale of one count
                  that spends a whole path: 1/scale = Σ 1/scale over every path
    """

    what: str
    mechanism: str
    epsilon: Fraction
    sensitivity: int
    scale: Fraction

    @property
    def epsilon_of_scale(self) -> Fraction:
        """The ε that the drawn scale proves, without looking at what was claimed.

        Laplace and tree paths: Δ1/scale. Noisy max of scores that may move in either
        direction: 2Δ∞/scale. Biased splits in β: (2β − 1)/(β − 1) · Δ∞/scale.
        """
        return _LOSS[self.mechanism] * self.sensitivity / self.scale


@dataclass(frozen=True)
class Disclosure:
    """One look at the rows without noise: from then on no ε holds for the release.

    what     the question, in words
    reason   why a published method asks it
    """

    what: str
    reason: str


class Accountant:
    """Basic composition inside one release: charges add up, and never above ``epsilon``."""

    def __init__(self, epsilon: Fraction) -> None:
        if not isinstance(epsilon, Fraction) or epsilon <= 0:
            raise BoundaryViolation("budget: expected a positive Fraction, got something else")
        self.epsilon = epsilon
        self._spends: list[Spend] = []
        self._disclosures: list[Disclosure] = []
        self._settled: list[Callable[[], None]] = []

    @property
    def spends(self) -> tuple[Spend, ...]:
        """Every charge so far, in order."""
        return tuple(self._spends)

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """Every look without noise so far, in order."""
        return tuple(self._disclosures)

    @property
    def kind(self) -> Literal["dp", "not-dp"]:
        """``dp`` while every look had its noise."""
        return "not-dp" if self._disclosures else "dp"

    def disclose(self, disclosure: Disclosure) -> None:
        """Record a look without noise; it is never taken back."""
        self._disclosures.append(disclosure)

    @property
    def spent(self) -> Fraction:
        """Σ of the charges."""
        return sum((spend.epsilon for spend in self._spends), Fraction(0))

    @property
    def left(self) -> Fraction:
        """What may still be charged."""
        return self.epsilon - self.spent

    def charge(self, *spends: Spend, settled: Callable[[], None] | None = None) -> None:
        """Record charges, or raise BudgetExceeded with none of them recorded.

        settled   of a charge that is spent bit by bit: raises while something is left of it
        """
        spent = self.spent
        for spend in spends:
            _require_proven(spend)
            if spent + spend.epsilon > self.epsilon:
                raise BudgetExceeded(
                    spend.what,
                    asked=spend.epsilon,
                    spent=spent,
                    ceiling=self.epsilon,
                    where="this release",
                )
            spent += spend.epsilon
        self._spends += spends
        if settled is not None:
            self._settled.append(settled)

    def require_all_spent(self) -> None:
        """Raise unless the charges are exactly the budget, and all of them were spent: an unspent
        rest is a wrong claim too.
        """
        if self.left != 0:
            raise BoundaryViolation(
                f"release: expected charges of exactly ε={epsilon_text(self.epsilon)}, "
                f"got {epsilon_text(self.spent)}"
            )
        for settled in self._settled:
            settled()


def _require_proven(spend: Spend) -> None:
    """BoundaryViolation unless the scale proves the ε."""
    if not isinstance(spend.epsilon, Fraction) or spend.epsilon <= 0:
        raise BoundaryViolation(f"{spend.what}: expected a positive Fraction as ε, got another")
    if spend.mechanism not in _LOSS:
        raise BoundaryViolation(f"{spend.what}: expected a known mechanism, got another")
    if not isinstance(spend.scale, Fraction) or spend.scale <= 0:
        raise BoundaryViolation(f"{spend.what}: expected a positive Fraction as scale, got another")
    if spend.epsilon_of_scale != spend.epsilon:
        raise BoundaryViolation(
            f"{spend.what}: expected a scale that costs ε={spend.epsilon}, "
            f"got one that costs {spend.epsilon_of_scale}"
        )
