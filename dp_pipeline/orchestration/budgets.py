"""Accounts of lineages as plain values, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.ledger import Ledger
from dp_pipeline.schema.currency import Currency, delta_text
from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.errors import DeclarationError


@dataclass(frozen=True)
class Budget:
    """One lineage.

    releases   charges, settled or not
    not_dp     how many of them have no finite ε
    spent, left, ceiling   in ``currency``; the last two None for a benchmark without a ceiling
    """

    lineage: str
    releases: int
    not_dp: int
    spent: Fraction
    left: Fraction | None
    ceiling: Fraction | None
    currency: Currency

    def texts(self) -> dict[str, str]:
        """Exact amounts as text; ``none`` where there is no ceiling. An account in ρ also says
        its δ, and which ε there what was spent means.
        """
        texts = self._texts(epsilon_text)
        if self.currency.delta is None:
            return texts
        return {
            **texts,
            "currency": self.currency.name,
            "delta": delta_text(self.currency.delta),
            "spent_epsilon": epsilon_text(self.currency.epsilon_of(self.spent)),
        }

    def cells(self) -> list[str]:
        """One line of a table for a person."""
        return list(self._texts(self.currency.text).values())

    def _texts(self, text: Callable[[Fraction], str]) -> dict[str, str]:
        return {
            "lineage": self.lineage,
            "releases": str(self.releases),
            "not_dp": str(self.not_dp),
            "spent": text(self.spent),
            "left": "none" if self.left is None else text(self.left),
            "ceiling": "none" if self.ceiling is None else text(self.ceiling),
        }


def budgets(ledger: Ledger, dataset: str | None) -> Sequence[Budget]:
    """Every account, or the one of a data set's lineage; the ledger's chain is verified first."""
    ledger.verify()
    lineages = ledger.lineages()
    if dataset is not None:
        wanted = _lineage_of(dataset)
        lineages = tuple(one for one in lineages if one == wanted)
    return [_budget(ledger, lineage) for lineage in lineages]


def _lineage_of(dataset: str) -> str:
    from dp_pipeline.schema.discovery import dataset_files
    from dp_pipeline.schema.parser import load_spec

    files = dataset_files()
    if dataset not in files:
        raise DeclarationError(
            f"data set: expected one of {', '.join(files)}, got {dataset[:60]!r}"
        )
    return load_spec(files[dataset]).lineage


def _budget(ledger: Ledger, lineage: str) -> Budget:
    balance = ledger.balance(lineage)
    charges = sum(entry.event == "reserve" for entry in ledger.entries(lineage))
    return Budget(
        lineage=lineage,
        releases=charges,
        not_dp=balance.not_dp,
        spent=balance.spent,
        left=balance.left,
        ceiling=balance.ceiling,
        currency=balance.currency,
    )
