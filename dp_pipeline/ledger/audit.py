"""The audit of a ledger: whether every row could have been written after the rows before it."""

from collections import Counter, defaultdict
from fractions import Fraction

from dp_pipeline.config.amounts import NANO, delta_text, epsilon_text, nano_epsilon
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.ledger.account import LIMITS, WINDOW_FACTS, Account, times_in_windows
from dp_pipeline.ledger.entries import Entry, SpendRow, blocks_of, charge_in_all_windows, delta_of
from dp_pipeline.ledger.state import facts_with_new_limits

_EVERYWHERE = ""
"""In the place of a window: sums that count in all of them."""


def sums_to_charge(spends: tuple[SpendRow, ...], *, nano: int) -> bool:
    """Return whether the sum of the spends' ε or ρ, rounded up to billionths, is ``nano``.

    A charge is ⌈ε·10⁹⌉, so ε itself is known only up to that rounding: the sum
    is compared after the same rounding, once, and not spend by spend.
    """
    return nano_epsilon(sum((spend.epsilon for spend in spends), Fraction(0))) == nano


class Audit:
    """A recomputation of accounts, charges and releases from the rows of a ledger, in their order.

    ``take`` raises Damaged, naming the row, at the first row that the ledger would have refused to
    write. The sums here are computed independently of those in ``state.py``, which decide whether a
    charge is admitted, so that the two can be compared.
    """

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._facts: dict[str, dict[str, str]] = {}
        self._spent: Counter[tuple[str, str]] = Counter()
        self._blocks: Counter[tuple[str, str]] = Counter()
        self._deltas = defaultdict[tuple[str, str], Fraction](Fraction)
        self._reserved: dict[str, Entry] = {}
        self._ended: set[str] = set()

    def account(self, population: str) -> Account:
        """Return the account of a population after the ledger rows taken so far; KeyError if it was
        not opened."""
        return self._accounts[population]

    def reservation(self, key: str) -> Entry:
        """Return the ledger row that reserved the release with a key; KeyError if none did."""
        return self._reserved[key]

    def take(self, entry: Entry) -> None:
        """Check and add the next ledger row; Damaged if the ledger could not have written it."""
        if entry.nano_epsilon < 0:
            raise _impossible(entry, "its charge is negative")
        if entry.event == "restored":
            self._restored(entry)
        elif entry.event == "account":
            if entry.population in self._accounts:
                raise _impossible(entry, f"the account of {entry.population} was open already")
            self._facts[entry.population] = dict(entry.facts)
            self._accounts[entry.population] = self._account(entry)
        elif entry.population not in self._accounts:
            raise _impossible(entry, f"population {entry.population} has no account yet")
        elif entry.event == "raise":
            self._raised(entry)
        elif entry.event == "windows":
            self._add_windows(entry)
        elif entry.event == "reserve":
            self._reserve(entry)
        elif entry.event not in ("source", "retired"):
            self._outcome(entry)

    def _restored(self, entry: Entry) -> None:
        # The charge of a row that replaces an invalid one may exceed every limit.
        if entry.population not in (*self._accounts, ""):
            raise _impossible(entry, f"population {entry.population} has no account yet")
        self._charge(entry)
        if not entry.is_charge or not entry.population:
            return
        self._deltas[entry.population, "in all"] += _delta_of(entry)
        if self._accounts[entry.population].windows:
            # What names no window counts in every one.
            for block in _blocks_of(entry) or (_EVERYWHERE,):
                self._charge_block(entry, block)

    def _charge(self, entry: Entry) -> None:
        for period in ("", entry.time[:7]):
            self._spent[entry.population, period] += charge_in_all_windows(
                entry.nano_epsilon, _blocks_of(entry)
            )

    def _raised(self, entry: Entry) -> None:
        before = self._accounts[entry.population]
        if not entry.facts.keys() <= {*LIMITS, "reason", "by"}:
            raise _impossible(entry, f"it changes more than the limits of {entry.population}")
        self._facts[entry.population] = facts_with_new_limits(
            self._facts[entry.population], entry.facts
        )
        after = self._account(entry)
        try:
            before.require_not_lowered(after)
        except DeclarationError as error:
            raise _impossible(entry, str(error)) from None
        self._accounts[entry.population] = after

    def _add_windows(self, entry: Entry) -> None:
        population, before = entry.population, self._accounts[entry.population]
        if not entry.facts.keys() <= {*LIMITS, *WINDOW_FACTS, "reason", "by"}:
            raise _impossible(entry, f"it changes more than windows and limits of {population}")
        facts = facts_with_new_limits(self._facts[population], entry.facts, also=WINDOW_FACTS)
        self._facts[population] = facts
        spent, delta = self._spent[population, ""], self._deltas[population, "in all"]
        try:
            after = before.with_windows(self._account(entry))
            after.count_earlier_in_window(before, Fraction(spent, NANO), delta=delta)
        except DeclarationError:
            fault = f"its windows, unit or limits do not fit what {population} protected and spent"
            raise _impossible(entry, fault) from None
        self._blocks[population, _EVERYWHERE] = spent * times_in_windows(before, after.unit)
        self._deltas[population, f"block {_EVERYWHERE}"] = delta
        self._accounts[population] = after

    def _account(self, entry: Entry) -> Account:
        try:
            return Account.from_facts(entry.population, self._facts[entry.population])
        except KeyError as error:
            raise _impossible(entry, f"its facts declare no account: no {error}") from None
        except (ValueError, DeclarationError) as error:
            raise _impossible(entry, f"its facts declare no account: {error}") from None

    def _reserve(self, entry: Entry) -> None:
        if entry.key is None:
            raise _impossible(entry, "it names no key of a release")
        if entry.key in self._reserved:
            raise _impossible(entry, f"key {entry.key} was reserved already")
        self._reserved[entry.key] = entry
        population, month = entry.population, entry.time[:7]
        account = self._accounts[population]
        self._charge(entry)
        for period, limit in (("", account.limit), (month, account.month_limit)):
            if limit is not None and Fraction(self._spent[population, period], NANO) > limit:
                of = f" of {period}" if period else ""
                raise _impossible(entry, f"it exceeds the ceiling {epsilon_text(limit)}{of}")
        self._reserve_blocks(entry, account)
        self._deltas[population, "in all"] += _delta_of(entry)
        delta = self._deltas[population, "in all"]
        if account.within == "window":
            everywhere = self._deltas[population, f"block {_EVERYWHERE}"]
            blocks = blocks_of(entry.facts)
            spent = [self._deltas[population, f"block {block}"] + everywhere for block in blocks]
            delta = max(spent, default=Fraction(0))
        if (
            delta_of(entry.facts)
            and account.delta_limit is not None
            and delta > account.delta_limit
        ):
            raise _impossible(
                entry,
                f"it exceeds the ceiling of δ, {delta_text(account.delta_limit)}: with it "
                f"{delta_text(delta)} are spent",
            )

    def _reserve_blocks(self, entry: Entry, account: Account) -> None:
        blocks = _blocks_of(entry)
        if bool(blocks) != bool(account.windows):
            got = "no time window" if account.windows else "time windows"
            expected = "windows" if account.windows else "none"
            fault = f"it names {got}, but the account of {entry.population} has {expected}"
            raise _impossible(entry, fault)
        for block in blocks:
            self._charge_block(entry, block)
            nano = sum(self._blocks[entry.population, name] for name in (block, _EVERYWHERE))
            limit = account.window_limit
            if limit is not None and Fraction(nano, NANO) > limit:
                raise _impossible(entry, f"it exceeds the limit {epsilon_text(limit)} of {block}")

    def _charge_block(self, entry: Entry, block: str) -> None:
        self._blocks[entry.population, block] += entry.nano_epsilon
        self._deltas[entry.population, f"block {block}"] += _delta_of(entry)

    def _outcome(self, entry: Entry) -> None:
        reserved = self._reserved.get(entry.key or "")
        if reserved is None:
            raise _impossible(entry, f"no row before it reserved the release {entry.key}")
        if reserved.population != entry.population:
            whose = f"population {reserved.population}, not {entry.population}"
            raise _impossible(entry, f"the release {entry.key} was reserved by {whose}")
        if entry.nano_epsilon:
            raise _impossible(entry, "it charges, but its release was charged when reserved")
        if reserved.key in self._ended:
            raise _impossible(entry, f"the release {entry.key} ended before")
        if entry.event not in ("interrupted", "settled", "dead"):
            raise _impossible(entry, "its event is not one of a release")
        if entry.kind != reserved.kind:
            kinds = f"its kind is {entry.kind}, not {reserved.kind}"
            raise _impossible(entry, f"{kinds} as reserved for the release {entry.key}")
        if entry.event != "interrupted":
            self._ended.add(reserved.key or "")
        if entry.event == "settled" and not sums_to_charge(
            entry.spends, nano=reserved.nano_epsilon
        ):
            symbol = self._accounts[entry.population].currency.symbol
            total = f"{reserved.nano_epsilon} nano-{symbol}"
            raise _impossible(entry, f"its spends do not sum to {total}")


def _blocks_of(entry: Entry) -> tuple[str, ...]:
    try:
        return blocks_of(entry.facts)
    except Damaged:
        raise _impossible(entry, "its windows cannot be read") from None


def _delta_of(entry: Entry) -> Fraction:
    try:
        return delta_of(entry.facts)
    except Damaged:
        raise _impossible(entry, "its δ cannot be read") from None


def _impossible(entry: Entry, reason: str) -> Damaged:
    return Damaged(f"ledger row {entry.sequence} ({entry.event}) is invalid: {reason}")
