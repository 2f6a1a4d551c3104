"""BudgetHistory: what one population was charged over time, and what it was allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from itertools import accumulate

from dp_pipeline.ledger import Entry
from dp_pipeline.schema.currency import PURE, Currency
from dp_pipeline.schema.epsilon import NANO

_UNLIMITED = "none"


@dataclass(frozen=True)
class BudgetHistory:
    """One account in the order of its rows, all amounts in its currency.

    lineage    the population
    charges    (time, amount) of every charge that has an ε
    ceilings   (time, ceiling from then on); None where there is none
    limits     (time, most of a calendar month from then on); None where there is none

    >>> history = BudgetHistory("trips", ((datetime(2026, 1, 5), Fraction(1, 2)),), (), ())
    >>> history.months
    {datetime.datetime(2026, 1, 1, 0, 0): Fraction(1, 2)}
    """

    lineage: str
    charges: tuple[tuple[datetime, Fraction], ...]
    ceilings: tuple[tuple[datetime, Fraction | None], ...]
    limits: tuple[tuple[datetime, Fraction | None], ...]
    currency: Currency = PURE

    @classmethod
    def of(cls, lineage: str, entries: Sequence[Entry], currency: Currency) -> BudgetHistory:
        """The history that the ledger's rows of one lineage tell."""
        declared = [one for one in entries if one.event in ("account", "raise")]
        charged = [one for one in entries if one.is_charge and one.nano_epsilon]
        return cls(
            lineage=lineage,
            charges=tuple((_time(one), Fraction(one.nano_epsilon, NANO)) for one in charged),
            ceilings=tuple((_time(one), _amount(one, "limit", "ceiling")) for one in declared),
            limits=tuple(
                (_time(one), _amount(one, "month_limit", "per_month")) for one in declared
            ),
            currency=currency,
        )

    @property
    def sums(self) -> tuple[Fraction, ...]:
        """What had been spent after every charge."""
        return tuple(accumulate(amount for _, amount in self.charges))

    @property
    def months(self) -> dict[datetime, Fraction]:
        """First moment of a calendar month with charges → their sum."""
        sums: dict[datetime, Fraction] = {}
        for time, amount in self.charges:
            month = time.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            sums[month] = sums.get(month, Fraction(0)) + amount
        return sums


def _time(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.time).astimezone(UTC)


def _amount(entry: Entry, *names: str) -> Fraction | None:
    """The first of some facts that the row has: an account in pure ε writes no limit beside its
    ceiling.
    """
    text = next((entry.facts[name] for name in names if name in entry.facts), _UNLIMITED)
    return None if text == _UNLIMITED else Fraction(text)
