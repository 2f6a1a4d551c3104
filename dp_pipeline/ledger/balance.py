"""Balance: what a population has spent and may still spend, for ever and in this month."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from dp_pipeline.ledger.account import Account
from dp_pipeline.ledger.state import Population
from dp_pipeline.spec.amounts import NANO, PURE, Currency
from dp_pipeline.spec.errors import BudgetExceeded


@dataclass(frozen=True)
class Balance:
    """What a population has spent, exactly, in what its account counts in.

    ceiling      None if there is no limit, or no account yet
    spent        the sum of all charges, settled or not: nothing is ever refunded
    not_dp       how many releases without any ε were made
    currency     pure ε, or ρ with its δ
    per_month    what one month may cost, or None
    month        the calendar month (UTC) that ``month_spent`` is of: "2026-11"
    month_spent  the sum of the charges of that month

    >>> Balance(ceiling=Fraction(2), spent=Fraction(1), per_month=Fraction(1)).left
    Fraction(1, 1)
    """

    ceiling: Fraction | None
    spent: Fraction
    not_dp: int = 0
    currency: Currency = PURE
    per_month: Fraction | None = None
    month: str = ""
    month_spent: Fraction = Fraction(0)

    @property
    def left(self) -> Fraction | None:
        """Ceiling − spent; None if there is no ceiling."""
        return None if self.ceiling is None else self.ceiling - self.spent

    @property
    def month_left(self) -> Fraction | None:
        """What this month may still cost, never more than what is left; None without a limit."""
        if self.per_month is None:
            return None
        left = self.per_month - self.month_spent
        return left if self.left is None else min(left, self.left)

    def require_room(self, asked: Fraction, *, what: str, where: str) -> None:
        """BudgetExceeded where ``asked`` is more than is left, for ever or in this month.

        what    is asked for, in words
        where   the account, in words
        """
        limits = (("", self.spent, self.ceiling), (self.month, self.month_spent, self.per_month))
        for month, spent, limit in limits:
            if limit is not None and spent + asked > limit:
                raise BudgetExceeded(
                    what,
                    asked=asked,
                    spent=spent,
                    ceiling=limit,
                    where=where,
                    symbol=self.currency.symbol,
                    month=month,
                )


def balance_of(account: Account | None, standing: Population | None, *, month: str) -> Balance:
    """The balance of an account that stands as the ledger says; zero and no ceiling without one.

    month   whose charges are ``month_spent``; not before the newest one that was charged
    """
    if account is None or standing is None:
        return Balance(ceiling=None, spent=Fraction(0), month=month)
    month_spent = standing.month_spent if month == standing.month else 0
    return Balance(
        ceiling=account.limit,
        spent=Fraction(standing.spent, NANO),
        not_dp=standing.not_dp,
        currency=account.currency,
        per_month=account.month_limit,
        month=month,
        month_spent=Fraction(month_spent, NANO),
    )


def this_month() -> str:
    """The calendar month in UTC, as the ledger's times begin: "2026-11"."""
    return datetime.now(UTC).strftime("%Y-%m")
