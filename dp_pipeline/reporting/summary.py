"""ReleaseSummary: what a report says about one release.

Step: the charges of one released table, added up by what they were for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.release.accountant import Spend
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.spec.amounts import PURE, Currency

ROWS, ONE_WAYS, STRUCTURE = "number of rows", "one-way marginals", "structure"
TABLES, EVALUATION = "tables of several attributes", "evaluation"


@dataclass(frozen=True)
class Step:
    """Some charges of one release.

    name      ``number of rows``, ``one-way marginals``, ``structure`` (what decided which tables
              to measure), ``tables of several attributes`` or ``evaluation``
    charges   how many
    cost      Σ of their costs, in what the lineage pays in
    share     of the cost of the whole release, in 0..1
    """

    name: str
    charges: int
    cost: Fraction
    share: Fraction


def steps_of(bundle: Bundle) -> tuple[Step, ...]:
    """The steps of a released table, in reading order and without those that it did not take;
    none for other releases.
    """
    if "cliques" not in bundle.tables:
        return ()
    costs: dict[str, list[Fraction]] = {}
    names = _names(bundle.spends, drawn=bundle.model_spends)
    for name, cost in zip(names, bundle.costs, strict=True):
        costs.setdefault(name, []).append(cost)
    reading = (ROWS, ONE_WAYS, STRUCTURE, TABLES, EVALUATION)
    sums = {name: sum(costs[name], Fraction(0)) for name in reading if name in costs}
    return tuple(
        Step(name, len(costs[name]), cost, cost / bundle.spent) for name, cost in sums.items()
    )


def _names(spends: Sequence[Spend], *, drawn: int) -> Iterator[str]:
    for at, spend in enumerate(spends):
        yield _name(spend.what) if at < drawn else EVALUATION


def _name(what: str) -> str:
    """The step of a question, from the gate's own words for it."""
    if what == ROWS:
        return ROWS
    if what.startswith("marginal of "):
        return TABLES if ", " in what else ONE_WAYS
    # What a sparse table answers is its cells; every other question asks for a choice or a score.
    return TABLES if what.startswith("cells of ") else STRUCTURE


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
