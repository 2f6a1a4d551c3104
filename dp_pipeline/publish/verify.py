"""Whether a release lies on disk as it was stored: against its seal, and the ledger's rows."""

from __future__ import annotations

from pathlib import Path

from dp_pipeline.ledger import Entry, SpendRow
from dp_pipeline.publish.publish import spend_rows
from dp_pipeline.publish.release import Release
from dp_pipeline.publish.replay import (
    TRANSCRIPT,
    key_of,
    reserved_entry,
    settled_bundle,
    settled_entry,
)
from dp_pipeline.release.bundle import EARLIER_EVALUATION, Bundle
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.spec.errors import Damaged

_PROMISED = (
    *("lineage", "dataset", "model", "epsilon", "kind", "composed", "evaluation", "snapshot"),
    *("replicate", "declaration", "measuring", "unit", "relation", "purpose", "noise"),
    "fit_for_release",
)
"""Facts that no later code or post-processing may change: what was charged for."""


def require_whole(release: Release, folder: Path) -> None:
    """Damaged unless the bundle is read as it was settled, the answers that lie beside it are those
    that were settled, and facts and charges are those of the ledger.
    """
    ledger = release.home.ledger
    bundle = settled_bundle(release.store, folder, ledger=ledger, lineage=release.spec.lineage)
    key = key_of(release, bundle)
    settled = settled_entry(key.digest, key.lineage, ledger)
    if Transcript(release.store.transcript_path(key)).chain != settled.facts[TRANSCRIPT]:
        raise Damaged(f"{_name(bundle)}: expected the answers that were settled, got others")
    if tuple(spend_rows(bundle)) != _paid(settled, bundle):
        raise Damaged(f"{_name(bundle)}: expected the charges of the ledger, got others")
    begun = reserved_entry(key.digest, key.lineage, ledger)
    changed = [name for name in _PROMISED if bundle.facts[name] != begun.facts.get(name)]
    if changed:
        raise Damaged(f"{_name(bundle)}: expected {changed[0]} as in the ledger, got another")


def _paid(settled: Entry, bundle: Bundle) -> tuple[SpendRow, ...]:
    """The charges of the ledger; without those of an evaluation of earlier centres."""
    if EARLIER_EVALUATION not in bundle.facts:
        return settled.spends
    return settled.spends[: len(bundle.spends)]


def _name(bundle: Bundle) -> str:
    return f"bundle {bundle.key[:12]}"
