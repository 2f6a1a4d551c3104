"""What a private model is: public parameters, a check of them, and ``fit`` on a Curator."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, Protocol, cast

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.product import ProductTable
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.errors import BoundaryViolation, DeclarationError
from dp_pipeline.schema.spec import DatasetSpec

Released = Clusters | ProductTable

ROWS_SHARE = Fraction(2, 100)
"""Share of ε that buys a noisy number of rows where none is declared."""


@dataclass(frozen=True)
class Claim:
    """What a model promises for an ε that was asked.

    kind      ``dp``, or ``not-dp`` for a published method without a finite ε
    epsilon   what its noisy answers add up to; for ``not-dp`` no ε of the whole
    reason    why it is not the ε that was asked; empty when it is
    """

    kind: Literal["dp", "not-dp"]
    epsilon: Fraction
    reason: str = ""

    def __post_init__(self) -> None:
        if self.kind == "not-dp" and not self.reason:
            raise BoundaryViolation("claim: expected a reason why it is not private, got none")

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
    """

    summary: ClassVar[str]

    def check(self, domain: Domain) -> None:
        """Raise DeclarationError when the parameters do not fit the declared attributes."""
        ...

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Released:
        """Spend exactly ``claim_of(self, epsilon).epsilon`` through the curator.

        ``rng`` is for post-processing only.
        """
        ...


def claim_of(model: Model, epsilon: Fraction) -> Claim:
    """What a model promises at ``epsilon``: that ε, unless it has a ``claim`` of its own."""
    own = getattr(model, "claim", None)
    return Claim("dp", epsilon) if own is None else cast(Claim, own(epsilon))


def price(spec: DatasetSpec, claim: Claim) -> Fraction:
    """What a release with this claim charges, its evaluation included; 0 without a finite ε."""
    return spec.charge_for(claim.epsilon) if claim.is_dp else Fraction(0)


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
