"""The secret key of each lineage, for keyed fingerprints and contribution bounding."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from dp_pipeline.files import write_whole
from dp_pipeline.ledger.head import file_errors
from dp_pipeline.spec.errors import Damaged

KEY_BYTES = 32


def ensure_key(folder: Path, *, lineage: str) -> bytes:
    """The key of a lineage, made at the first call; the same bytes to every process."""
    path = _path(folder, lineage=lineage)
    with file_errors(path):
        if not path.exists():
            # Of many processes one wins, and the others read its key.
            write_whole(path, lambda file: file.write(os.urandom(KEY_BYTES)), over=False)
    return _read(path, lineage=lineage)


def read_key(folder: Path, *, lineage: str, commitment: str) -> bytes:
    """The key that the account was opened with; Damaged if it is gone or another one.

    A new key would keep other rows of the same persons, who would then be
    covered by two choices where one was paid for.
    """
    key = _read(_path(folder, lineage=lineage), lineage=lineage)
    if commit(key) != commitment:
        raise Damaged(f"key of lineage {lineage}: not the key that its account was opened with")
    return key


def commit(key: bytes) -> str:
    """What the ledger may say about a key: tells whether it is the same, and nothing else."""
    return hashlib.sha256(b"dp_pipeline ledger key\0" + key).hexdigest()


def _path(folder: Path, *, lineage: str) -> Path:
    # Hashed: a lineage is free text, a file name is not.
    return folder / f"{hashlib.sha256(lineage.encode()).hexdigest()[:32]}.key"


def _read(path: Path, *, lineage: str) -> bytes:
    with file_errors(path):
        key = path.read_bytes() if path.exists() else b""
    if len(key) != KEY_BYTES:
        raise Damaged(f"key of lineage {lineage}: expected {KEY_BYTES} bytes in {path}")
    return key
