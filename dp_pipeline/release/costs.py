"""What the charges of one budget cost the lineage that pays them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dp_pipeline.release.accountant import Spend
from dp_pipeline.schema.currency import PURE, Currency, rho_of_pure


def rho_costs(spends: Sequence[Spend], *, budget: Currency) -> tuple[Fraction, ...]:
    """One ρ a spend; they add up to what the budget costs a lineage that pays in ρ.

    budget   what the spends were accounted in

    In a budget of ρ every pure spend was charged as ε²/2 by itself. A budget of pure ε
    costs ε²/2 as a whole: (Σ ε_i)²/2 was reserved before anyone knew the ε_i, and each
    spend is given its share of it.

    >>> half = Spend("cells", "discrete Laplace", Fraction(1, 2), 1, Fraction(2))
    >>> rho_costs([half, half], budget=PURE)
    (Fraction(1, 4), Fraction(1, 4))
    """
    if budget == PURE:
        total = sum((spend.epsilon for spend in spends), Fraction(0))
        return tuple(spend.epsilon * total / 2 for spend in spends)
    return tuple(
        spend.epsilon if spend.currency == budget.name else rho_of_pure(spend.epsilon)
        for spend in spends
    )
