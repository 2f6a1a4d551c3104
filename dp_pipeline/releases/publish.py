"""Publishing one release: reserve, look, store, settle; or replay at no cost.

The order is the promise, of an ε and of a K alike. The charge is in the ledger before the first
look; each noisy answer is on disk before the model sees it; the bundle is on disk before the charge
is settled. Whatever stops between two steps, the next run with the same key goes on under the old
charge.

Giving up a release that was charged and cannot be finished: a person says so, for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from dp_pipeline.config.amounts import NANO
from dp_pipeline.config.errors import Damaged, DeclarationError, OtherQuestion
from dp_pipeline.config.parameters import fact_text
from dp_pipeline.files import sweep
from dp_pipeline.ledger import Charge, Entry, Ledger, Reservation
from dp_pipeline.ledger.entries import blocks_of, delta_of, require_line
from dp_pipeline.ledger.reservation import GIVEN_UP
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.account import require_snapshot
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.release import Drawing, Release
from dp_pipeline.releases.replay import (
    facts_of,
    level_facts,
    reserved_entry,
    restored,
    settled_bundle,
    spend_rows,
)
from dp_pipeline.results.bundle import Bundle, Key
from dp_pipeline.results.transcript import AnswerCount, AnswersLost

State = Literal["charged", "resumed", "replayed"]


@dataclass(frozen=True)
class PublishedBundle:
    """A bundle and where it comes from.

    state   ``charged``: drawn now, and paid for or recorded; ``resumed``: finished under a charge
            made earlier; ``replayed``: stored before, nothing read, nothing paid
    nano    nano-ε, or nano-ρ, that this run charged to the ledger, to all windows together
    folder  where the bundle lies
    """

    bundle: Bundle
    state: State
    nano: int
    folder: Path


def publish(release: Release, *, new_draw: bool = False) -> PublishedBundle:
    """The bundle of one release: replayed when it was ever settled, else charged and drawn.

    Raises DeclarationError for what the data set file does not allow, BudgetExceeded when the
    ceiling would be passed, NotPrepared when the snapshot is not fit; then nothing was charged and
    nothing drawn. TooFewRows where no table keeps the promise of a k-anonymous release: nothing is
    released, and the row of the ledger stays, as somebody looked.
    """
    release.require_allowed()
    snapshot = require_snapshot(release.spec, release.home, release.windows)
    key = release.key(snapshot, new_draw=new_draw)
    try:
        return _publish(release, key, snapshot)
    except Damaged:
        # What lies there may be whole, and of somebody who refined the same release first, at
        # another ε: whoever asks for the key once more is told so.
        release.key(snapshot, new_draw=new_draw)
        raise


def _publish(release: Release, key: Key, snapshot: Snapshot) -> PublishedBundle:
    """Replay, resume, or charge and draw the release with this key."""
    store, ledger = release.store, release.home.ledger
    if ledger.state(key.digest) == "settled":
        return _replayed(release, key, ledger)
    spec = release.resolve(key)
    drawing = release.open(spec, snapshot)
    charge = spec.charge(release.run, rows=drawing.rows)
    if spec.reserved is None:
        _require_affordable(charge, ledger)
        drawing.dry_run()
        # Everything that a charged release must have on disk, before it is charged.
        store.begin(store.folder(key), key.population)
        drawing.begin()
    with ledger.reserve(charge) as reservation:
        if reservation.state == "settled":
            return _replayed(release, key, ledger)
        require_reserved_parameters(release, key)
        sweep(store.folder(key))
        secret, is_resumed = ledger.key(key.population), reservation.state == "resumed"
        stored = [store.sealed(one, key=secret) for one in store.bundle_paths(key)]
        with _answers_kept(reservation, drawing, ledger):
            # What is drawn is what the ledger's row says, whoever wrote it.
            bundle = drawing.draw(release.resolve(key), stored, is_resumed=is_resumed)
        path = store.bundle_path(key, release.postprocessing)
        store.write(path, bundle, key=secret, texts=drawing.texts(bundle))
        # One that was stored before a crash stays as it was written: that one is settled.
        bundle = store.sealed(path, key=secret)
        reservation.settle(spend_rows(bundle), facts=facts_of(bundle, path))
        drawing.end()
    bundle = settled_bundle(store, path, ledger=ledger, population=key.population)
    if is_resumed:
        return PublishedBundle(bundle, "resumed", 0, path)
    return PublishedBundle(bundle, "charged", charge.counted, path)


def require_reserved_parameters(release: Release, key: Key) -> None:
    """DeclarationError for an unfinished release that was begun with another post-processing.

    Its evaluation asks about its own centres or tables: other ones would be other questions, of
    which the charge holds one set only. Settled, it may be changed for nothing.
    """
    begun = reserved_entry(key.digest, key.population, release.home.ledger).facts
    now = fact_text(release.postprocessing)
    if begun.get("evaluation", "none") != "none" and begun["postprocessing"] != now:
        raise DeclarationError(
            f"{'/'.join(release.path)}: expected the parameters {begun['postprocessing']} that the "
            f"charged release was begun with, got {now}: finish it first"
        )


def _require_affordable(charge: Charge, ledger: Ledger) -> None:
    """Refuse what cannot fit before a file is made for it; ``reserve`` has the last word."""
    balance = ledger.balance(charge.population, charge.blocks)
    balance.require_budget(
        Fraction(charge.nano_epsilon, NANO),
        release=charge.what,
        account=charge.population,
        delta=charge.delta,
        windows=max(1, len(charge.blocks)),
    )


def _replayed(release: Release, key: Key, ledger: Ledger) -> PublishedBundle:
    """A settled release from the store; made again from its transcript where it is not there, or
    was never asked for with this post-processing.
    """
    store, path = release.store, release.store.bundle_path(key, release.postprocessing)
    if not path.exists():
        bundle = restored(release, key, path)
        store.begin(path.parent, key.population)
        store.write(path, bundle, key=ledger.key(key.population))
    # Left behind by a run that was killed once it had settled.
    AnswerCount(release.home.answer_counts / key.digest).end()
    bundle = settled_bundle(store, path, ledger=ledger, population=key.population)
    named = level_facts(type(release), release.level)
    if not named.items() <= bundle.facts.items():
        # All refinements of one release have one key, and somebody was first, at another ε.
        raise store.another(path)
    return PublishedBundle(bundle, "replayed", 0, path)


@contextmanager
def _answers_kept(reservation: Reservation, drawing: Drawing, ledger: Ledger) -> Iterator[None]:
    """Lost answers end the key for ever: they may have been seen."""
    try:
        yield
    except AnswersLost as lost:
        reservation.die(str(lost))
        drawing.end()
        raise
    except OtherQuestion as other:
        # The answers are whole: only who asks has changed, and may change back.
        charge = reservation.charge
        begun = reserved_entry(charge.key, charge.population, ledger)
        raise OtherQuestion(f"{charge.what}: {other}; {_way_out(begun)}") from None


def _way_out(begun: Entry) -> str:
    """Who began a release that this program would ask otherwise, and what can be done."""
    return (
        f"its answers stay as they are: finish it with {begun.facts.get('code', 'another version')}"
        f", or give it up by `dp-pipeline budget give-up {str(begun.key)[:12]} --reason …` and "
        "draw anew with --new-draw"
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
        population=begun.population,
        kind=begun.kind or "dp",
        nano_epsilon=begun.nano_epsilon,
        what=begun.what,
        facts=begun.facts,
        currency=ledger.balance(begun.population).currency,
        delta=delta_of(begun.facts),
        blocks=blocks_of(begun.facts),
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
            f"check` shows them, got {key!r}"
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
