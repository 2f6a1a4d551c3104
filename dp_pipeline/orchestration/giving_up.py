"""Giving up a release that was charged and cannot be finished: a person says so, for ever."""

from __future__ import annotations

from dp_pipeline.ledger import Charge, Entry, Ledger
from dp_pipeline.ledger.reservation import GIVEN_UP
from dp_pipeline.ledger.words import require_line
from dp_pipeline.schema.errors import DeclarationError


def give_up(ledger: Ledger, key: str, *, reason: str, by: str) -> Entry:
    """Mark an unfinished release as dead; gives the row that charged it. What it cost stays spent,
    and its stored answers stay where they are. Waits for who is at work on it.

    key      the first digits of its key, as messages show them: at least 8
    reason   why, in one line; kept in the row

    Raises DeclarationError where not exactly one release begins so, or it has ended already.
    """
    require_line(reason, of="reason to give up a release")
    begun = _begun(ledger, key)
    charge = Charge(
        key=str(begun.key),
        lineage=begun.lineage,
        kind=begun.kind or "dp",
        nano_epsilon=begun.nano_epsilon,
        what=begun.what,
        facts=begun.facts,
        currency=ledger.balance(begun.lineage).currency,
    )
    with ledger.reserve(charge) as reservation:
        if reservation.state == "settled":
            raise _ended(begun, "settled")
        reservation.die(f"{GIVEN_UP}{by}: {reason}")
    return begun


def _begun(ledger: Ledger, key: str) -> Entry:
    found = [
        one
        for one in ledger.entries()
        if one.event == "reserve" and len(key) >= 8 and str(one.key).startswith(key)
    ]
    if len(found) != 1:
        raise DeclarationError(
            f"release: expected the first 8 digits or more of one key, as `dp-pipeline doctor` "
            f"shows them, got {key[:64]!r}"
        )
    state = ledger.state(str(found[0].key))
    if state in ("settled", "dead"):
        raise _ended(found[0], state)
    return found[0]


def _ended(begun: Entry, state: str) -> DeclarationError:
    return DeclarationError(f"{begun.what}: expected an unfinished release, got a {state} one")
