"""Retiring rows: deletion of all stored stages and exact numbers of a population.

The manifest is first replaced by one that says *retired*: a half-deleted snapshot can never be read
or appear damaged, and a second attempt continues the first. Files are unlinked, not overwritten;
traces on the disk, backups and the source itself remain.
"""

import shutil
from collections.abc import Collection, Iterator
from datetime import date
from pathlib import Path

from dp_pipeline.files import sync
from dp_pipeline.raw.snapshot import CURRENT, MANIFEST, Snapshot


def retire(snapshot: Snapshot, *, population: str, on: date) -> None:
    """Delete all files of a snapshot but a manifest that keeps its name from being used again.

    A second call completes a stopped one."""
    with snapshot.locked():
        if not snapshot.is_retired():
            snapshot.mark_retired(population=population, on=on)
        for path in remaining_paths(snapshot):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        sync(snapshot.folder)


def remaining_paths(snapshot: Snapshot) -> list[Path]:
    """Return the paths in a snapshot's folder; once it is retired, without its manifest."""
    manifest = {MANIFEST} if snapshot.is_retired() else set()
    return [path for path in sorted(snapshot.folder.iterdir()) if path.name not in manifest]


def snapshots_of(
    store: Path, population: str, *, datasets: Collection[str]
) -> tuple[Snapshot, ...]:
    """Return all snapshots of one population in a raw store that are not completely retired.

    datasets   names of the data sets that are declared under the population

    The manifest names the population. A snapshot without one, whose run was stopped, is returned if
    its data set is among ``datasets`` or has another snapshot of the population.
    """
    snapshots = []
    for folder in _folders(store):
        # Only names and manifests are read here, so no key is needed.
        owners = {s: s.population for s in (Snapshot(path, b"") for path in _folders(folder))}
        is_ours = folder.name in datasets or population in owners.values()
        snapshots += [
            snapshot
            for snapshot, owner in owners.items()
            if owner == population or (owner is None and is_ours)
        ]
    return tuple(snapshot for snapshot in snapshots if remaining_paths(snapshot))


def paths_with_population(store: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield every snapshot and stray file of a raw store with its population, None if unknown.

    Empty or hidden folders, hidden files and those that name a current snapshot are skipped."""
    for folder in sorted(store.iterdir()) if store.is_dir() else ():
        if not folder.is_dir() or folder.name.startswith("."):
            continue
        for path in sorted(folder.iterdir()):
            if path.is_dir() and any(path.iterdir()):
                yield path, Snapshot(path, b"").population
            elif path.is_file() and path.name.partition(".")[0] not in ("", CURRENT):
                yield path, None


def _folders(folder: Path) -> list[Path]:
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in paths if path.is_dir() and not path.is_symlink()]
