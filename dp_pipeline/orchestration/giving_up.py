"""Giving up a release that was charged and cannot be finished: a person says so, for ever."""

from __future__ import annotations

from dp_pipeline.ledger import Charge, Entry, Ledger
from dp_pipeline.ledger.home import Home
from dp_pipeline.ledger.reservation import GIVEN_UP
from dp_pipeline.ledger.words import require_line
from dp_pipeline.release.answer_count import AnswerCount
from dp_pipeline.schema.errors import DeclarationError

_SHORTEST = 8
"""Digits of a key that name a release."""


def give_up(home: Home, key: str, *, reason: str, by: str) -> Entry:
    """Mark an unfinished release as dead; gives the row that charged it. What it cost stays spent,
    and its stored answers stay where they are. Waits for who is at work on it.

    key      the first digits of its key, as messages show them: at least 8
    reason   why, in one line; kept in the row

    Raises DeclarationError where not exactly one unfinished release begins so.
    """
    require_line(reason, of="reason to give up a release")
    ledger = home.ledger
    begun = ledger.history(_unfinished(ledger, key))[0]
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
            raise DeclarationError(
                f"{begun.what}: expected an unfinished release, got a settled one"
            )
        reservation.die(f"{GIVEN_UP}{by}: {reason}")
    AnswerCount(home.answer_counts / charge.key).end()
    return begun


def _unfinished(ledger: Ledger, key: str) -> str:
    """The whole key of the one unfinished release that begins so."""
    if len(key) < _SHORTEST:
        raise DeclarationError(
            f"release: expected the first {_SHORTEST} digits or more of its key, as `dp-pipeline "
            f"doctor` shows them, got {key!r}"
        )
    found = [one for one in ledger.unfinished() if one.startswith(key)]
    if not found:
        raise DeclarationError(
            f"release {key[:64]}: expected an unfinished one, got none with such a key: it has "
            "ended, or it was never charged"
        )
    if len(found) > 1:
        raise DeclarationError(
            f"release {key[:64]}: expected the key of one unfinished release, got {len(found)} "
            f"that begin so, such as {found[0]} and {found[1]}: say more digits"
        )
    return found[0]
