"""One fit of a model: a budget, a curator, the fit, all spent, as claimed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.models.base import Model, PrivacyGuarantee, Released
from dp_pipeline.release.accountant import Accountant, Spend
from dp_pipeline.spec.errors import BoundaryViolation

Ask = Callable[[Accountant], Curator]
"""The curator of some rows, or of stored answers, that spends from an accountant."""


@dataclass(frozen=True)
class Fitted:
    """What one fit gives.

    spends   every look at the rows; they add up to what the model claims
    kind     ``dp``, or ``not-dp`` where anything was disclosed without noise
    """

    released: Released
    spends: tuple[Spend, ...]
    kind: str

    def require_guaranteed(self, guarantee: PrivacyGuarantee, *, what: str) -> None:
        """BoundaryViolation unless a fit that disclosed claims no ε, and no other one does."""
        if self.kind != guarantee.kind:
            raise BoundaryViolation(
                f"{what}: expected a {guarantee.kind} release as claimed, got a {self.kind} one"
            )


def fit(
    model: Model,
    guarantee: PrivacyGuarantee,
    ask: Ask,
    *,
    epsilon: Fraction,
    rng: np.random.Generator,
) -> Fitted:
    """Fit a model with a budget of what it claims; it spends all of that, or BoundaryViolation.

    epsilon   what was asked; ``guarantee`` is what the model promises for it
    rng       for post-processing alone
    """
    accountant = Accountant(guarantee.amount, guarantee.currency)
    released = model.fit(ask(accountant), epsilon=epsilon, rng=rng)
    accountant.require_all_spent()
    return Fitted(released, accountant.spends, accountant.kind)
