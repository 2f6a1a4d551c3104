"""Accounts of lineages as plain values, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.ledger import Balance, Ledger
from dp_pipeline.schema.currency import delta_text
from dp_pipeline.schema.epsilon import epsilon_text


@dataclass(frozen=True)
class Budget:
    """One lineage.

    releases   charges, settled or not
    """

    lineage: str
    releases: int
    balance: Balance

    def texts(self) -> dict[str, str]:
        """Exact amounts as text; ``none`` where there is no ceiling. An account in ρ also says
        its δ, and which ε there what was spent means.
        """
        texts, currency = self._texts(epsilon_text), self.balance.currency
        if currency.delta is None:
            return texts
        return {
            **texts,
            "currency": currency.name,
            "delta": delta_text(currency.delta),
            "spent_epsilon": epsilon_text(currency.epsilon_of(self.balance.spent)),
        }

    def cells(self) -> list[str]:
        """One line of a table for a person."""
        return list(self._texts(self.balance.currency.text).values())

    def _texts(self, text: Callable[[Fraction], str]) -> dict[str, str]:
        balance = self.balance
        amounts = {
            "spent": balance.spent,
            "left": balance.left,
            "ceiling": balance.ceiling,
            "per_month": balance.per_month,
            "month_left": balance.month_left,
        }
        return {
            "lineage": self.lineage,
            "releases": str(self.releases),
            "not_dp": str(balance.not_dp),
            **{name: "none" if one is None else text(one) for name, one in amounts.items()},
        }


def budgets(ledger: Ledger, dataset: str | None) -> Sequence[Budget]:
    """Every account, or the one of a data set's lineage; the ledger's chain is verified first."""
    ledger.verify()
    lineages = ledger.lineages()
    if dataset is not None:
        wanted = lineage_of(dataset)
        lineages = tuple(one for one in lineages if one == wanted)
    return [_budget(ledger, lineage) for lineage in lineages]


def lineage_of(dataset: str) -> str:
    """The population of a declared data set; DeclarationError where none is called so."""
    from dp_pipeline.schema.discovery import file_of
    from dp_pipeline.schema.parser import load_spec

    return load_spec(file_of(dataset)).lineage


def _budget(ledger: Ledger, lineage: str) -> Budget:
    return Budget(
        lineage=lineage, releases=ledger.releases(lineage), balance=ledger.balance(lineage)
    )
