"""A reservation: a release that has paid and may now look.

Which population may open which source.

Two populations over the same rows are two budgets for the same persons. So a
source belongs to the populations that claimed it:

    asking        held by          answer
    ------        -------          ------
    anyone        nobody           yes
    benchmark     benchmarks only  yes: public rows have no budget to protect
    release       itself only      yes
    release       any other        only with a reason, which is kept in the row
    benchmark     any release      no, whatever the reason, even if it held the source before

The last line is one-way: **from the moment a release population holds a source, no
claim of a benchmark population on it succeeds.** Proof: a claim succeeds for a
benchmark population only if no holder is a release population; holders are rows, rows
are never removed, and the purpose of an account never changes; both are read in
the transaction that would write the claim. Without it one line of a data set
file would print exact numbers about protected persons.

A benchmark's source asked for by a release population exposes nothing new, but
it is refused without a reason as well: its exact numbers are already known, so
the lifetime ε on the release's card would be untrue. With a reason the rows
written to that source from now on are protected, as the last line demands.

What is the same source is said in ``config/source.py``: other spellings of it, a folder and what
lies in it, a hard link. What a data set is called is held like a source: a file that comes to name
another population needs a reason too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from dp_pipeline.config.amounts import NANO, Currency, delta_text, epsilon_text
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.config.source import first_overlap, source_label
from dp_pipeline.ledger import entries
from dp_pipeline.ledger.account import Account
from dp_pipeline.ledger.audit import balances
from dp_pipeline.ledger.book import Book, StillHeld
from dp_pipeline.ledger.head import Draft

if TYPE_CHECKING:
    from dp_pipeline.ledger.view import Page, View

State = Literal["new", "resumed", "settled"]

GIVEN_UP = "given up by "
"""How the reason begins of a release that a person ended; any other died of its lost answers."""


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
        self, book: Book, *, charge: entries.Charge, state: State, still_held: StillHeld
    ) -> None:
        self.state: State = state
        self.charge = charge
        self._book = book
        self._still_held = still_held
        self._over = "is settled already" if state == "settled" else ""

    def settle(
        self, spends: Sequence[entries.SpendRow], *, facts: Mapping[str, str] | None = None
    ) -> None:
        """Record that the release is complete, with everything it drew.

        facts   what the row shall remember of the answers, such as their digest

        Raises UnbalancedSpends unless the spends sum to the charge exactly (a
        charge that they do not fill to a whole nano-ε: after rounding the sum
        up once), and ReservationOver if this reservation has come to an end.
        """
        self._require_open()
        charged = self.charge.nano_epsilon
        if not balances(tuple(spends), nano=charged):
            total = sum((spend.epsilon for spend in spends), Fraction(0))
            symbol = self.charge.currency.symbol
            raise entries.UnbalancedSpends(
                f"{self.charge.what}: charged {symbol}={epsilon_text(Fraction(charged, NANO))}, "
                f"its spends sum to {epsilon_text(total)}"
            )
        draft = Draft.of(self.charge, "settled", facts=facts, spends=spends)
        self._end(draft, over="is settled already")

    def die(self, reason: str) -> None:
        """Record that the answers already drawn are lost: spent, and never to be resumed.

        Raises ReservationOver if this reservation has come to an end.
        """
        self._require_open()
        draft = Draft.of(self.charge, "dead", facts={"reason": entries.as_line(reason)})
        self._end(draft, over="is dead")

    def leave(self) -> None:
        """Called when the lock goes: from now on nothing can be recorded here."""
        self._over = self._over or "was left"

    def _end(self, draft: Draft, *, over: str) -> None:
        self._still_held()
        with self._book.writing() as page:
            # Read again: on a file system that ignores locks another may have been faster.
            if page.state.unfinished(self.charge.key) is None:
                raise entries.ReservationOver(f"{self.charge.what}: ended by another process")
            page.append(draft)
        self._over = over

    def _require_open(self) -> None:
        if self._over:
            raise entries.ReservationOver(f"{self.charge.what}: the reservation {self._over}")


def enter(page: Page, charge: entries.Charge) -> State:
    """Charge a release, or find out how far it came; one transaction, under the key's lock.

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
    asked = Fraction(charge.nano_epsilon, NANO)
    # The page has one moment: the month that has room is the month that is charged.
    page.balance(charge.population, charge.blocks).require_budget(
        asked,
        what=charge.what,
        where=charge.population,
        delta=charge.delta,
        windows=max(1, len(charge.blocks)),
    )
    page.append(Draft.of(charge, "reserve", nano_epsilon=charge.nano_epsilon, facts=charge.facts))
    return "new"


def state_of(view: View, key: str) -> str | None:
    """None, "reserved", "interrupted", "settled" or "dead"."""
    past = view.release(key)
    return past[-1].event if len(past) > 1 else view.state.unfinished(key)


def _require_currency(account: Account, charge: entries.Charge) -> None:
    """A nano-ε counted as a nano-ρ would be another promise: callers convert, and say so."""
    if charge.currency != account.currency:
        raise DeclarationError(
            f"{charge.what}: expected a charge in {_named(account.currency)} as population "
            f"{account.population} was opened, got one in {_named(charge.currency)}"
        )


def _require_blocks(account: Account, charge: entries.Charge) -> None:
    """Where rows are cut a charge says of which windows: no other sum would bind it."""
    if bool(account.windows) != bool(charge.blocks):
        expected = "a charge that names its windows" if account.windows else "one that names none"
        raise DeclarationError(
            f"{charge.what}: expected {expected} as population {account.population} was opened, "
            f"got {' '.join(charge.blocks)[:60] or 'none'}"
        )
    # There all of a person's rows in m windows cost more than m times what those of one do.
    adds = account.delta is None and not (charge.delta and account.within == "ever")
    if len(charge.blocks) > 1 and not adds:
        raise DeclarationError(
            f"{charge.what}: expected a charge of one window, as population {account.population} "
            f"pays in {'ρ' if account.delta else 'δ too'}, got one of {len(charge.blocks)}"
        )


def _named(currency: Currency) -> str:
    if currency.delta is None:
        return "pure ε"
    return f"ρ at δ={delta_text(currency.delta)}"


def _require_same_charge(charge: entries.Charge, reserved: entries.Entry) -> None:
    asked = charge.population, charge.nano_epsilon, charge.delta, charge.blocks
    facts = reserved.facts
    was = (
        reserved.population,
        reserved.nano_epsilon,
        entries.delta_of(facts),
        entries.blocks_of(facts),
    )
    if asked != was:
        raise Damaged(
            f"{charge.what}: key {charge.key[:12]} was reserved with {reserved.nano_epsilon} "
            f"nano-{charge.currency.symbol} of population {reserved.population}, now asked with "
            f"{charge.nano_epsilon} of population {charge.population}"
        )


def claim(
    page: Page, population: str, sources: Sequence[str], *, distinct_population: str | None
) -> None:
    """Let a population hold all of some sources, or none and DeclarationError; holding one already
    is free.
    """
    purpose = page.require_account(population).purpose
    reason = {} if distinct_population is None else {"distinct_population": distinct_population}
    for source in unclaimed(
        page, population, purpose, sources, distinct_population=distinct_population
    ):
        page.append(Draft(event="source", population=population, source=source, facts=reason))


def unclaimed(
    view: View,
    population: str,
    purpose: str,
    sources: Sequence[str],
    *,
    distinct_population: str | None = None,
) -> list[str]:
    """Those of some sources that a population does not hold yet; the population may be unknown.

    Raises DeclarationError where it may not open all of them.
    """
    for source in sources:
        entries.require_text(source, of=f"source of population {population}")
    if distinct_population is not None:
        entries.require_line(
            distinct_population, of=f"distinct_population of population {population}"
        )
    claims = view.state.claims()
    own = {source for source, holder in claims if holder == population}
    new = [source for source in dict.fromkeys(sources) if source not in own]
    if purpose != "release":
        _require_public(view, population, sources, claims)
    elif distinct_population is None:
        _require_own(view, population, new, claims)
    return new


Claims = Sequence[tuple[str, str]]
"""Source and holder, oldest first."""


def _require_public(view: View, population: str, sources: Sequence[str], claims: Claims) -> None:
    """DeclarationError where rows that are to be shown exactly are somebody's to protect: the
    population was opened for releases, or a release population holds a source.
    """
    account = view.account(population)
    if account is not None and account.purpose == "release":
        raise DeclarationError(
            f"population {population}: opened with purpose 'release', now declared with "
            "'benchmark': declare `purpose: release`, whose rows are not shown"
        )
    claims = [one for one in claims if view.require_account(one[1]).purpose == "release"]
    overlap = _overlap(sources, claims)
    if overlap is not None:
        source, holder = overlap
        raise DeclarationError(
            f"{source} is protected by population {holder} (release): as a benchmark, "
            f"population {population} would publish exact numbers about it; only a data set "
            f"with `population: {holder}` and `purpose: release` opens it"
        )


def _require_own(view: View, population: str, sources: Sequence[str], claims: Claims) -> None:
    """DeclarationError where another population holds a source."""
    overlap = _overlap(sources, [one for one in claims if one[1] != population])
    if overlap is not None:
        source, holder = overlap
        held_for = view.require_account(holder).purpose
        raise DeclarationError(
            f"{source} belongs to population {holder} ({held_for}): population {population} "
            "(release) may open it only with distinct_population: <reason>"
        )


def _overlap(sources: Sequence[str], claims: Claims) -> tuple[str, str] | None:
    """The first of some sources that a claim overlaps with, in words, and who holds it."""
    overlap = first_overlap(sources, [source for source, _ in claims])
    if overlap is None:
        return None
    return source_label(overlap[0]), next(who for source, who in claims if source == overlap[1])
