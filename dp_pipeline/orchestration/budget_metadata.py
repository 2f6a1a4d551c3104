"""Metadata of an account: what is spent and left, its charges, and a picture of them over time."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import dagster as dg

from dp_pipeline.ledger import Balance, Entry, Ledger
from dp_pipeline.orchestration.metadata import Metadata, line_table, picture
from dp_pipeline.reporting.budget_history import BudgetHistory
from dp_pipeline.reporting.charts import budget_staircase
from dp_pipeline.schema.currency import Currency
from dp_pipeline.schema.epsilon import NANO, epsilon_text


def budget_report(ledger: Ledger, lineage: str) -> Metadata:
    """Everything that the budget report shows of one population. The ledger is verified first:
    Damaged where a row is not as it was written.
    """
    verified = ledger.verify()
    balance, entries = ledger.balance(lineage), ledger.entries(lineage)
    history = BudgetHistory.of(lineage, entries, balance.currency)
    return {
        **balance_metadata(balance),
        "ledger/verified rows": dg.MetadataValue.int(verified.sequence),
        "privacy/staircase": picture(budget_staircase(history)),
        "privacy/releases": charge_table(ledger, lineage),
    }


def balance_metadata(balance: Balance) -> Metadata:
    """What is spent, left and allowed for ever, and in this month where that has a limit."""
    amounts = {"spent": balance.spent, "left": balance.left, "ceiling": balance.ceiling}
    if balance.per_month is not None:
        amounts |= {
            f"spent in {balance.month}": balance.month_spent,
            f"left in {balance.month}": balance.month_left,
            "limit of a month": balance.per_month,
        }
    return amount_metadata(amounts, balance.currency)


def limits_metadata(word: str) -> Metadata:
    """One line where the data set file declares other limits than the account has; else nothing."""
    return {"privacy/limits": dg.MetadataValue.text(word)} if word else {}


def amount_metadata(amounts: Mapping[str, Fraction | None], currency: Currency) -> Metadata:
    """Amounts in a currency, exactly, as text; ``none`` where there is no limit."""
    return {
        f"privacy/{name}": dg.MetadataValue.text("none" if one is None else currency.text(one))
        for name, one in amounts.items()
    }


def charge_table(ledger: Ledger, lineage: str) -> dg.MetadataValue:
    """One row a charge of a lineage, oldest first, with the sum so far."""
    lines, total = [], 0
    for entry in ledger.entries(lineage):
        if entry.is_charge:
            total += entry.nano_epsilon
            time = entry.time[:19].replace("T", " ")
            so_far = epsilon_text(Fraction(total, NANO))
            lines.append((time, entry.what, _charged(entry), so_far, entry.kind or ""))
    symbol = ledger.balance(lineage).currency.symbol
    # A narrow window cuts off what stands last.
    return line_table(("time", "release", symbol, "sum", "kind"), lines)


def _charged(entry: Entry) -> str:
    return epsilon_text(Fraction(entry.nano_epsilon, NANO)) if entry.kind == "dp" else "none"
