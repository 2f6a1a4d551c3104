"""Settled releases: read back as the ledger settled them, or made again from their transcript
alone, over nobody and at no cost.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from dp_pipeline.ledger import Entry, Ledger
from dp_pipeline.orchestration.admission import begun_with
from dp_pipeline.orchestration.drawing import derive, draw
from dp_pipeline.orchestration.release import Release
from dp_pipeline.orchestration.storage import BundleStore
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.release.key import ReleaseKey
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.errors import Damaged
from dp_pipeline.schema.parameter_facts import fact_text

TRANSCRIPT = "transcript"
"""The fact of a settled ledger row that holds the digest of the answers."""
CONTENT = "bundle"
"""The one that holds the digest of the bundle, as it was drawn."""
FOLDER = "folder"
"""The one that names the folder of that bundle: others hold the same answers, shaped otherwise."""
MADE_AGAIN = "made again"
"""The fact of a bundle that was made again later and is not, byte for byte, what was settled."""


def settled_bundle(store: BundleStore, path: Path, *, ledger: Ledger, lineage: str) -> Bundle:
    """A settled bundle: the one way in which whoever shows, compares or hands one out reads it.

    Damaged, naming it and saying what to do, unless a) its seal fits, b) it is of the answers that
    the ledger settled, and c) in the folder that was settled lies what was settled. A bundle of
    another post-processing is in no ledger row: it is bound by a) and b). So is one that was lost
    and made again by code that gives other pictures of the same answers.
    """
    bundle = store.sealed(path, key=ledger.key(lineage))
    settled = settled_entry(bundle.key, lineage, ledger).facts
    is_as_drawn = path.name == settled.get(FOLDER) and MADE_AGAIN not in bundle.facts
    is_another = is_as_drawn and content_digest(bundle) != settled[CONTENT]
    if is_another or bundle.transcript != settled.get(TRANSCRIPT, ""):
        raise store.another(path)
    return bundle


def facts_of(bundle: Bundle, path: Path) -> dict[str, str]:
    """What the settled row of a ledger keeps of the bundle that was drawn."""
    kept = {CONTENT: content_digest(bundle), FOLDER: path.name}
    return {**kept, TRANSCRIPT: bundle.transcript} if bundle.transcript else kept


def key_of(release: Release, bundle: Bundle) -> ReleaseKey:
    """The key of a stored release of this question, made from the declaration; Damaged where that
    is not the key that was stored.
    """
    # Of a snapshot only its name enters a key.
    read = Snapshot(Path(release.home.raw, release.spec.name, bundle.facts["snapshot"]), b"")
    newest = release.key(release.home.ledger, read, fresh=False)
    key = newest.with_replicate(int(bundle.facts["replicate"]))
    if key.digest != bundle.key:
        raise Damaged(f"bundle {bundle.key[:12]}: expected the release {key.digest[:12]}")
    return key


def rebuilt(release: Release, key: ReleaseKey) -> Bundle:
    """The bundle of a settled release, made again from its stored answers; no row is read.

    Raises Damaged where an answer is missing, OtherQuestion where another question is asked than
    was answered.
    """
    ledger = release.home.ledger
    answers = Transcript(release.store.transcript_path(key)).rewind()
    as_drawn = begun_with(key, ledger) == fact_text(release.postprocessing)
    again = draw(release, key, None, answers) if as_drawn else derive(release, key, answers)
    return in_words_of(settled_entry(key.digest, key.lineage, ledger), again)


def in_words_of(settled: Entry, again: Bundle) -> Bundle:
    """A bundle that was made again, with the words that its charges had when they were settled:
    a later program may say them otherwise.
    """
    said = [
        replace(spend, what=row.what) if row.mechanism == spend.mechanism else spend
        for spend, row in zip(again.spends, settled.spends, strict=False)
    ]
    return replace(again, spends=(*said, *again.spends[len(said) :]))


def restored(release: Release, key: ReleaseKey, path: Path) -> Bundle:
    """What is to be stored in the place of a settled bundle that is not there; no row is read.

    Raises Damaged where its transcript is not the one that was settled.
    """
    settled = settled_entry(key.digest, key.lineage, release.home.ledger).facts
    if Transcript(release.store.transcript_path(key)).chain != settled[TRANSCRIPT]:
        raise Damaged(
            f"transcript: expected that of {key.dataset}/{key.model} as settled, got another"
        )
    bundle = rebuilt(release, key)
    if path.name != settled.get(FOLDER) or content_digest(bundle) == settled[CONTENT]:
        return bundle
    return replace(bundle, facts={**bundle.facts, MADE_AGAIN: "by other code or libraries"})


def content_digest(bundle: Bundle) -> str:
    """What the ledger keeps of a bundle when it is settled: a digest of its tables, charges,
    quality and facts; but for the code, which is another where a lost bundle is made again later.
    """
    same = replace(bundle, facts={**bundle.facts, "code": ""})
    return hashlib.sha256(same.to_json().encode()).hexdigest()


def settled_entry(key: str, lineage: str, ledger: Ledger) -> Entry:
    """The row that settled a release; Damaged where there is none."""
    found = [one for one in ledger.history(key) if one.event == "settled"]
    if not found or found[0].lineage != lineage:
        raise Damaged(f"ledger: expected that the release {key[:12]} is settled, got no such row")
    return found[0]


def reserved_entry(key: str, lineage: str, ledger: Ledger) -> Entry:
    """The row that a release was charged with; Damaged where there is none."""
    found = ledger.history(key)
    if not found or found[0].lineage != lineage:
        raise Damaged(f"ledger: expected that the release {key[:12]} is charged, got no such row")
    return found[0]
