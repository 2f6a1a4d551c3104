"""Whether rows that match their hashes also tell a possible story."""

from __future__ import annotations

from fractions import Fraction

from dp_pipeline.ledger.account import Account
from dp_pipeline.ledger.charge import SpendRow
from dp_pipeline.ledger.entry import Entry
from dp_pipeline.schema.epsilon import NANO, epsilon_text, nano_epsilon
from dp_pipeline.schema.errors import Damaged, DeclarationError


def balances(spends: tuple[SpendRow, ...], *, nano: int) -> bool:
    """Whether the spends sum to the charge, exactly.

    A charge is ⌈ε·10⁹⌉, so ε itself is known only up to that rounding: the sum
    is compared after the same rounding, once, and not spend by spend.
    """
    return nano_epsilon(sum((spend.epsilon for spend in spends), Fraction(0))) == nano


class Audit:
    """Follows every account and release through the entries, in order.

    Every ``take`` raises Damaged, naming the row, at the first entry that the
    ledger's own rules would never have written.
    """

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._spent: dict[str, int] = {}
        self._reserved: dict[str, Entry] = {}
        self._ended: set[str] = set()

    def take(self, entry: Entry) -> None:
        """The next entry."""
        if entry.event == "account":
            self._opened(entry)
        elif entry.lineage not in self._accounts:
            raise _impossible(entry, f"lineage {entry.lineage} has no account yet")
        elif entry.event == "reserve":
            self._reserve(entry)
        elif entry.event != "source":
            self._outcome(entry)

    def _opened(self, entry: Entry) -> None:
        if entry.lineage in self._accounts:
            raise _impossible(entry, f"the account of {entry.lineage} was open already")
        try:
            self._accounts[entry.lineage] = Account.from_facts(entry.lineage, entry.facts)
        except (KeyError, ValueError, DeclarationError):
            raise _impossible(entry, "it declares no account") from None

    def _reserve(self, entry: Entry) -> None:
        if entry.key is None or entry.key in self._reserved:
            raise _impossible(entry, f"key {entry.key} was reserved already")
        self._reserved[entry.key] = entry
        spent = self._spent.get(entry.lineage, 0) + entry.nano_epsilon
        self._spent[entry.lineage] = spent
        limit = self._accounts[entry.lineage].limit
        if limit is not None and Fraction(spent, NANO) > limit:
            raise _impossible(entry, f"it passes the ceiling {epsilon_text(limit)}")

    def _outcome(self, entry: Entry) -> None:
        reserved = self._reserved.get(entry.key or "")
        if reserved is None or reserved.lineage != entry.lineage or entry.nano_epsilon:
            raise _impossible(entry, f"it does not belong to the reservation of {entry.key}")
        if reserved.key in self._ended:
            raise _impossible(entry, f"the release {entry.key} had ended")
        if entry.event != "interrupted":
            self._ended.add(reserved.key or "")
        if entry.event == "settled" and not balances(entry.spends, nano=reserved.nano_epsilon):
            symbol = self._accounts[entry.lineage].currency.symbol
            total = f"{reserved.nano_epsilon} nano-{symbol}"
            raise _impossible(entry, f"its spends do not sum to {total}")


def _impossible(entry: Entry, why: str) -> Damaged:
    return Damaged(f"ledger row {entry.sequence} ({entry.event}) cannot be: {why}")
