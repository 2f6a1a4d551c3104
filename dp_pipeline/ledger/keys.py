"""The secret key of each population, for keyed fingerprints and contribution bounding."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from dp_pipeline.files import write_whole
from dp_pipeline.ledger.head import file_errors
from dp_pipeline.spec.errors import Damaged

KEY_BYTES = 32


def ensure_key(folder: Path, *, population: str) -> bytes:
    """The key of a population, made at the first call; the same bytes to every process."""
    path = _path(folder, population=population)
    with file_errors(path):
        if not path.exists():
            # Of many processes one wins, and the others read its key.
            write_whole(path, lambda file: file.write(os.urandom(KEY_BYTES)), over=False)
    return _read(path, population=population)


def read_key(folder: Path, *, population: str, commitment: str) -> bytes:
    """The key that the account was opened with; Damaged if it is gone or another one.

    A new key would keep other rows of the same persons, who would then be
    covered by two choices where one was paid for.
    """
    key = _read(_path(folder, population=population), population=population)
    if commit(key) != commitment:
        raise Damaged(
            f"key of population {population}: not the key that its account was opened with"
        )
    return key


def commit(key: bytes) -> str:
    """What the ledger may say about a key: tells whether it is the same, and nothing else."""
    return hashlib.sha256(b"dp_pipeline ledger key\0" + key).hexdigest()


def _path(folder: Path, *, population: str) -> Path:
    # Hashed: a population is free text, a file name is not.
    return folder / f"{hashlib.sha256(population.encode()).hexdigest()[:32]}.key"


def _read(path: Path, *, population: str) -> bytes:
    with file_errors(path):
        key = path.read_bytes() if path.exists() else b""
    if len(key) != KEY_BYTES:
        raise Damaged(f"key of population {population}: expected {KEY_BYTES} bytes in {path}")
    return key
