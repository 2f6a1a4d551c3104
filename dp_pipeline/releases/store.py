"""Where bundles lie on disk: whole or not at all, sealed, each with its transcript beside it."""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dp_pipeline.config.errors import Damaged
from dp_pipeline.export.tables import read_parquet, write_parquet
from dp_pipeline.files import make_private, sync, temporary_folder, write_atomically
from dp_pipeline.results.bundle import Bundle, Key, table_names
from dp_pipeline.results.clusters import Tables

TRANSCRIPT_FILE = "transcript.jsonl"
BUNDLE_FILE = "bundle.json"
POPULATION = "population"
"""The file of a release's folder that says whose rows it is about."""
_SEAL = "seal"
_DIGITS = 16
"""Of the digest that names the folder of a bundle."""
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
_NOT_STORED = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors of a folder that does not hold the files of a bundle, and nothing else."""


def store_file(path: Path, content: bytes) -> None:
    """Write a 0600 file whole or not at all, in a folder for its owner only."""
    make_private(path.parent)
    write_atomically(path, content)


@dataclass(frozen=True)
class BundleStore:
    """Releases on disk: ``<root>/<data set>/<model>/<key>/`` holds the transcript of one
    release and one folder for every post-processing of it.

    Each of these has a seal: a digest, keyed with the secret of its population, of every file and
    of the place where it lies. Who can write here, and does not hold that key, can neither change
    a file, nor put one more beside it, nor a bundle in the place of another, unnoticed.
    """

    root: Path

    def folder(self, key: Key) -> Path:
        """Everything of one release."""
        return Path(self.root, *key.place, key.digest[:32])

    def transcript_path(self, key: Key) -> Path:
        """The noisy answers of one release."""
        return self.folder(key) / TRANSCRIPT_FILE

    def bundle_path(self, key: Key, postprocessing: Mapping[str, str]) -> Path:
        """The bundle of one release under one post-processing."""
        text = json.dumps(dict(postprocessing), sort_keys=True)
        return self.folder(key) / f"bundle-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"

    def bundle_paths(self, key: Key) -> tuple[Path, ...]:
        """Every stored bundle of one release."""
        # By their whole name: one that was moved away may lie beside, called otherwise.
        return tuple(sorted(self.folder(key).glob(f"bundle-{'[0-9a-f]' * _DIGITS}")))

    def begin(self, folder: Path, population: str) -> None:
        """Make the folder of a release, for its owner only, and say in it whose rows it is about:
        first of all, so that nothing of them ever lies there under no name.
        """
        make_private(folder)
        if not (folder / POPULATION).exists():
            store_file(folder / POPULATION, f"{population}\n".encode())

    def write(
        self, path: Path, bundle: Bundle, *, key: bytes, texts: Mapping[str, str] | None = None
    ) -> None:
        """Store a bundle in the folder of a release that was begun, for its owner only; one that
        already lies there is kept as it is.

        key     the secret of its population
        texts   file name → what a person reads beside it
        """
        with temporary_folder(path) as temporary:
            for name, table in bundle.tables.items():
                _write_table(temporary / f"{name}.parquet", table)
            for name, text in (texts or {}).items():
                store_file(temporary / name, text.encode())
            store_file(temporary / BUNDLE_FILE, bundle.to_json().encode())
            seal = self._seal(path, _contents(temporary), key)
            store_file(temporary / _SEAL, seal.encode())
            try:
                temporary.rename(path)
            except OSError as error:
                # Of two that make a lost one again at once, both have found none.
                if error.errno not in _TAKEN:
                    raise
            sync(path.parent)

    def sealed(self, path: Path, *, key: bytes) -> Bundle:
        """A bundle as it was written; Damaged where anything in its folder is not, UnknownFormat
        where another program wrote it.

        Only the ledger knows whether it was ever settled: of one that was,
        ``publish.replay.settled_bundle`` is what reads it.
        """
        try:
            files = _contents(path)
            text = files[BUNDLE_FILE].decode()
            # First: another program may seal otherwise, and its bundle is whole.
            names = table_names(text)
            found = files.pop(_SEAL, b"")
            if not hmac.compare_digest(found, self._seal(path, files, key).encode()):
                raise self.another(path)
            tables: Tables = {name: read_parquet(files[f"{name}.parquet"]) for name in names}
        except (*_NOT_STORED, ValueError, KeyError, Damaged):
            raise self.another(path) from None
        return Bundle.from_json(text, tables)

    def another(self, path: Path) -> Damaged:
        """The error for a bundle that is not what was written or settled, with what to do."""
        has_answers = (path.parent / TRANSCRIPT_FILE).exists()
        remedy = (
            f"move {path} away and run again: it is made again from its answers at no cost"
            if has_answers
            else f"put a copy of {path} back: it has no answers to be made again from"
        )
        return Damaged(
            f"bundle {self._place(path)}: expected it as it was stored, got another; {remedy}"
        )

    def _seal(self, path: Path, files: Mapping[str, bytes], key: bytes) -> str:
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        text = json.dumps(["bundle", self._place(path), digests], sort_keys=True)
        return hmac.new(key, text.encode(), "sha256").hexdigest()

    def _place(self, path: Path) -> str:
        """Where it lies in the store: the same after the whole store was moved."""
        return path.relative_to(self.root).as_posix()


def _contents(folder: Path) -> dict[str, bytes]:
    """Every file of a bundle, read once: what is compared is what is used."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _write_table(path: Path, table: Mapping[str, np.ndarray]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        write_parquet(file, table)
        file.flush()
        os.fsync(file.fileno())
