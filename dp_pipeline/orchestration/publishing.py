"""Publishing one release: reserve, ask through the gate, store, settle; or replay at no cost.

The order is the promise. The charge is in the ledger before the first look;
each noisy answer is on disk before the model sees it; the bundle is on disk
before the charge is settled. Whatever stops between two steps, the next run
with the same key goes on under the old charge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.evaluation import buy_quality
from dp_pipeline.ledger import Account, Ledger, Reservation, SpendRow
from dp_pipeline.orchestration.admission import begun_with, require_affordable, require_as_begun
from dp_pipeline.orchestration.home import Home
from dp_pipeline.orchestration.release import Release
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.snapshot import Snapshot, current_snapshot
from dp_pipeline.release.accountant import Accountant, Spend
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.release.key import ReleaseKey
from dp_pipeline.release.measurement import NoisyNumber
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.errors import Damaged, NotPrepared
from dp_pipeline.schema.spec import DatasetSpec

State = Literal["charged", "resumed", "replayed"]
_STATES: Mapping[str, State] = {"new": "charged", "resumed": "resumed", "settled": "replayed"}


@dataclass(frozen=True)
class Published:
    """A bundle and how it was come by.

    state   ``charged``: drawn now and paid for; ``resumed``: finished under a charge
            made earlier; ``replayed``: stored before, nothing read, nothing paid
    nano    nano-ε that this run charged to the ledger
    folder  where the bundle lies
    """

    bundle: Bundle
    state: State
    nano: int
    folder: Path


def open_lineage(spec: DatasetSpec, ledger: Ledger) -> None:
    """Open the account of a data set's population, and claim its source for it."""
    ledger.open_account(
        Account(
            lineage=spec.lineage,
            unit=str(spec.protection),
            relation=spec.relation,
            purpose=spec.purpose,
            ceiling=spec.ceiling,
        )
    )
    ledger.claim_source(
        spec.lineage, spec.source.identity, distinct_population=spec.distinct_population
    )


def publish(release: Release, *, fresh: bool = False) -> Published:
    """The bundle of one release: replayed when it was ever settled, else charged and drawn.

    Raises BudgetExceeded when the ceiling would be passed, NotPrepared when the snapshot is
    not fit; then nothing was charged and nothing drawn.
    """
    spec, ledger = release.spec, release.home.ledger
    release.require_fit_noise()
    open_lineage(spec, ledger)
    snapshot = require_snapshot(spec, release.home)
    key = release.key(ledger, snapshot, fresh=fresh)
    path = release.store.bundle_path(key, release.postprocessing)
    if ledger.state(key.digest) == "settled":
        if not path.exists():
            release.store.write(path, _derive(release, key, ledger))
        return Published(release.store.read(path), "replayed", 0, path)
    counter = MemoryCounter.open(spec, snapshot)
    charge = release.charge(key)
    require_as_begun(release, key)
    if ledger.state(key.digest) is None:
        require_affordable(charge, ledger)
        Transcript.create(release.store.transcript_path(key), key.digest)
    with ledger.reserve(charge) as reservation:
        if reservation.state != "settled":
            bundle = _draw_reserved(release, key, counter, reservation)
            release.store.write(path, bundle)
            reservation.settle([_row(spend) for spend in bundle.spends])
    state, nano = _STATES[reservation.state], 0
    if state == "charged":
        nano = charge.nano_epsilon
    return Published(release.store.read(path), state, nano, path)


def require_snapshot(spec: DatasetSpec, home: Home) -> Snapshot:
    """The snapshot that releases read now; NotPrepared before the first one."""
    snapshot = current_snapshot(home.raw, spec.name, home.ledger.key(spec.lineage))
    if snapshot is None:
        raise NotPrepared(f"{spec.name}: expected a prepared snapshot, got none: ingest it first")
    return snapshot


def _draw_reserved(
    release: Release, key: ReleaseKey, counter: MemoryCounter, reservation: Reservation
) -> Bundle:
    """Draw what the transcript does not hold yet; a transcript that lost answers ends the key."""
    try:
        transcript = Transcript(release.store.transcript_path(key))
        transcript.require_begun(key.digest)
        return _draw(release, key, counter, transcript)
    except Damaged as damage:
        reservation.die(str(damage))
        raise


def _draw(
    release: Release, key: ReleaseKey, counter: MemoryCounter | None, transcript: Transcript
) -> Bundle:
    """Fit the model and buy its evaluation; spends exactly what was charged."""
    spec = release.spec
    accountant = Accountant(release.epsilon)
    curator = _curator(release, counter, accountant, transcript)
    released = release.model.fit(curator, epsilon=release.epsilon, rng=release.generator(key))
    accountant.require_all_spent()
    spends, quality = accountant.spends, dict[str, NoisyNumber]()
    if spec.evaluation is not None:
        paid = Accountant(spec.evaluation)
        judge = _curator(release, counter, paid, transcript)
        quality = buy_quality(judge, released, epsilon=spec.evaluation)
        paid.require_all_spent()
        spends += paid.spends
    return Bundle(
        key=key.digest,
        facts=release.facts(key),
        spends=spends,
        quality=quality,
        tables=released.tables(),
        transcript=transcript.chain,
    )


def _derive(release: Release, key: ReleaseKey, ledger: Ledger) -> Bundle:
    """A settled release made again from its transcript, without rows and at no cost.

    Under another post-processing the bought evaluation is left out: it was of
    other centres or tables, and a new one would have to be paid for.
    """
    stored = Transcript(release.store.transcript_path(key)).rewind()
    if begun_with(key, ledger) == str(release.postprocessing):
        return _draw(release, key, None, stored)
    accountant = Accountant(release.epsilon)
    curator = _curator(release, None, accountant, stored)
    released = release.model.fit(curator, epsilon=release.epsilon, rng=release.generator(key))
    accountant.require_all_spent()
    return Bundle(
        key.digest, release.facts(key), accountant.spends, {}, released.tables(), stored.chain
    )


def _curator(
    release: Release,
    counter: MemoryCounter | None,
    accountant: Accountant,
    transcript: Transcript,
) -> Curator:
    return Curator(
        counter,
        domain=release.spec.domain,
        reach=release.spec.reach,
        accountant=accountant,
        transcript=transcript,
        noise=release.noise,
    )


def _row(spend: Spend) -> SpendRow:
    return SpendRow(spend.what, spend.mechanism, spend.epsilon, spend.scale)
