"""What killed runs left behind, and the only part of the doctor that deletes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

from dp_pipeline.cli.doctor.finding import Finding
from dp_pipeline.ledger.head import Head
from dp_pipeline.ledger.home import Home
from dp_pipeline.release import durable

TOPIC = "leftovers"
_OF_LEDGER = re.compile(r"\.(new|head)-[a-z0-9_]{8}(-wal|-shm|-journal)?")
_LEDGER_SECONDS = 24 * 3600.0
"""The ledger's own temporary files live for a moment, and no lock tells whose they are."""


def left_behind(home: Home) -> Iterator[Finding]:
    """Temporary files and folders without a writer, and snapshots that were never finished."""
    found = [*durable.leftovers(home.root, below=True), *_of_ledger(home)]
    for path in found:
        yield Finding(TOPIC, "fault", f"{path}: left by a killed run", "dp-pipeline doctor --sweep")
    if not found:
        yield Finding(TOPIC, "ok", "no temporary file or folder of a killed run")
    yield from _half_read(home)


def sweep_all(home: Home) -> list[Path]:
    """Delete the temporary files and folders of killed runs; never a bundle, a transcript, a
    snapshot or anything that a living process writes. Gives what was deleted.
    """
    swept = durable.sweep(home.root, below=True)
    for path in _of_ledger(home):
        path.unlink(missing_ok=True)
        swept.append(path)
    return swept


def _of_ledger(home: Home) -> list[Path]:
    ledger = home.ledger_folder
    folders = {ledger, ledger / "keys", Head.of(ledger, named=home.head).path.parent}
    before = time.time() - _LEDGER_SECONDS
    return [
        path
        for folder in sorted(folders)
        for path in sorted(folder.glob(".*"))
        if _OF_LEDGER.fullmatch(path.name) and path.is_file() and path.stat().st_mtime < before
    ]


def _half_read(home: Home) -> Iterator[Finding]:
    """Snapshots without the last thing that is written: nothing is ever released from them."""
    for folder in sorted(path for path in home.raw.glob("[!.]*/*") if path.is_dir()):
        if not _is_finished(folder / "manifest.json"):
            dataset = folder.parent.name
            yield Finding(
                TOPIC,
                "note",
                f"snapshot {dataset}/{folder.name}: its rows were never read to the end",
                f"dp-pipeline run {dataset} --snapshot {folder.name}",
            )


def _is_finished(manifest: Path) -> bool:
    """Whether a manifest says so; one that cannot be read is the formats' matter."""
    if not manifest.is_file():
        return False
    try:
        stored = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True
    return not isinstance(stored, dict) or bool({"ingested_at", "retired"} & set(stored))
