"""Whether rows that match their hashes also tell a possible story."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from dp_pipeline.config.amounts import NANO, epsilon_text, nano_epsilon
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.ledger.account import LIMITS, Account
from dp_pipeline.ledger.entries import Entry, SpendRow, blocks_of, counted, delta_of
from dp_pipeline.ledger.state import merged

_EVERYWHERE = ""
"""In the place of a window: what counts in all of them."""


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
        self._facts: dict[str, dict[str, str]] = {}
        self._spent: Counter[tuple[str, str]] = Counter()
        self._delta_spent: dict[str, Fraction] = {}
        self._blocks: Counter[tuple[str, str]] = Counter()
        self._block_deltas: dict[tuple[str, str], Fraction] = {}
        self._reserved: dict[str, Entry] = {}
        self._ended: set[str] = set()

    def account(self, population: str) -> Account:
        """The account of a population as the entries so far left it."""
        return self._accounts[population]

    def take(self, entry: Entry) -> None:
        """The next entry."""
        if entry.nano_epsilon < 0:
            raise _impossible(entry, "it charges less than nothing")
        if entry.event == "restored":
            self._restored(entry)
        elif entry.event == "account":
            self._opened(entry)
        elif entry.population not in self._accounts:
            raise _impossible(entry, f"population {entry.population} has no account yet")
        elif entry.event == "raise":
            self._raised(entry)
        elif entry.event == "reserve":
            self._reserve(entry)
        elif entry.event not in ("source", "retired"):
            self._outcome(entry)

    def reserved(self, key: str) -> Entry:
        """The row that charged a release."""
        return self._reserved[key]

    def _restored(self, entry: Entry) -> None:
        """What a row that is not the ledger's looked like is charged without asking for room."""
        if entry.population not in (*self._accounts, ""):
            raise _impossible(entry, "it charges nobody")
        for period in ("", entry.time[:7]):
            self._spent[entry.population, period] += counted(entry.nano_epsilon, _blocks_of(entry))
        if not entry.is_charge or not entry.population:
            return
        self._add_delta(entry)
        if self._accounts[entry.population].windows:
            # What names no window counts in every one.
            for block in _blocks_of(entry) or (_EVERYWHERE,):
                self._charge_block(entry, block)

    def _opened(self, entry: Entry) -> None:
        if entry.population in self._accounts:
            raise _impossible(entry, f"the account of {entry.population} was open already")
        self._facts[entry.population] = dict(entry.facts)
        self._accounts[entry.population] = self._account(entry)

    def _raised(self, entry: Entry) -> None:
        before = self._accounts[entry.population]
        if not entry.facts.keys() <= {*LIMITS, "reason", "by"}:
            raise _impossible(entry, f"it changes more than limits of {entry.population}")
        self._facts[entry.population] = merged(self._facts[entry.population], entry.facts)
        after = self._account(entry)
        limits = (before.limit, after.limit), (before.window_limit, after.window_limit)
        comes = bool(before.windows)
        if not comes and before.limit is None:
            raise _impossible(entry, f"{entry.population} has no ceiling that could be raised")
        if any(_is_lower(was, now, comes=comes) for was, now in limits):
            raise _impossible(entry, f"it lowers the ceiling of {entry.population}")
        if (after.delta_ceiling or 0) < (before.delta_ceiling or 0):
            raise _impossible(entry, f"it lowers the ceiling of δ of {entry.population}")
        self._accounts[entry.population] = after

    def _account(self, entry: Entry) -> Account:
        try:
            return Account.from_facts(entry.population, self._facts[entry.population])
        except (KeyError, ValueError, DeclarationError):
            raise _impossible(entry, "it declares no account") from None

    def _reserve(self, entry: Entry) -> None:
        if entry.key is None or entry.key in self._reserved:
            raise _impossible(entry, f"key {entry.key} was reserved already")
        self._reserved[entry.key] = entry
        account, month = self._accounts[entry.population], entry.time[:7]
        for period, limit in (("", account.limit), (month, account.month_limit)):
            self._spent[entry.population, period] += counted(entry.nano_epsilon, _blocks_of(entry))
            spent = Fraction(self._spent[entry.population, period], NANO)
            if limit is not None and spent > limit:
                of = f" of {period}" if period else ""
                raise _impossible(entry, f"it passes the ceiling {epsilon_text(limit)}{of}")
        self._reserve_blocks(entry, account)
        self._add_delta(entry)
        delta, spent = delta_of(entry.facts), self._delta_spent[entry.population]
        if account.within == "window":
            spents = [self._delta_of_block(entry.population, one) for one in blocks_of(entry.facts)]
            spent = max(spents, default=Fraction(0))
        if delta and account.most_delta is not None and spent > account.most_delta:
            raise _impossible(entry, "it passes the ceiling of δ")

    def _add_delta(self, entry: Entry) -> None:
        spent = self._delta_spent.get(entry.population, Fraction(0))
        self._delta_spent[entry.population] = spent + delta_of(entry.facts)

    def _reserve_blocks(self, entry: Entry, account: Account) -> None:
        blocks = _blocks_of(entry)
        if bool(blocks) != bool(account.windows):
            said = "names none of the windows" if account.windows else "names windows"
            raise _impossible(entry, f"it {said} of {entry.population}")
        for block in blocks:
            self._charge_block(entry, block)
            both = (block, _EVERYWHERE)
            nano = sum(self._blocks[entry.population, one] for one in both)
            limit = account.window_limit
            if limit is not None and Fraction(nano, NANO) > limit:
                raise _impossible(entry, f"it passes the limit {epsilon_text(limit)} of {block}")

    def _charge_block(self, entry: Entry, block: str) -> None:
        at = entry.population, block
        self._blocks[at] += entry.nano_epsilon
        self._block_deltas[at] = self._block_deltas.get(at, Fraction(0)) + delta_of(entry.facts)

    def _delta_of_block(self, population: str, block: str) -> Fraction:
        both = ((population, block), (population, _EVERYWHERE))
        return sum((self._block_deltas.get(at, Fraction(0)) for at in both), Fraction(0))

    def _outcome(self, entry: Entry) -> None:
        reserved = self._reserved.get(entry.key or "")
        if reserved is None or reserved.population != entry.population or entry.nano_epsilon:
            raise _impossible(entry, f"it does not belong to the reservation of {entry.key}")
        if reserved.key in self._ended:
            raise _impossible(entry, f"the release {entry.key} had ended")
        if entry.event not in ("interrupted", "settled", "dead"):
            raise _impossible(entry, "no row of a release is called so")
        if entry.kind != reserved.kind:
            raise _impossible(entry, f"the release {entry.key} is {reserved.kind}")
        if entry.event != "interrupted":
            self._ended.add(reserved.key or "")
        if entry.event == "settled" and not balances(entry.spends, nano=reserved.nano_epsilon):
            symbol = self._accounts[entry.population].currency.symbol
            total = f"{reserved.nano_epsilon} nano-{symbol}"
            raise _impossible(entry, f"its spends do not sum to {total}")


def _blocks_of(entry: Entry) -> tuple[str, ...]:
    try:
        return blocks_of(entry.facts)
    except Damaged:
        raise _impossible(entry, "its windows cannot be read") from None


def _is_lower(was: Fraction | None, now: Fraction | None, *, comes: bool) -> bool:
    """Whether a limit goes down, goes, or comes where none may."""
    if was is None:
        return now is not None and not comes
    return now is None or now < was


def _impossible(entry: Entry, why: str) -> Damaged:
    return Damaged(f"ledger row {entry.sequence} ({entry.event}) cannot be: {why}")
