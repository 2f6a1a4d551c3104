"""ReleaseSummary: what a report says about one release."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.release.accountant import Spend
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.schema.epsilon import epsilon_text


@dataclass(frozen=True)
class ReleaseSummary:
    """One release, in words for a reader.

    epsilon           ε that was asked for, exact text
    spent             ε that was spent, evaluation included, exact text
    evaluation        ε of the evaluation, exact text, or ``none``
    state             how this run came by it: charged, resumed, replayed
    noise             noise source
    fit_for_release   False for a seeded draw: it protects nobody
    spends            every charge, in order
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

    @classmethod
    def of(cls, bundle: Bundle, *, state: str) -> ReleaseSummary:
        """The summary of a stored release."""
        facts = bundle.facts
        return cls(
            model=facts["model"],
            epsilon=facts["epsilon"],
            spent=epsilon_text(bundle.spent),
            evaluation=facts["evaluation"],
            state=state,
            snapshot=facts["snapshot"],
            noise=facts["noise"],
            fit_for_release=bundle.fit_for_release,
            spends=bundle.spends,
        )

    @property
    def charged(self) -> Fraction:
        """Σ of the charges."""
        return sum((spend.epsilon for spend in self.spends), Fraction(0))

    @property
    def name(self) -> str:
        """Model and ε."""
        return f"{self.model} at ε = {self.epsilon}"
