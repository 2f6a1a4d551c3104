"""Prices of releases, and a forecast of how many more a population can afford.

A price is the charge of a release that refines none: its ε and that of its evaluation, or their ρ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.ledger import Balance
from dp_pipeline.reporting.releases import ReportedPrivateRelease
from dp_pipeline.reporting.text import cost_text

Prices = Mapping[Fraction, str]
"""Requested ε → the price of a release at it, in words."""


def prices_of(releases: Sequence[ReportedPrivateRelease]) -> Prices:
    """Return requested ε → text with the price of the private releases at it, a range if
    their charges differ.

    Releases without an ε are left out. It is {} if each of the others costs exactly its ε.
    """
    charges_at: dict[Fraction, set[Fraction]] = {}
    for release in releases:
        if release.bundle.is_dp:
            epsilon = Fraction(release.bundle.facts["epsilon"])
            charges_at.setdefault(epsilon, set()).add(release.bundle.charged_in_all)
    if all(charged == {epsilon} for epsilon, charged in charges_at.items()):
        return {}
    symbol = releases[0].bundle.currency.symbol
    prices = {}
    for epsilon, charged in charges_at.items():
        least, most = cost_text(min(charged)), cost_text(max(charged))
        range_end = "" if least == most else f" to {most}"
        prices[epsilon] = f"price {symbol} = {least}{range_end}"
    return prices


@dataclass(frozen=True)
class BudgetForecast:
    """What a population has spent, and how many more releases or windows it can afford.

    balance   balance of the population's account
    windows   time window → cost of all its releases; {} without windows
    price     cost of one more release, or of all releases of one more window; None if unknown
    unit      what is counted, in words: ``releases``, ``weeks`` …
    """

    balance: Balance
    windows: Mapping[str, Fraction] = field(default_factory=dict)
    price: Fraction | None = None
    unit: str = "releases"

    @classmethod
    def of(
        cls,
        spec: DatasetSpec,
        balance: Balance,
        releases: Sequence[ReportedPrivateRelease],
        windows: Mapping[str, Fraction] | None = None,
    ) -> BudgetForecast:
        """Return the forecast of a data set's population.

        Its price is the cost of all private releases of the newest window. Without windows it is
        that of the first release by the model and ε that the data set publishes; None without one.

        releases   releases of the data set, those of the newest window first
        windows    time window → cost of all its releases
        """
        dp = [release for release in releases if release.bundle.is_dp]
        if spec.windows is not None:
            newest = [release for release in dp if release.spec.window == dp[0].spec.window]
            # A release of several windows is charged to each of them.
            charges = (release.bundle.charged_in_all * release.span for release in newest)
            price = sum(charges, Fraction(0))
            return cls(balance, windows or {}, price or None, f"{spec.windows.every}s")
        published = spec.publish
        prices = [
            release.bundle.charged_in_all
            for release in dp
            if published is not None
            and release.bundle.model == published.model
            and Fraction(release.bundle.facts["epsilon"]) == published.epsilon
        ]
        unit = "weeks" if spec.refresh == "weekly" else "releases"
        return cls(balance, {}, prices[0] if prices else None, unit)

    @property
    def affordable_count(self) -> int | None:
        """The number of further releases or windows that the population can afford, whatever the
        limit of a month; None without another limit or a price."""
        if self.price is None or self.balance.remaining is None:
            return None
        return math.floor(max(Fraction(0), self.balance.remaining) / self.price)

    @property
    def fullest(self) -> tuple[str, Fraction] | None:
        """The time window with the largest cost, and that cost; None without windows."""
        return max(self.windows.items(), key=lambda pair: pair[1], default=None)
