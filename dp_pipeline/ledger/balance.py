"""A balance: the amounts that a population has spent and has left of each of its limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from dp_pipeline.config.amounts import NANO, PURE, Currency
from dp_pipeline.config.errors import BudgetExceeded, DeclarationError, float_text
from dp_pipeline.ledger.account import Account
from dp_pipeline.ledger.entries import Charge
from dp_pipeline.ledger.state import Block, Population


@dataclass(frozen=True)
class Balance:
    """The exact amounts that a population has spent, with its limits, in its account's currency.

    ceiling      None if there is no limit, or no account yet
    spent        the sum of all charges, settled or not: nothing is ever refunded
    not_dp       how many releases without any ε were made
    currency     pure ε, or ρ with its δ
    per_month    what one month may cost, or None
    month        the calendar month (UTC) that ``month_spent`` is of: "2026-11"
    month_spent  the sum of the charges of that month
    delta_ceiling, delta_spent   of the charges' own δ; a ceiling of None is no limit. Where a
                 person's rows of one window are protected, of the fullest requested window, or of
                 the fullest of all where none is requested
    delta_window   that window; empty where ``delta_spent`` is of all charges
    window_ceiling   what one window may cost, or None
    window       the fullest of the requested windows; empty where none is requested
    window_spent the sum of its charges
    in_every_window   what was charged before there were windows, as it counts in each

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
    in_every_window: Fraction = Fraction(0)

    @property
    def remaining(self) -> Fraction | None:
        """The smaller of the amounts left in total and in ``window``, whatever the month; None:
        neither has a limit."""
        amounts = [] if self.ceiling is None else [self.ceiling - self.spent]
        if self.window_remaining is not None:
            amounts.append(self.window_remaining)
        return min(amounts, default=None)

    @property
    def window_remaining(self) -> Fraction | None:
        """The amount that is left in ``window``; None without a window or a limit."""
        if not self.window or self.window_ceiling is None:
            return None
        return self.window_ceiling - self.window_spent

    @property
    def month_remaining(self) -> Fraction | None:
        """The amount left in ``month``, at most ``remaining``; None without a limit per month."""
        if self.per_month is None:
            return None
        amount = self.per_month - self.month_spent
        return amount if self.remaining is None else min(amount, self.remaining)

    @property
    def delta_summary(self) -> str:
        """A phrase with the δ that is spent and, under a limit, the δ that is left and the limit;
        empty if no δ is spent or allowed."""
        if not self.delta_ceiling and not self.delta_spent:
            return ""
        if self.delta_ceiling is None:
            return f"spent {float_text(self.delta_spent)}"
        remaining = float_text(self.delta_ceiling - self.delta_spent)
        ceiling = float_text(self.delta_ceiling)
        return f"spent {float_text(self.delta_spent)}, left {remaining}, ceiling {ceiling}"

    def require_charge(self, charge: Charge) -> None:
        """Raise BudgetExceeded if any limit, of ε, ρ or δ, leaves less than a charge needs."""
        self.require_budget(
            Fraction(charge.nano_epsilon, NANO),
            release=charge.what,
            account=charge.population,
            delta=charge.delta,
            windows=max(1, len(charge.blocks)),
        )

    def require_budget(
        self,
        amount: Fraction,
        *,
        release: str,
        account: str,
        delta: Fraction = Fraction(0),
        windows: int = 1,
    ) -> None:
        """Raise BudgetExceeded if less than a charge needs is left in total, in ``month``, in
        ``window`` or of δ.

        amount, delta      the charge in ε or ρ, and its own δ
        release, account   their names, for the message
        windows            number of windows that are each charged the amount; in total and in the
                           month it counts once for each
        """
        total = amount * windows
        parts = [
            (("total", ""), total, self.spent, self.ceiling),
            (("per_month", self.month), total, self.month_spent, self.per_month),
        ]
        if self.window:
            window = ("each_window", self.window)
            parts.append((window, amount, self.window_spent, self.window_ceiling))
        if delta:
            parts.append(
                (("ceiling", self.delta_window), delta, self.delta_spent, self.delta_ceiling)
            )
        for part, charged, spent, limit in parts:
            if limit is not None and spent + charged > limit:
                raise BudgetExceeded(
                    release,
                    requested=charged,
                    spent=spent,
                    ceiling=limit,
                    where=account,
                    symbol="δ" if part[0] == "ceiling" else self.currency.symbol,
                    part=part,
                )


def balance_of(
    account: Account | None,
    sums: Population | None,
    *,
    month: str,
    blocks: Mapping[str, Block] | None = None,
    delta_blocks: Mapping[str, Block] | None = None,
) -> Balance:
    """Return the balance of an account from the sums of its charges; all zero without an account.

    month    the calendar month that ``month_spent`` is about, not before the newest charged one
    blocks   name → sums of each requested window; the balance shows the one with most spent
    delta_blocks   name → sums of each window whose δ counts, where the account protects a person's
             rows of one window; the balance shows the one with most δ
    """
    if account is None or sums is None:
        return Balance(ceiling=None, spent=Fraction(0), month=month)
    blocks = blocks or {}
    window = max(blocks, key=lambda name: blocks[name].spent, default="")
    deltas = {"": Fraction(sums.delta_spent)}
    if account.within == "window":
        deltas = {name: Fraction(sum_.delta_spent) for name, sum_ in (delta_blocks or {}).items()}
    delta_window = max(deltas, key=lambda name: deltas[name], default="")
    return Balance(
        ceiling=account.limit,
        spent=Fraction(sums.spent, NANO),
        not_dp=sums.not_dp,
        currency=account.currency,
        per_month=account.month_limit,
        month=month,
        month_spent=Fraction(sums.month_spent if month == sums.month else 0, NANO),
        delta_ceiling=account.delta_limit,
        delta_spent=deltas.get(delta_window, Fraction(0)),
        delta_window=delta_window,
        in_every_window=Fraction(sums.everywhere, NANO),
        window_ceiling=account.window_limit,
        window=window,
        window_spent=Fraction(blocks[window].spent if window else 0, NANO),
    )


def this_month() -> str:
    return datetime.now(UTC).strftime("%Y-%m")


def no_account(population: str) -> DeclarationError:
    """Return, do not raise, the error for a population that has no account."""
    return DeclarationError(
        f"population {population}: no account was opened in this ledger: "
        "`dp-pipeline run` of one of its data sets opens it"
    )
