"""Publishing one release: reserve, ask through the gate, store, settle; or replay at no cost.

The order is the promise. The charge is in the ledger before the first look;
each noisy answer is on disk before the model sees it; the bundle is on disk
before the charge is settled. Whatever stops between two steps, the next run
with the same key goes on under the old charge.

Giving up a release that was charged and cannot be finished: a person says so, for ever.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dp_pipeline.files import sweep
from dp_pipeline.ledger import Charge, Entry, Ledger, Reservation, SpendRow
from dp_pipeline.ledger.entries import require_line
from dp_pipeline.ledger.reservation import GIVEN_UP
from dp_pipeline.publish.account import require_snapshot
from dp_pipeline.publish.draw import (
    begun_by_another,
    draw,
    rehearse,
    require_affordable,
    require_as_begun,
)
from dp_pipeline.publish.home import Home
from dp_pipeline.publish.release import ROWS, Release
from dp_pipeline.publish.replay import facts_of, reserved_entry, restored, settled_bundle
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.release.bundle import Bundle, ReleaseKey
from dp_pipeline.release.transcript import AnswerCount, AnswersLost, Transcript
from dp_pipeline.spec.errors import DeclarationError, OtherQuestion

State = Literal["charged", "resumed", "replayed"]


@dataclass(frozen=True)
class Published:
    """A bundle and how it was come by.

    state   ``charged``: drawn now and paid for; ``resumed``: finished under a charge
            made earlier; ``replayed``: stored before, nothing read, nothing paid
    nano    nano-ε, or nano-ρ, that this run charged to the ledger
    folder  where the bundle lies
    """

    bundle: Bundle
    state: State
    nano: int
    folder: Path


def publish(release: Release, *, fresh: bool = False) -> Published:
    """The bundle of one release: replayed when it was ever settled, else charged and drawn.

    Raises BudgetExceeded when the ceiling would be passed, NotPrepared when the snapshot is
    not fit; then nothing was charged and nothing drawn.
    """
    ledger = release.home.ledger
    release.require_fit_noise()
    snapshot = require_snapshot(release.spec, release.home)
    key = release.key(ledger, snapshot, fresh=fresh)
    if ledger.state(key.digest) == "settled":
        return _replayed(release, key, ledger)
    counter = MemoryCounter.open(release.spec, snapshot)
    charge = release.charge(key, rows=counter.fingerprint)
    if ledger.state(key.digest) is None:
        require_affordable(charge, ledger)
        rehearse(release, key)
        _begin(release, key, ledger)
    with ledger.reserve(charge) as reservation:
        if reservation.state == "settled":
            return _replayed(release, key, ledger)
        path = _draw_reserved(release, key, counter, reservation)
    bundle = settled_bundle(release.store, path, ledger=ledger, lineage=key.lineage)
    if reservation.state == "resumed":
        return Published(bundle, "resumed", 0, path)
    return Published(bundle, "charged", charge.nano_epsilon, path)


def _begin(release: Release, key: ReleaseKey, ledger: Ledger) -> None:
    """Everything that a charged release must have on disk, before it is charged."""
    store = release.store
    store.begin(store.folder(key), key.lineage)
    Transcript.create(store.transcript_path(key), key.digest, salt=_salt(key, ledger))
    _count(release, key).begin()


def _count(release: Release, key: ReleaseKey) -> AnswerCount:
    return AnswerCount(release.home.answer_counts / key.digest)


def _salt(key: ReleaseKey, ledger: Ledger) -> bytes:
    """Known to who holds the lineage's key only, and the same in every process."""
    return hmac.digest(ledger.key(key.lineage), f"transcript {key.digest}".encode(), "sha256")


def _replayed(release: Release, key: ReleaseKey, ledger: Ledger) -> Published:
    """A settled release from the store; made again from its transcript where it is not there, or
    was never asked for with this post-processing.
    """
    store, path = release.store, release.store.bundle_path(key, release.postprocessing)
    if not path.exists():
        bundle = restored(release, key, path)
        store.begin(path.parent, key.lineage)
        store.write(path, bundle, key=ledger.key(key.lineage))
    # Left behind by a run that was killed once it had settled.
    _count(release, key).end()
    bundle = settled_bundle(store, path, ledger=ledger, lineage=key.lineage)
    return Published(bundle, "replayed", 0, path)


def _draw_reserved(
    release: Release, key: ReleaseKey, counter: MemoryCounter, reservation: Reservation
) -> Path:
    """Draw what the transcript does not hold yet, store the bundle, settle the charge.

    A transcript that lost answers ends the key: they may have been seen. So do rows that are not
    those of the first answers: all of them together would be of two data sets. Damage elsewhere,
    in the ledger or a stored bundle, ends nothing: it can be mended, and the answers are whole.
    """
    require_as_begun(release, key)
    store, ledger, count = release.store, release.home.ledger, _count(release, key)
    sweep(store.folder(key))
    secret = ledger.key(key.lineage)
    path = store.bundle_path(key, release.postprocessing)
    stored = [store.sealed(one, key=secret) for one in store.bundle_paths(key)]
    begun = reserved_entry(key.digest, key.lineage, ledger)
    try:
        # First: one of another format is whole, and refused.
        transcript = Transcript(store.transcript_path(key))
        if reservation.state == "resumed":
            _require_same_rows(begun, key, counter)
        transcript.require_begun(key.digest)
        transcript.count_in(count)
        _require_whole(stored, key, transcript)
        bundle = draw(release, key, counter, transcript)
    except AnswersLost as lost:
        reservation.die(str(lost))
        count.end()
        raise
    except OtherQuestion as other:
        # The answers are whole: only who asks has changed, and may change back.
        raise OtherQuestion(f"{release.what}: {other}; {begun_by_another(key, ledger)}") from None
    store.write(path, bundle, key=secret)
    # One that was stored before a crash stays as it was written: that one is settled.
    bundle = store.sealed(path, key=secret)
    reservation.settle(spend_rows(bundle), facts=facts_of(bundle, path))
    count.end()
    return path


def _require_same_rows(begun: Entry, key: ReleaseKey, counter: MemoryCounter) -> None:
    """One charge pays for answers about one data set: those of two, of which a person is in one
    or in both, may tell nearly twice as much of her.

    begun   the row that charged the release

    OtherQuestion where it was charged before that row said which rows it was begun with.
    """
    if ROWS not in begun.facts:
        raise OtherQuestion("expected a release that says which rows it was begun with, got none")
    if begun.facts[ROWS] != counter.fingerprint:
        raise AnswersLost(
            f"{key.dataset}/{key.model}: expected the rows of snapshot {key.snapshot} that this "
            "release was begun with, got rows that were read or prepared again otherwise; its ε "
            "is spent: only --fresh goes on"
        )


def spend_rows(bundle: Bundle) -> list[SpendRow]:
    """What the ledger keeps of the charges: none where they add up to no ε of the release."""
    if not bundle.is_dp:
        return []
    return [
        SpendRow(one.what, one.mechanism, cost, one.scale)
        for one, cost in zip(bundle.spends, bundle.costs, strict=True)
    ]


def _require_whole(stored: Sequence[Bundle], key: ReleaseKey, transcript: Transcript) -> None:
    """A bundle is stored after the last answer: where one lies, no answer may be missing."""
    if any(bundle.transcript != transcript.chain for bundle in stored):
        raise AnswersLost(
            f"transcript: expected that of the stored bundle of {key.dataset}/{key.model}, "
            "got another"
        )


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
