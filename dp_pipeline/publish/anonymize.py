"""Anonymizing: record, look, store, settle; or replay without a look.

The order is that of publishing. The ledger holds a row of kind ``not-dp`` before
the first look; the bundle is on disk before the row is settled. Whatever stops
between two steps, the next run with the same key goes on under the old row.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dp_pipeline.anonymity.method import Anonymized
from dp_pipeline.anonymity.partition import TooFewRows
from dp_pipeline.anonymity.rows import CodedRows
from dp_pipeline.files import sweep
from dp_pipeline.ledger import Ledger
from dp_pipeline.publish.account import require_snapshot
from dp_pipeline.publish.cards import card_of, keeps_promise, syntactic_tables
from dp_pipeline.publish.k_anonymous_release import SyntacticRelease, coded_rows
from dp_pipeline.publish.replay import facts_of, settled_bundle
from dp_pipeline.raw.prepare import require_codes
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.spec.errors import BoundaryViolation

CARD = "card.md"


@dataclass(frozen=True)
class Anonymous:
    """A k-anonymous bundle and how it was come by.

    state    ``recorded``: made now; ``resumed``: finished under a row that was written
             earlier; ``replayed``: stored before, nothing read
    folder   where the bundle lies, with its card
    """

    bundle: Bundle
    state: Literal["recorded", "resumed", "replayed"]
    folder: Path

    @property
    def card(self) -> Path:
        """The release card, for a person."""
        return self.folder / CARD


def anonymize(release: SyntacticRelease) -> Anonymous:
    """The bundle of one k-anonymous release: replayed when it was ever settled, else made.

    Raises DeclarationError for what the data set file does not allow and NotPrepared when the
    snapshot is not fit; then nothing was recorded and nothing read. TooFewRows where no table
    keeps the promise: nothing is released, and the row stays, as somebody looked.
    """
    release.require_allowed()
    snapshot = require_snapshot(release.spec, release.home)
    require_codes(release.spec, snapshot)
    ledger, key = release.home.ledger, release.key(snapshot)
    if ledger.state(key) == "settled":
        return _replayed(release, snapshot, ledger)
    release.store.begin(release.folder(snapshot).parent, release.spec.lineage)
    with ledger.reserve(release.charge(snapshot)) as reservation:
        if reservation.state == "settled":
            return _replayed(release, snapshot, ledger)
        path, secret = release.folder(snapshot), ledger.key(release.spec.lineage)
        sweep(path.parent)
        if not path.exists():
            made = _made(release, snapshot)
            texts = {CARD: card_of(release.spec, made)}
            release.store.write(path, made, key=secret, texts=texts)
        # One that was stored before a crash is settled as it was written, or not at all.
        bundle = release.store.sealed(path, key=secret)
        reservation.settle([], facts=facts_of(bundle, path))
    return Anonymous(bundle, "resumed" if reservation.state == "resumed" else "recorded", path)


def _made(release: SyntacticRelease, snapshot: Snapshot) -> Bundle:
    """Read the rows, choose what is kept, and build what leaves; BoundaryViolation for a method
    that does not keep its promise.
    """
    rows = coded_rows(release.spec, snapshot)
    tables = syntactic_tables(
        rows,
        _recoded(release, rows),
        release.promise,
        label=str(release.spec.label),
        is_public=not release.spec.is_release,
    )
    bundle = Bundle(
        key=release.key(snapshot),
        facts=release.facts(snapshot),
        spends=(),
        quality={},
        tables=tables,
        transcript="",
    )
    if not keeps_promise(bundle):
        raise BoundaryViolation(
            f"{release.what}: expected a table that keeps its promise, got another"
        )
    return bundle


def _recoded(release: SyntacticRelease, rows: CodedRows) -> Anonymized:
    """What the method makes of the rows; TooFewRows says of which release."""
    try:
        return release.method.recode(rows, release.promise, seed=release.declared.seed)
    except TooFewRows as error:
        raise TooFewRows(f"{release.what}: {error}") from None


def _replayed(release: SyntacticRelease, snapshot: Snapshot, ledger: Ledger) -> Anonymous:
    """A settled release from the store; Damaged where it is not as it was settled."""
    path = release.folder(snapshot)
    bundle = settled_bundle(release.store, path, ledger=ledger, lineage=release.spec.lineage)
    return Anonymous(bundle, "replayed", path)
