"""Publishing a release: reserve, draw, store and settle it, or replay it at no cost.

The charge is in the ledger before the first query of the rows, each noisy answer is on disk before
the model sees it, and the bundle is on disk before the charge is settled. After a crash the next
run with the same key continues under the old charge, until a person gives the release up.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dp_pipeline.config.errors import Damaged, DeclarationError, OtherQuestion
from dp_pipeline.config.parameters import fact_text
from dp_pipeline.files import sweep
from dp_pipeline.ledger import Charge, Entry, Ledger, Reservation
from dp_pipeline.ledger.entries import blocks_of, delta_of, require_line
from dp_pipeline.ledger.reservation import GIVEN_UP
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases import replay
from dp_pipeline.releases.account import require_snapshot
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.release import Release
from dp_pipeline.results.bundle import Bundle, Key
from dp_pipeline.results.transcript import AnswerCount, AnswersLost

State = Literal["charged", "resumed", "replayed"]


@dataclass(frozen=True)
class PublishedBundle:
    """A bundle, with the way in which this run obtained it.

    state   ``charged``: drawn now, and paid for or recorded; ``resumed``: finished under a charge
            made earlier; ``replayed``: stored before, nothing read, nothing paid
    nano    nano-ε, or nano-ρ, that this run charged to the ledger, to all time windows together
    folder  the folder of the bundle
    """

    bundle: Bundle
    state: State
    nano: int
    folder: Path


def publish(release: Release, *, new_draw: bool = False) -> PublishedBundle:
    """Return the bundle of a release, which is settled when this returns.

    A settled release is replayed. One that was charged and not finished is finished at no further
    cost, and any other is charged and drawn.

    new_draw   as for ``Release.key``

    Raises, before a charge, DeclarationError for what the data set file does not allow,
    BudgetExceeded if a limit would be exceeded, and NotPrepared without a prepared snapshot.
    TooFewRows where no table keeps the promise of a k-anonymous release: nothing is released, and
    the ledger's row stays, as the rows were read.
    """
    release.require_allowed()
    snapshot = require_snapshot(release.spec, release.home, release.windows)
    key = release.key(snapshot, new_draw=new_draw)
    try:
        return _publish(release, key, snapshot)
    except Damaged:
        # The stored bundle may be a refinement to another ε, charged first: the key refuses that.
        release.key(snapshot, new_draw=new_draw)
        raise


def _publish(release: Release, key: Key, snapshot: Snapshot) -> PublishedBundle:
    store, ledger = release.store, release.home.ledger
    if ledger.state(key.digest) == "settled":
        return _replay(release, key, ledger)
    spec = release.resolve(key)
    drawing = release.open(spec, snapshot)
    charge = spec.charge(release.run, rows=drawing.rows)
    if spec.reserved is None:
        # Refused before files are made, unless another process has charged it meanwhile.
        with ledger.consistent_view():
            if ledger.state(charge.key) is None:
                ledger.balance(charge.population, charge.blocks).require_charge(charge)
        drawing.dry_run()
        # Everything that a charged release must have on disk, before it is charged.
        store.create_folder(store.folder(key), key.population)
        drawing.create_files()
    with ledger.reserve(charge) as reservation:
        if reservation.state == "settled":
            return _replay(release, key, ledger)
        require_reserved_parameters(release, key)
        sweep(store.folder(key))
        secret, is_resumed = ledger.key(key.population), reservation.state == "resumed"
        stored = [store.read_sealed(path, key=secret) for path in store.bundle_paths(key)]
        with _abort_if_answers_lost(reservation, release.home):
            # What is drawn is what the ledger's row says, whichever process wrote it.
            bundle = drawing.draw(release.resolve(key), stored, is_resumed=is_resumed)
        path = store.bundle_path(key, release.postprocessing)
        store.write(path, bundle, key=secret, texts=drawing.texts(bundle))
        # One that was stored before a crash stays as it was written: that one is settled.
        bundle = store.read_sealed(path, key=secret)
        reservation.settle(replay.spend_rows(bundle), facts=replay.settled_facts(bundle, path))
        AnswerCount(release.home.answer_counts / key.digest).remove()
    bundle = replay.settled_bundle(store, path, ledger=ledger, population=key.population)
    if is_resumed:
        return PublishedBundle(bundle, "resumed", 0, path)
    return PublishedBundle(bundle, "charged", charge.charge_in_all_windows, path)


def require_reserved_parameters(release: Release, key: Key) -> None:
    """Raise DeclarationError if post-processing parameters changed since the charge of a release
    with a private evaluation.

    Its charge holds one evaluation, of its own centres or tables. Once settled, the post-processing
    may change at no cost.
    """
    facts = replay.ledger_row("reserve", key.digest, key.population, release.home.ledger).facts
    parameters = fact_text(release.postprocessing)
    if facts.get("evaluation", "none") != "none" and facts["postprocessing"] != parameters:
        raise DeclarationError(
            f"{'/'.join(release.path)}: the charged release must be finished with the parameters "
            f"that it was started with, {facts['postprocessing']}, not {parameters}: put "
            "them back until it is finished"
        )


def _replay(release: Release, key: Key, ledger: Ledger) -> PublishedBundle:
    """Return a settled release from the store, after storing it again if it is missing.

    This also removes the count of its answers, if a killed run left one. Damaged if it is not as it
    was settled, or is a refinement to another ε.
    """
    store, path = release.store, release.store.bundle_path(key, release.postprocessing)
    if not path.exists():
        bundle = replay.rebuild_missing(release, key, path)
        store.create_folder(path.parent, key.population)
        store.write(path, bundle, key=ledger.key(key.population))
    # Left by a run that was killed once it had settled.
    AnswerCount(release.home.answer_counts / key.digest).remove()
    bundle = replay.settled_bundle(store, path, ledger=ledger, population=key.population)
    if not release.level_facts.items() <= bundle.facts.items():
        # All refinements of one release have one key, and another ε was charged first.
        raise store.damage_error(path)
    return PublishedBundle(bundle, "replayed", 0, path)


@contextmanager
def _abort_if_answers_lost(reservation: Reservation, home: Home) -> Iterator[None]:
    """Mark the release as dead if the block raises AnswersLost, since answers may have been seen.

    An OtherQuestion is raised anew with a remedy in its message.
    """
    charge = reservation.charge
    try:
        yield
    except AnswersLost as error:
        reservation.die(str(error))
        AnswerCount(home.answer_counts / charge.key).remove()
        raise
    except OtherQuestion as error:
        # The answers are whole: only the questions have changed, and may change back.
        reserved = replay.ledger_row("reserve", charge.key, charge.population, home.ledger)
        raise OtherQuestion(
            f"{charge.what}: {error}; its answers stay as they are: finish it with "
            f"{reserved.facts.get('code', 'another version')}, or give it up by `dp-pipeline "
            f"budget give-up {charge.key[:12]} --reason …` and draw anew with --new-draw"
        ) from None


_SHORTEST = 8
"""Digits of a key that name a release."""


def give_up(home: Home, key: str, *, reason: str, by: str) -> Entry:
    """Mark an unfinished release as dead, and return the ledger row that charged it.

    Its charge and stored answers stay. This waits for a process that draws it.

    key      the first digits of its key, as messages show them: at least 8
    reason   one line, kept in the ledger
    by       the person who gives it up

    Raises DeclarationError unless exactly one unfinished release has such a key.
    """
    require_line(reason, of="reason to give up a release")
    ledger = home.ledger
    reserved = ledger.history(_unfinished_key(ledger, key))[0]
    charge = Charge(
        key=str(reserved.key),
        population=reserved.population,
        kind=reserved.kind or "dp",
        nano_epsilon=reserved.nano_epsilon,
        what=reserved.what,
        facts=reserved.facts,
        currency=ledger.balance(reserved.population).currency,
        delta=delta_of(reserved.facts),
        blocks=blocks_of(reserved.facts),
    )
    with ledger.reserve(charge) as reservation:
        if reservation.state == "settled":
            raise DeclarationError(
                f"{reserved.what}: the release is finished and its charge final, so it cannot "
                "be given up: leave it"
            )
        reservation.die(f"{GIVEN_UP}{by}: {reason}")
    AnswerCount(home.answer_counts / charge.key).remove()
    return reserved


def _unfinished_key(ledger: Ledger, digits: str) -> str:
    if len(digits) < _SHORTEST:
        raise DeclarationError(
            f"release: a key must be written with its first {_SHORTEST} digits or more, as "
            f"`dp-pipeline check` shows it, not as {digits!r}"
        )
    keys = [key for key in ledger.unfinished() if key.startswith(digits)]
    if not keys:
        raise DeclarationError(
            f"release {digits[:64]}: no unfinished release has such a key, as it has ended or was "
            "never charged: `dp-pipeline check` shows those there are"
        )
    if len(keys) > 1:
        raise DeclarationError(
            f"release {digits[:64]}: the key begins {len(keys)} unfinished releases, such as "
            f"{keys[0]} and {keys[1]}: give more digits"
        )
    return keys[0]
