"""Rebuilding a settled release from its transcript alone: over nobody, at no cost."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from dp_pipeline.ledger import Entry, Ledger
from dp_pipeline.orchestration.admission import begun_with
from dp_pipeline.orchestration.drawing import derive, draw
from dp_pipeline.orchestration.release import Release
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.release.key import ReleaseKey
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.errors import Damaged


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
    as_drawn = begun_with(key, ledger) == str(release.postprocessing)
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


def content_digest(bundle: Bundle) -> str:
    """What the ledger keeps of a bundle when it is settled: a digest of its tables, charges,
    quality and facts; but for the code, which is another where a lost bundle is made again later.
    """
    same = replace(bundle, facts={**bundle.facts, "code": ""})
    return hashlib.sha256(same.to_json().encode()).hexdigest()


def settled_entry(key: str, lineage: str, ledger: Ledger) -> Entry:
    """The row that settled a release; Damaged where there is none."""
    entries = ledger.entries(lineage)
    found = [one for one in entries if one.key == key and one.event == "settled"]
    if not found:
        raise Damaged(f"ledger: expected that the release {key[:12]} is settled, got no such row")
    return found[0]
