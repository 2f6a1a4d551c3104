"""Whether a release lies on disk as it was stored: against its own digests, and the ledger's."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dp_pipeline.ledger import Entry, Ledger, SpendRow
from dp_pipeline.orchestration.admission import begun_with
from dp_pipeline.orchestration.anonymizing import BUNDLE, CARD
from dp_pipeline.orchestration.publishing import CONTENT, TRANSCRIPT, spend_rows
from dp_pipeline.orchestration.release import Release
from dp_pipeline.orchestration.replaying import content_digest, key_of, settled_entry
from dp_pipeline.orchestration.storage import BundleStore
from dp_pipeline.release.bundle import EARLIER_EVALUATION, Bundle
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.errors import Damaged
from dp_pipeline.schema.parameter_facts import fact_text

_PROMISED = (
    *("dataset", "model", "epsilon", "kind", "composed", "evaluation", "snapshot", "replicate"),
    *("declaration", "measuring", "unit", "relation", "purpose", "noise", "fit_for_release"),
)
"""Facts that no later code or post-processing may change: what was charged for."""


def require_whole(release: Release, folder: Path) -> None:
    """Damaged unless every table has the digest that its bundle says, no other file lies there,
    the answers are those that were settled, and facts and charges are those of the ledger.
    """
    bundle = release.store.read(folder)
    _require_files(folder, bundle, texts=())
    key, ledger = key_of(release, bundle), release.home.ledger
    settled = settled_entry(key.digest, key.lineage, ledger)
    answers = Transcript(release.store.transcript_path(key)).chain
    if not bundle.transcript == answers == settled.facts[TRANSCRIPT]:
        raise Damaged(f"{_name(bundle)}: expected the answers that were settled, got others")
    if tuple(spend_rows(bundle)) != _paid(settled, bundle):
        raise Damaged(f"{_name(bundle)}: expected the charges of the ledger, got others")
    begun = _reserved(key.digest, key.lineage, ledger)
    changed = [name for name in _PROMISED if bundle.facts[name] != begun.facts.get(name)]
    if changed:
        raise Damaged(f"{_name(bundle)}: expected {changed[0]} as in the ledger, got another")
    _require_content(release, bundle, settled)


def _require_content(release: Release, bundle: Bundle, settled: Entry) -> None:
    key, ledger = key_of(release, bundle), release.home.ledger
    as_drawn = begun_with(key, ledger) == fact_text(release.postprocessing)
    digest = content_digest(bundle)
    # Other post-processing gives other tables; rows of before there was such a digest have none.
    if as_drawn and settled.facts.get(CONTENT, digest) != digest:
        raise Damaged(f"{_name(bundle)}: expected the bundle as it was settled, got another")


def require_whole_anonymous(store: BundleStore, folder: Path, ledger: Ledger, lineage: str) -> None:
    """The same of a k-anonymous release, whose digest the ledger holds."""
    bundle = store.read(folder)
    _require_files(folder, bundle, texts=(CARD,))
    settled = settled_entry(bundle.key, lineage, ledger)
    if hashlib.sha256(bundle.to_json().encode()).hexdigest() != settled.facts[BUNDLE]:
        raise Damaged(f"{_name(bundle)}: expected the bundle as it was settled, got another")


def _require_files(folder: Path, bundle: Bundle, *, texts: tuple[str, ...]) -> None:
    expected = {"bundle.json", *texts, *(f"{name}.parquet" for name in bundle.tables)}
    found = {path.name for path in folder.iterdir()}
    if found != expected:
        odd = sorted(found ^ expected)[0]
        raise Damaged(f"{_name(bundle)}: expected the files of one release, got {odd[:60]!r} amiss")


def _paid(settled: Entry, bundle: Bundle) -> tuple[SpendRow, ...]:
    """The charges of the ledger; without those of an evaluation of earlier centres."""
    if EARLIER_EVALUATION not in bundle.facts:
        return settled.spends
    return settled.spends[: len(bundle.spends)]


def _reserved(key: str, lineage: str, ledger: Ledger) -> Entry:
    entries = ledger.entries(lineage)
    return next(one for one in entries if one.key == key and one.event == "reserve")


def _name(bundle: Bundle) -> str:
    return f"bundle {bundle.key[:12]}"
