"""Retiring rows: every stored stage and every exact number of a population, gone for good.

The manifest goes first, replaced by one that says *retired*: a snapshot of which half is deleted
can never be read, or be mistaken for a damaged one, and whoever starts again goes on where
the last one stopped. Files are unlinked, not overwritten: what a disk keeps of them, backups and
the source itself are not reached from here.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from datetime import date
from pathlib import Path

from dp_pipeline.raw.snapshot import CURRENT, Snapshot
from dp_pipeline.release.durable import sync


def snapshots_of(store: Path, lineage: str, *, datasets: Collection[str]) -> tuple[Snapshot, ...]:
    """Every snapshot of one population on a raw store of which more is left than its name.

    datasets   names of the data sets that are declared under the lineage

    A manifest says whose rows they are, declared or not. Where none does, because a run was
    stopped while it wrote, they are those of the data set's other snapshots.
    """
    return tuple(
        snapshot
        for folder in _folders(store)
        for snapshot in _of_one(folder, lineage, is_declared=folder.name in datasets)
        if snapshot.remains()
    )


def _of_one(folder: Path, lineage: str, *, is_declared: bool) -> list[Snapshot]:
    # Only names and manifests are read here, so no key is needed.
    stored = {one: one.lineage for one in (Snapshot(path, b"") for path in _folders(folder))}
    is_ours = is_declared or lineage in stored.values()
    return [one for one, whose in stored.items() if whose == lineage or (whose is None and is_ours)]


def stored_populations(store: Path) -> Iterator[tuple[Path, str | None]]:
    """Every snapshot of a raw store, retired ones too, with whose rows its manifest says they are
    or were; None where none can be read, and for files that no snapshot has.
    """
    for folder in sorted(store.iterdir()) if store.is_dir() else ():
        if not folder.is_dir() or folder.name.startswith("."):
            continue
        for path in sorted(folder.iterdir()):
            if path.is_dir() and any(path.iterdir()):
                yield path, Snapshot(path, b"").lineage
            elif path.is_file() and not path.name.startswith(".") and path.name != CURRENT:
                yield path, None


def _folders(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return iter(())
    found = (path for path in sorted(folder.iterdir()) if not path.is_symlink())
    return (path for path in found if path.is_dir())


def retire(snapshot: Snapshot, *, lineage: str, on: date) -> None:
    """Delete everything of a snapshot but its name; doing it again finishes what was begun."""
    with snapshot.alone():
        if not snapshot.is_retired():
            snapshot.mark_retired(lineage=lineage, on=on)
        for path in snapshot.remains():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        sync(snapshot.folder)


def name_of(snapshot: Snapshot) -> str:
    """How the ledger calls a snapshot: data set and name."""
    return f"{snapshot.folder.parent.name}/{snapshot.id}"
