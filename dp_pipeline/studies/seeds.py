"""Seeds of a study: from the name of a cell alone, so that every run draws the same."""

from __future__ import annotations

import hashlib


def seed_of(use: str, key: str) -> int:
    """128 bits: the same in every run, independent between keys and uses."""
    return int.from_bytes(hashlib.sha256(f"{use} {key}".encode()).digest()[:16])
