"""A balance: what a population has spent, and what it has left of its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from dp_pipeline.config.amounts import NANO, PURE, Currency
from dp_pipeline.config.errors import BudgetExceeded, DeclarationError, float_text
from dp_pipeline.ledger.account import Account
from dp_pipeline.ledger.state import Block, Population


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
    delta_ceiling, delta_spent   of the charges' own δ; a ceiling of None is no limit. Where a
                 person's rows of one window are protected, of the fullest one that is asked about,
                 or of all where none is
    delta_window   that window; empty where ``delta_spent`` is of all charges
    window_ceiling   what one window may cost, or None
    window       of the windows that are asked about the fullest; empty where none is
    window_spent the sum of its charges

    >>> Balance(ceiling=Fraction(2), spent=Fraction(1), per_month=Fraction(1)).remaining
    Fraction(1, 1)
    """

    ceiling: Fraction | None
    spent: Fraction
    not_dp: int = 0
    currency: Currency = PURE
    per_month: Fraction | None = None
    month: str = ""
    month_spent: Fraction = Fraction(0)
    delta_ceiling: Fraction | None = None
    delta_spent: Fraction = Fraction(0)
    window_ceiling: Fraction | None = None
    window: str = ""
    window_spent: Fraction = Fraction(0)
    delta_window: str = ""

    @property
    def remaining(self) -> Fraction | None:
        """Ceiling − spent, and of the window that is asked about where that is less; None if there
        is no ceiling.
        """
        lefts = [] if self.ceiling is None else [self.ceiling - self.spent]
        if self.window_remaining is not None:
            lefts.append(self.window_remaining)
        return min(lefts, default=None)

    @property
    def window_remaining(self) -> Fraction | None:
        """What the window may still cost; None where none is asked about, or has no limit."""
        if not self.window or self.window_ceiling is None:
            return None
        return self.window_ceiling - self.window_spent

    @property
    def month_remaining(self) -> Fraction | None:
        """What this month may still cost, never more than what is left; None without a limit."""
        if self.per_month is None:
            return None
        left = self.per_month - self.month_spent
        return left if self.remaining is None else min(left, self.remaining)

    @property
    def delta_summary(self) -> str:
        """What is spent and left of the charges' own δ, in words; empty where there is none."""
        if not self.delta_ceiling and not self.delta_spent:
            return ""
        if self.delta_ceiling is None:
            return f"spent {float_text(self.delta_spent)}"
        left = float_text(self.delta_ceiling - self.delta_spent)
        ceiling = float_text(self.delta_ceiling)
        return f"spent {float_text(self.delta_spent)}, left {left}, ceiling {ceiling}"

    def require_budget(
        self,
        asked: Fraction,
        *,
        what: str,
        where: str,
        delta: Fraction = Fraction(0),
        windows: int = 1,
    ) -> None:
        """BudgetExceeded where ``asked`` is more than is left, for ever or in this month.

        delta     the δ that is asked for beside it
        what      is asked for, in words
        where     the account, in words
        windows   how many are charged so much: all of them count for ever and in the month
        """
        every = asked * windows
        limits = (
            (("total", ""), every, self.spent, self.ceiling),
            (("per_month", self.month), every, self.month_spent, self.per_month),
            (("each_window", self.window), asked, self.window_spent, self.window_ceiling),
        )
        for part, more, spent, limit in limits if self.window else limits[:2]:
            if limit is not None and spent + more > limit:
                raise BudgetExceeded(
                    what,
                    requested=more,
                    spent=spent,
                    ceiling=limit,
                    where=where,
                    symbol=self.currency.symbol,
                    part=part,
                )
        most = self.delta_ceiling
        if most is not None and self.delta_spent + delta > most and delta:
            raise BudgetExceeded(
                what,
                requested=delta,
                spent=self.delta_spent,
                ceiling=most,
                where=where,
                symbol="δ",
                part=("ceiling", self.delta_window),
            )


def balance_of(
    account: Account | None,
    standing: Population | None,
    *,
    month: str,
    blocks: Mapping[str, Block] | None = None,
    deltas: Mapping[str, Block] | None = None,
) -> Balance:
    """The balance of an account that stands as the ledger says; zero and no ceiling without one.

    month    whose charges are ``month_spent``; not before the newest one that was charged
    blocks   the windows that are asked about, with what was charged to them
    deltas   those whose own δ counts, where a person's rows of one window are protected
    """
    if account is None or standing is None:
        return Balance(ceiling=None, spent=Fraction(0), month=month)
    month_spent = standing.month_spent if month == standing.month else 0
    asked = blocks or {}
    window = max(asked, key=lambda name: asked[name].spent, default="")
    of_delta = {"": Fraction(standing.delta_spent)}
    if account.within == "window":
        of_delta = {name: Fraction(one.delta_spent) for name, one in (deltas or {}).items()}
    delta_window = max(of_delta, key=lambda name: of_delta[name], default="")
    return Balance(
        ceiling=account.limit,
        spent=Fraction(standing.spent, NANO),
        not_dp=standing.not_dp,
        currency=account.currency,
        per_month=account.month_limit,
        month=month,
        month_spent=Fraction(month_spent, NANO),
        delta_ceiling=account.most_delta,
        delta_spent=of_delta.get(delta_window, Fraction(0)),
        delta_window=delta_window,
        window_ceiling=account.window_limit,
        window=window,
        window_spent=Fraction(asked[window].spent if window else 0, NANO),
    )


def this_month() -> str:
    """The calendar month in UTC, as the ledger's times begin: "2026-11"."""
    return datetime.now(UTC).strftime("%Y-%m")


def no_account(population: str) -> DeclarationError:
    """What every request for an unknown population is answered with."""
    return DeclarationError(
        f"population {population}: no account was opened in this ledger: "
        "`dp-pipeline run` of one of its data sets opens it"
    )
