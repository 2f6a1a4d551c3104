"""What releases cost: the price beside every ε, what a population has spent, and what is left.

A price is what the ledger is charged for a release that refines none: its ε and that of its
evaluation, or their ρ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.ledger import Balance
from dp_pipeline.reporting.releases import PrivateRelease
from dp_pipeline.reporting.text import cost_text

Prices = Mapping[Fraction, str]
"""ε as it was asked → what a release at it cost, in words."""


def prices_of(releases: Sequence[PrivateRelease]) -> Prices:
    """The prices of releases with an ε; nothing where each cost just the ε that was asked."""
    found: dict[Fraction, set[Fraction]] = {}
    for one in releases:
        if one.bundle.is_dp:
            asked = Fraction(one.bundle.facts["epsilon"])
            found.setdefault(asked, set()).add(one.bundle.charged_in_all)
    if all(charged == {asked} for asked, charged in found.items()):
        return {}
    symbol = releases[0].bundle.currency.symbol
    return {asked: _price(symbol, charged) for asked, charged in found.items()}


def _price(symbol: str, charged: set[Fraction]) -> str:
    """
    >>> _price("ε", {Fraction(1, 2)}), _price("ρ", {Fraction(1, 2), Fraction(1, 10)})
    ('price ε = 0.5', 'price ρ = 0.1 to 0.5')
    """
    least, most = cost_text(min(charged)), cost_text(max(charged))
    return f"price {symbol} = {least}" if least == most else f"price {symbol} = {least} to {most}"


@dataclass(frozen=True)
class Outlook:
    """What a population has spent when a page is written, and what more it may spend.

    balance   for ever and in this month
    windows   window → what everything drawn of it has cost, where rows are cut
    price     what one more such release costs, or one more such window with all that is published
              of it; None where nothing says what is such
    such      what is counted down: ``releases``, ``weeks`` …
    """

    balance: Balance
    windows: Mapping[str, Fraction] = field(default_factory=dict)
    price: Fraction | None = None
    such: str = "releases"

    @classmethod
    def of(
        cls,
        spec: DatasetSpec,
        balance: Balance,
        releases: Sequence[PrivateRelease],
        windows: Mapping[str, Fraction] | None = None,
    ) -> Outlook:
        """The outlook of the population of a data set.

        releases   those of its page; of windows the newest window first
        """
        dp = [one for one in releases if one.bundle.is_dp]
        if spec.windows is not None:
            newest = [one for one in dp if one.spec.window == dp[0].spec.window]
            # What is of several windows is charged to each of them.
            price = sum((one.bundle.charged_in_all * one.span for one in newest), Fraction(0))
            return cls(balance, windows or {}, price or None, f"{spec.windows.every}s")
        chosen = spec.publish
        named = [
            one.bundle.charged_in_all
            for one in dp
            if chosen is not None
            and one.bundle.model == chosen.model
            and Fraction(one.bundle.facts["epsilon"]) == chosen.epsilon
        ]
        such = "weeks" if spec.refresh == "weekly" else "releases"
        return cls(balance, {}, named[0] if named else None, such)

    @property
    def more(self) -> int | None:
        """How many more such releases or windows what is left pays for; None where nothing limits
        their sum, or nothing says what one costs.
        """
        if self.price is None or self.balance.remaining is None:
            return None
        return math.floor(max(Fraction(0), self.balance.remaining) / self.price)

    @property
    def fullest(self) -> tuple[str, Fraction] | None:
        """The window that has cost most; None where rows are not cut, or nothing was drawn."""
        return max(self.windows.items(), key=lambda pair: pair[1], default=None)
