"""The store of bundles on disk, each sealed and written whole, below its transcript's folder."""

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
from dp_pipeline.files import make_private, sync, temporary_folder, write_private
from dp_pipeline.results.bundle import Bundle, Key, table_names
from dp_pipeline.results.clusters import Tables

TRANSCRIPT_FILE = "transcript.jsonl"
BUNDLE_FILE = "bundle.json"
POPULATION = "population"
"""The file of a release's folder that names its population."""
_SEAL = "seal"
_DIGITS = 16
"""Length of the digest that names the folder of a bundle."""
_TARGET_EXISTS = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
"""Error numbers of a rename to a name that is taken already."""
_NOT_STORED = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors of a folder that does not hold the files of a bundle, and nothing else."""


@dataclass(frozen=True)
class BundleStore:
    """The store of releases on disk.

    ``<root>/<data set>/<model>/<key>/`` holds the transcript of one release and one folder for
    every post-processing of it.

    Each bundle has a seal: a digest, keyed with the secret of its population, of every file and of
    its place. Without that key nobody can change, add or swap a file unnoticed.
    """

    root: Path

    def folder(self, key: Key) -> Path:
        return Path(self.root, *key.place, key.digest[:32])

    def transcript_path(self, key: Key) -> Path:
        return self.folder(key) / TRANSCRIPT_FILE

    def bundle_path(self, key: Key, postprocessing: Mapping[str, str]) -> Path:
        text = json.dumps(dict(postprocessing), sort_keys=True)
        return self.folder(key) / f"bundle-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"

    def bundle_paths(self, key: Key) -> tuple[Path, ...]:
        # By their whole name: one that was moved away may lie here under another.
        return tuple(sorted(self.folder(key).glob(f"bundle-{'[0-9a-f]' * _DIGITS}")))

    def create_folder(self, folder: Path, population: str) -> None:
        """Create the folder of a release, with a file that names its population."""
        make_private(folder)
        if not (folder / POPULATION).exists():
            write_private(folder / POPULATION, f"{population}\n".encode())

    def write(
        self, path: Path, bundle: Bundle, *, key: bytes, texts: Mapping[str, str] | None = None
    ) -> None:
        """Store a bundle in the folder ``path`` unless that exists; only its owner may read it.

        key     the secret of the population
        texts   file name → text for a person, sealed with it
        """
        with temporary_folder(path) as temporary:
            for name, table in bundle.tables.items():
                _write_table(temporary / f"{name}.parquet", table)
            for name, text in (texts or {}).items():
                write_private(temporary / name, text.encode())
            write_private(temporary / BUNDLE_FILE, bundle.to_json().encode())
            seal = self._seal(path, _contents(temporary), key)
            write_private(temporary / _SEAL, seal.encode())
            try:
                temporary.rename(path)
            except OSError as error:
                # Of two that make a lost one again at once, both have found none.
                if error.errno not in _TARGET_EXISTS:
                    raise
            sync(path.parent)

    def read_sealed(self, path: Path, *, key: bytes) -> Bundle:
        """Return a stored bundle; Damaged if changed or missing, UnknownFormat for another format.

        Only the ledger shows whether it was settled: ``replay.settled_bundle`` reads those.
        """
        try:
            files = _contents(path)
            text = files[BUNDLE_FILE].decode()
            # First: another program may seal otherwise, and its bundle is whole.
            names = table_names(text)
            seal = files.pop(_SEAL, b"")
            if not hmac.compare_digest(seal, self._seal(path, files, key).encode()):
                raise self.damage_error(path)
            # A plan needs no Arrow.
            from dp_pipeline.export.arrow_tables import read_parquet

            tables: Tables = {name: read_parquet(files[f"{name}.parquet"]) for name in names}
            return Bundle.from_json(text, tables)
        except (*_NOT_STORED, ValueError, KeyError, Damaged):
            raise self.damage_error(path) from None

    def damage_error(self, path: Path) -> Damaged:
        """Return the error for a changed or missing bundle, with a remedy."""
        is_there = path.exists()
        remedy = f"put a copy of {path} back: it has no answers to be made again from"
        if (path.parent / TRANSCRIPT_FILE).exists():
            again = "run its data set (and time window) again"
            again = f"move {path} away and {again}" if is_there else again
            remedy = f"{again}: it is made again from its answers at no cost"
        fault = "not as it was stored" if is_there else "missing"
        return Damaged(f"bundle {self._place(path)} is {fault}: {remedy}")

    def _seal(self, path: Path, files: Mapping[str, bytes], key: bytes) -> str:
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        text = json.dumps(["bundle", self._place(path), digests], sort_keys=True)
        return hmac.new(key, text.encode(), "sha256").hexdigest()

    def _place(self, path: Path) -> str:
        """Return the path of a bundle relative to the store, so that the store can be moved."""
        return path.relative_to(self.root).as_posix()


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _write_table(path: Path, table: Mapping[str, np.ndarray]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        from dp_pipeline.export.arrow_tables import write_parquet

        write_parquet(file, table)
        file.flush()
        os.fsync(file.fileno())
