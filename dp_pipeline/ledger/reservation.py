"""A reservation: a release that has paid and may now read rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from dp_pipeline.config.amounts import NANO, Currency, delta_text, epsilon_text
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.ledger import entries
from dp_pipeline.ledger.account import Account
from dp_pipeline.ledger.audit import sums_to_charge
from dp_pipeline.ledger.book import Book, RequireLock
from dp_pipeline.ledger.head import Draft

if TYPE_CHECKING:
    from dp_pipeline.ledger.view import Page, View

State = Literal["new", "resumed", "settled"]

GIVEN_UP = "given up by "
"""First words of the reason of a release that a person ended; others died of lost answers."""


class Reservation:
    """The right to draw the noise of one release, while its lock is held.

    state   "new": charged just now; draw everything.
            "resumed": charged earlier by someone who did not finish; replay the
            answers stored, draw only those missing.
            "settled": finished earlier; hand out what is stored, draw nothing.

    Obtained from ``Ledger.reserve``. Leaving its block without ``settle`` or
    ``die`` keeps the charge, and the next one resumes.
    """

    def __init__(
        self, book: Book, *, charge: entries.Charge, state: State, require_lock: RequireLock
    ) -> None:
        self.state: State = state
        self.charge = charge
        self._book = book
        self._require_lock = require_lock
        self._end_words = "is settled already" if state == "settled" else ""

    def settle(
        self, spends: Sequence[entries.SpendRow], *, facts: Mapping[str, str] | None = None
    ) -> None:
        """Record that the release is complete, with everything it drew.

        facts   what the row stores of the answers, such as their digest

        Raises UnbalancedSpends unless the spends sum to the charge exactly (a
        charge that they do not fill to a whole nano-ε: after rounding the sum
        up once), and ReservationOver if this reservation has come to an end.
        """
        self._require_open()
        charged = self.charge.nano_epsilon
        if not sums_to_charge(tuple(spends), nano=charged):
            total = sum((spend.epsilon for spend in spends), Fraction(0))
            symbol = self.charge.currency.symbol
            raise entries.UnbalancedSpends(
                f"{self.charge.what}: charged {symbol}={epsilon_text(Fraction(charged, NANO))}, "
                f"its spends sum to {epsilon_text(total)}"
            )
        draft = Draft.of(self.charge, "settled", facts=facts, spends=spends)
        self._end(draft, words="is settled already")

    def die(self, reason: str) -> None:
        """Record that the answers already drawn are lost: spent, and never to be resumed.

        Raises ReservationOver if this reservation has come to an end.
        """
        self._require_open()
        draft = Draft.of(self.charge, "dead", facts={"reason": entries.to_single_line(reason)})
        self._end(draft, words="is dead")

    def leave(self) -> None:
        """End the reservation when its lock goes: from now on nothing can be recorded here."""
        self._end_words = self._end_words or "was left"

    def _end(self, draft: Draft, *, words: str) -> None:
        self._require_lock()
        with self._book.writing() as page:
            # Read again: on a file system that ignores locks another may have been faster.
            if page.state.unfinished(self.charge.key) is None:
                raise entries.ReservationOver(f"{self.charge.what}: ended by another process")
            page.append(draft)
        self._end_words = words

    def _require_open(self) -> None:
        if self._end_words:
            raise entries.ReservationOver(f"{self.charge.what}: the reservation {self._end_words}")


def reserve_or_resume(page: Page, charge: entries.Charge) -> State:
    """Charge a release, or return how far it came; one transaction, under the key's lock.

    Raises BudgetExceeded (nothing is written), DeadRelease, DeclarationError
    for a population without an account or one that counts in another currency, and
    Damaged if the key was used for a different charge.
    """
    account = page.require_account(charge.population)
    _require_currency(account, charge)
    past = page.release(charge.key)
    if past and past[-1].event == "settled":
        _require_same_charge(charge, past[0])
        return "settled"
    if past and past[-1].event == "dead":
        reason = past[-1].facts.get("reason", "")
        end = f"it was {reason}," if reason.startswith(GIVEN_UP) else "its noisy answers were lost"
        raise entries.DeadRelease(
            f"{charge.what}: {end} and its ε is spent; "
            "only a new draw goes on: `--new-draw`, at the full price"
        )
    if past:
        _require_same_charge(charge, past[0])
        page.append(Draft.of(charge, "interrupted", facts=charge.facts))
        return "resumed"
    _require_blocks(account, charge)
    # The page has one moment: the month that has room is the month that is charged.
    page.balance(charge.population, charge.blocks).require_budget(
        Fraction(charge.nano_epsilon, NANO),
        release=charge.what,
        account=charge.population,
        delta=charge.delta,
        windows=max(1, len(charge.blocks)),
    )
    page.append(Draft.of(charge, "reserve", nano_epsilon=charge.nano_epsilon, facts=charge.facts))
    return "new"


def state_of(view: View, key: str) -> str | None:
    """Return None, "reserved", "interrupted", "settled" or "dead"."""
    past = view.release(key)
    return past[-1].event if len(past) > 1 else view.state.unfinished(key)


def _require_currency(account: Account, charge: entries.Charge) -> None:
    """Refuse another currency: a nano-ε counted as a nano-ρ would be another promise."""
    if charge.currency != account.currency:
        raise DeclarationError(
            f"{charge.what}: expected a charge in {_words(account.currency)} as population "
            f"{account.population} was opened, got one in {_words(charge.currency)}"
        )


def _require_blocks(account: Account, charge: entries.Charge) -> None:
    """Refuse a charge without its windows where rows are partitioned: no other sum binds it."""
    if bool(account.windows) != bool(charge.blocks):
        expected = "a charge with windows" if account.windows else "a charge without windows"
        raise DeclarationError(
            f"{charge.what}: expected {expected}, as population {account.population} was opened, "
            f"got {' '.join(charge.blocks)[:60] or 'none'}"
        )
    # In ρ, or with a δ, a person's rows in m windows cost more than m times those of one.
    is_additive = account.delta is None and not (charge.delta and account.within == "ever")
    if len(charge.blocks) > 1 and not is_additive:
        raise DeclarationError(
            f"{charge.what}: expected a charge of one window, as population {account.population} "
            f"pays in {'ρ' if account.delta else 'δ too'}, got one of {len(charge.blocks)}"
        )


def _words(currency: Currency) -> str:
    if currency.delta is None:
        return "pure ε"
    return f"ρ at δ={delta_text(currency.delta)}"


def _require_same_charge(charge: entries.Charge, reserved: entries.Entry) -> None:
    new = charge.population, charge.nano_epsilon, charge.delta, charge.blocks
    delta, blocks = entries.delta_of(reserved.facts), entries.blocks_of(reserved.facts)
    if new != (reserved.population, reserved.nano_epsilon, delta, blocks):
        raise Damaged(
            f"{charge.what}: key {charge.key[:12]} was reserved with {reserved.nano_epsilon} "
            f"nano-{charge.currency.symbol} of population {reserved.population}, now asked with "
            f"{charge.nano_epsilon} of population {charge.population}"
        )
