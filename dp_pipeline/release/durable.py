"""Folders for their owner only, and making what was written survive a loss of power."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """fsync of a file or of a folder: without the latter a new name may not survive."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(folder: Path) -> None:
    """Create a folder that only its owner can enter, and those above it that are missing.

    ``mkdir(parents=True)`` would open the ones above to everyone: the mode is the last one's only.
    """
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
