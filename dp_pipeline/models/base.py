"""What a private model is: public parameters, a check of them, and ``fit`` on a Curator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Literal, Protocol, cast

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.release.class_table import ClassTable
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.spec.amounts import PURE, Currency, delta_text, epsilon_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.domain import Domain
from dp_pipeline.spec.errors import BoundaryViolation, DeclarationError

Released = Clusters | SyntheticTable | ClassTable

ROWS_SHARE = Fraction(2, 100)
"""Share of ε that buys a noisy number of rows where none is declared."""


@dataclass(frozen=True)
class Claim:
    """What a model promises for an ε that was asked.

    kind      ``dp``, or ``not-dp`` for a published method without a finite ε
    epsilon   what its noisy answers add up to, at the δ of ``currency`` if there is one;
              for ``not-dp`` no ε of the whole
    reason    why it is not the ε that was asked; empty when it is
    currency  what its noise is accounted in
    """

    kind: Literal["dp", "not-dp"]
    epsilon: Fraction
    reason: str = ""
    currency: Currency = PURE

    def __post_init__(self) -> None:
        if self.kind == "not-dp" and not self.reason:
            raise BoundaryViolation("claim: expected a reason why it is not private, got none")

    @property
    def amount(self) -> Fraction:
        """What the model has to spend, in its currency: ε, or the largest ρ that means it."""
        return self.currency.amount_of(self.epsilon)

    @property
    def is_dp(self) -> bool:
        """Whether ``epsilon`` holds for the whole release."""
        return self.kind == "dp"

    @property
    def is_plain(self) -> bool:
        """Whether the method costs the ε that was asked: only such a release may leave."""
        return not self.reason

    def marked(self, state: str) -> str:
        """A state for a table: with ``not-dp``, or ``composed`` where another ε holds."""
        if self.is_plain:
            return state
        return f"{state}, composed" if self.is_dp else f"{state}, {self.kind}"

    @property
    def composed(self) -> str:
        """The ε that holds, exactly; ``none`` where there is none."""
        return epsilon_text(self.epsilon) if self.is_dp else "none"


class Model(Protocol):
    """A frozen dataclass whose fields are public parameters (see ``parameters``).

    summary   one sentence for lists and the Dagster page

    Optional: ``concentrated``, True where the model accounts in ρ when a δ is declared;
    ``needs_delta``, True where it cannot run without one; ``claim(epsilon)``, where it
    promises another ε than was asked, or none, or ``claim_over(epsilon, domain)``, where
    that depends on the attributes; ``needs_public_rows``, True where it reads the number of
    rows: on benchmarks whose neighbours replace a row alone.
    """

    summary: ClassVar[str]

    def check(self, domain: Domain) -> None:
        """Raise DeclarationError when the parameters do not fit the declared attributes."""
        ...

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Released:
        """Spend exactly the ``amount`` that it claims, which is the budget of the curator.

        ``rng`` is for post-processing only.
        """
        ...


def claim_of(
    model: Model,
    epsilon: Fraction,
    delta: Fraction | None = None,
    *,
    domain: Domain | None = None,
) -> Claim:
    """What a model promises at ``epsilon``: that ε, unless it has a ``claim`` of its own.

    A concentrated model promises ε at a declared δ, and accounts in ρ; any other one
    promises pure ε, δ or not. ``domain`` is for a claim that depends on the attributes.

    Raises DeclarationError for a model that needs a δ where none is declared, and for an ε
    too small to buy a nano-ρ.
    """
    if delta is None and getattr(model, "needs_delta", False):
        raise DeclarationError(f"{type(model).__name__}: expected a declared delta, got none")
    claim = _own_claim(model, epsilon, domain)
    if delta is None or not getattr(model, "concentrated", False):
        return claim
    currency = Currency(delta)
    # What buys nothing is refused here, before anybody plans with it.
    currency.amount_of(claim.epsilon)
    return replace(claim, currency=currency)


def claim_at(model: Model, epsilon: Fraction, delta: Fraction | None) -> Claim:
    """What a model promises to someone who asks for ε at this δ of one fit, without a lineage.

    Raises DeclarationError for a δ that the model has no use for: what it gave would be pure.
    """
    claim = claim_of(model, epsilon, delta)
    if claim.currency.delta != delta:
        raise DeclarationError(
            f"{type(model).__name__}: delta: expected none for a model of pure ε, "
            f"got {delta_text(delta or Fraction(0))}"
        )
    return claim


def _own_claim(model: Model, epsilon: Fraction, domain: Domain | None) -> Claim:
    over, own = getattr(model, "claim_over", None), getattr(model, "claim", None)
    if over is not None:
        return cast(Claim, over(epsilon, domain))
    return Claim("dp", epsilon) if own is None else cast(Claim, own(epsilon))


def declared_claim(spec: DatasetSpec, model: Model, epsilon: Fraction) -> Claim:
    """What a model promises at ``epsilon`` for a data set, under its δ if it declares one."""
    return claim_of(model, epsilon, spec.delta, domain=spec.domain)


def price(spec: DatasetSpec, claim: Claim) -> Fraction:
    """What a release with this claim costs, its evaluation included, in the lineage's currency;
    0 without a finite ε.
    """
    if not claim.is_dp:
        return Fraction(0)
    return spec.charge_for(spec.currency.cost_of(claim.amount, claim.currency))


def clustering_columns(columns: tuple[str, ...], domain: Domain) -> tuple[str, ...]:
    """The numeric attributes to cluster: those named, or all; DeclarationError when none fit."""
    chosen = columns or domain.numeric
    if not chosen:
        raise DeclarationError("clustering: expected numeric attributes with bounds, got none")
    if len(set(chosen)) != len(chosen):
        raise DeclarationError("clustering: expected each column once, got one twice")
    domain.box(chosen)
    return chosen


def planning_units(
    curator: Curator, nominal_rows: int | None, epsilon: Fraction
) -> tuple[float, Fraction]:
    """A number of protected units to plan with, and the ε that is left.

    Published formulas take the number of rows N where a person is one row. A
    person with up to L rows needs noise L times as large, so N rows at reach L
    carry the signal of N/L rows at reach 1. N is the declared ``nominal_rows``,
    or a noisy count that costs 2 % of ε; never the number of rows itself.
    """
    if nominal_rows is not None:
        return nominal_rows / curator.reach, epsilon
    noisy = curator.measure((), epsilon=epsilon * ROWS_SHARE)
    return max(1.0, float(noisy.table)) / curator.reach, epsilon * (1 - ROWS_SHARE)
