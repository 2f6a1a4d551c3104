"""A reservation: the right of a charged release to read rows, until it is settled."""

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
FOREIGN = "a row that the ledger did not write spoke of it"
"""Reason of a release that `dp-pipeline budget restore` ended."""


class Reservation:
    """The right to draw the noise of one charged release, while its lock is held.

    state   "new": charged just now; draw everything.
            "resumed": charged by a run that did not finish; use its stored answers, draw the rest.
            "settled": finished earlier; return the stored results, draw nothing.

    Comes from ``Ledger.reserve``. If its block ends without ``settle`` or ``die``, the charge
    stays, and the next reservation of the key resumes it.
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
        """Append the ledger row that the release is complete, which ends the reservation.

        spends  all draws of its noise
        facts   stored in the row, such as the digest of the answers

        Raises UnbalancedSpends unless the spends sum to the charge (rounded up once to nano-ε), and
        ReservationOver if the reservation has ended.
        """
        self._require_open()
        charged = self.charge.nano_epsilon
        if not sums_to_charge(tuple(spends), nano=charged):
            total = sum((spend.epsilon for spend in spends), Fraction(0))
            symbol = self.charge.currency.symbol
            raise entries.UnbalancedSpends(
                f"{self.charge.what}: the spends must sum to the charge of "
                f"{symbol}={epsilon_text(Fraction(charged, NANO))}, not to "
                f"{epsilon_text(total)}: report this fault"
            )
        draft = Draft.of(self.charge, "settled", facts=facts, spends=spends)
        self._end(draft, words="is settled already")

    def die(self, reason: str) -> None:
        """Append the ledger row that the release is dead, which ends the reservation: its charge
        stays, and nobody can resume it.

        reason   one line, stored in the row

        Raises ReservationOver if the reservation has ended.
        """
        self._require_open()
        draft = Draft.of(self.charge, "dead", facts={"reason": entries.to_single_line(reason)})
        self._end(draft, words="is dead")

    def leave(self) -> None:
        """End the reservation as its block ends: ``settle`` and ``die`` then raise
        ReservationOver."""
        self._end_words = self._end_words or "ended with its block"

    def _end(self, draft: Draft, *, words: str) -> None:
        self._require_lock()
        with self._book.writing() as page:
            # Read again: on a file system that ignores locks another may have been faster.
            if page.state.unfinished(self.charge.key) is None:
                raise entries.ReservationOver(
                    f"{self.charge.what}: another process has recorded the end of this release, "
                    "so this one cannot: run again"
                )
            page.append(draft)
        self._end_words = words

    def _require_open(self) -> None:
        if self._end_words:
            raise entries.ReservationOver(
                f"{self.charge.what}: a release is recorded inside the block of its reservation, "
                f"but this one {self._end_words}: report this fault"
            )


def reserve_or_resume(page: Page, charge: entries.Charge) -> State:
    """Charge a release and return "new"; if its key was charged before, return "settled" for a
    complete release, else "resumed".

    The ledger gets a row, unless the state is "settled". Where an error is raised, nothing is
    written: BudgetExceeded; DeadRelease if the release is dead; DeclarationError for a population
    without an account or with another currency, and for windows that do not fit the account; and
    Damaged if the key has another charge.
    """
    account = page.require_account(charge.population)
    _require_currency(account, charge)
    past = page.rows_of_release(charge.key)
    if past and past[-1].event == "settled":
        _require_same_charge(charge, past[0])
        return "settled"
    if past and past[-1].event == "dead":
        reason = past[-1].facts.get("reason", "")
        end = "its noisy answers were lost, or its rows were read again,"
        if reason.startswith(GIVEN_UP):
            end = f"it was {reason},"
        elif reason == FOREIGN:
            end = f"{reason},"
        remedy = "its ε is spent: pay for a new draw at the full price with `--new-draw`"
        if charge.kind == "not-dp" and "replicate" in charge.facts:
            remedy = "draw it anew with `--new-draw`"
        elif charge.kind == "not-dp":
            # There is no noise to draw anew, but another snapshot gives another key.
            remedy = "it has no other draw: release a new snapshot with `--snapshot NAME`"
        raise entries.DeadRelease(f"{charge.what}: {end} and {remedy}")
    if past:
        _require_same_charge(charge, past[0])
        page.append(Draft.of(charge, "interrupted", facts=charge.facts))
        return "resumed"
    _require_blocks(account, charge)
    # The page has one moment: the month that has room is the month that is charged.
    page.balance(charge.population, charge.blocks).require_charge(charge)
    page.append(Draft.of(charge, "reserve", nano_epsilon=charge.nano_epsilon, facts=charge.facts))
    return "new"


def state_of(view: View, key: str) -> str | None:
    past = view.rows_of_release(key)
    return past[-1].event if len(past) > 1 else view.state.unfinished(key)


def _require_currency(account: Account, charge: entries.Charge) -> None:
    if charge.currency != account.currency:
        delta = account.currency.delta
        raise DeclarationError(
            f"{charge.what}: the account of population {account.population} is in "
            f"{_words(account.currency)}, but the charge is in {_words(charge.currency)}: declare "
            + (f"`delta: {delta_text(delta)}`" if delta else "no `delta`")
        )


def _require_blocks(account: Account, charge: entries.Charge) -> None:
    """Raise DeclarationError if only one of account and charge has windows, or if the charge names
    several windows whose costs do not add up.

    They do not in ρ, nor with a δ of the charge where all rows of a person are protected.
    """
    if bool(account.windows) != bool(charge.blocks):
        expected = "a charge of a window" if account.windows else "a charge without a window"
        raise DeclarationError(
            f"{charge.what}: the account of population {account.population} needs {expected}, "
            f"but this one has {len(charge.blocks)} windows: correct `windows`"
        )
    # In ρ, or with a δ, a person's rows in m windows cost more than m times those of one.
    is_additive = account.delta is None and not (charge.delta and account.within == "ever")
    if len(charge.blocks) > 1 and not is_additive:
        raise DeclarationError(
            f"{charge.what}: the account of population {account.population} pays in "
            f"{'ρ' if account.delta else 'δ too'}, so a charge must be of one window, not of "
            f"{len(charge.blocks)}: use span 1"
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
            f"nano-{charge.currency.symbol} of population {reserved.population}, δ {delta} and "
            f"windows {blocks}, but {charge.nano_epsilon} of population {charge.population}, δ "
            f"{charge.delta} and windows {charge.blocks} is requested now: report this"
        )
