"""What somebody can do who holds the key of a population and may write into the store."""

from __future__ import annotations

from pathlib import Path

from dp_pipeline.releases.release import Release
from dp_pipeline.results.bundle import Bundle


def reseal(release: Release, folder: Path) -> Bundle:
    """Seal the files of a bundle as they are now; what the store reads then."""
    store, key = release.store, release.home.ledger.key(release.spec.population)
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "seal"}
    (folder / "seal").write_text(store._seal(folder, files, key))
    return store.sealed(folder, key=key)
