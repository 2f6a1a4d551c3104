"""Step: the charges of one released table, added up by what they were for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.release.accountant import Spend
from dp_pipeline.release.bundle import Bundle

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
