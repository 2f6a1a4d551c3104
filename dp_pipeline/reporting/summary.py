"""ReleaseSummary: what a report says about one release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.release.accountant import Spend
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.spend_steps import Step, steps_of
from dp_pipeline.schema.currency import PURE, Currency


@dataclass(frozen=True)
class ReleaseSummary:
    """One release, in words for a reader.

    epsilon           ε that was asked for, exact text
    spent             ε that was spent, evaluation included, exact text, with its ρ where the
                      lineage pays in ρ; ``none`` where no finite ε holds
    evaluation        ε of the evaluation, exact text, or ``none``
    state             how this run came by it: charged, resumed, replayed
    noise             noise source
    fit_for_release   False for a seeded draw, which protects nobody, and beside a caveat
    spends            every charge, in order
    costs             what each of them cost the lineage, in its currency
    earlier           cost of an evaluation that was of other centres, paid with this release
    is_dp             whether a finite ε holds
    caveat            why the ε that was asked does not hold; empty when it does
    currency          what the lineage pays in
    steps             what the charges of a table were for; none of another release
    warnings          what its noisy counts say against it
    """

    model: str
    epsilon: str
    spent: str
    evaluation: str
    state: str
    snapshot: str
    noise: str
    fit_for_release: bool
    spends: tuple[Spend, ...]
    costs: tuple[Fraction, ...]
    earlier: Fraction = Fraction(0)
    is_dp: bool = True
    caveat: str = ""
    currency: Currency = PURE
    steps: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, bundle: Bundle, *, state: str, warnings: Sequence[str] = ()) -> ReleaseSummary:
        """The summary of a stored release."""
        facts = bundle.facts
        return cls(
            model=bundle.model,
            epsilon=facts["epsilon"],
            spent=bundle.spent_text,
            evaluation=facts["evaluation"],
            state=state,
            snapshot=facts["snapshot"],
            noise=facts["noise"],
            fit_for_release=bundle.fit_for_release,
            spends=bundle.spends,
            costs=bundle.costs,
            earlier=bundle.charged - bundle.spent,
            is_dp=bundle.is_dp,
            caveat=bundle.caveat,
            currency=bundle.currency,
            steps=steps_of(bundle),
            warnings=tuple(warnings),
        )

    @property
    def may_be_drawn_again(self) -> bool:
        """Whether its noise is what makes it unfit."""
        return not self.fit_for_release and (not self.caveat or self.noise.startswith("seeded"))

    @property
    def charged(self) -> Fraction:
        """Σ of the costs, with that of earlier centres' evaluation."""
        return sum(self.costs, self.earlier)

    @property
    def name(self) -> str:
        """Model and ε."""
        return f"{self.model} at ε = {self.epsilon}"
