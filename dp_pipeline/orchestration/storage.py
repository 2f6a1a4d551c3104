"""Where bundles lie on disk: whole or not at all, each with its transcript beside it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dp_pipeline.release.bundle import Bundle, table_names
from dp_pipeline.release.clusters import Tables
from dp_pipeline.release.durable import sync, temporary_folder, write_whole
from dp_pipeline.release.key import ReleaseKey
from dp_pipeline.schema.errors import Damaged


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, in a folder that is made if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: file.write(content))


@dataclass(frozen=True)
class BundleStore:
    """Releases on disk: ``<root>/<data set>/<model>/<key>/`` holds the transcript of one
    release and one folder for every post-processing of it.
    """

    root: Path

    def folder(self, key: ReleaseKey) -> Path:
        """Everything of one release."""
        return self.root / key.dataset / key.model / key.digest[:32]

    def transcript_path(self, key: ReleaseKey) -> Path:
        """The noisy answers of one release."""
        return self.folder(key) / "transcript.jsonl"

    def bundle_path(self, key: ReleaseKey, postprocessing: Mapping[str, str]) -> Path:
        """The bundle of one release under one post-processing."""
        text = json.dumps(dict(postprocessing), sort_keys=True)
        return self.folder(key) / f"bundle-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def bundle_paths(self, key: ReleaseKey) -> tuple[Path, ...]:
        """Every stored bundle of one release."""
        return tuple(sorted(self.folder(key).glob("bundle-*")))

    def write(self, path: Path, bundle: Bundle, *, texts: Mapping[str, str] | None = None) -> None:
        """Store a bundle; one that already lies there is kept as it is. The folder above, that of
        its release, is for its owner only.

        texts   file name → what a person reads beside it
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with temporary_folder(path) as temporary:
            for name, table in bundle.tables.items():
                _write_table(temporary / f"{name}.parquet", table)
            for name, text in (texts or {}).items():
                write_atomically(temporary / name, text.encode())
            write_atomically(temporary / "bundle.json", bundle.to_json().encode())
            temporary.chmod(0o755)
            if not path.exists():
                temporary.rename(path)
                sync(path.parent)

    def read(self, path: Path) -> Bundle:
        """A stored bundle; Damaged unless every table is the one that was stored."""
        try:
            text = (path / "bundle.json").read_text(encoding="utf-8")
            tables: Tables = {
                name: _read_table(path / f"{name}.parquet") for name in table_names(text)
            }
        except (OSError, ValueError, KeyError):
            raise Damaged(
                f"bundle {path.name}: expected a whole bundle, got a broken one"
            ) from None
        return Bundle.from_json(text, tables)


def _write_table(path: Path, table: Mapping[str, np.ndarray]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {}
    for name, values in table.items():
        if values.dtype.kind in "UO":
            # A column of nothing but missing values says no type: text is what any reader takes.
            is_text = all(isinstance(one, str) for one in values.tolist() if one is not None)
            columns[name] = pa.array(values.tolist(), pa.string() if is_text else None)
        else:
            columns[name] = values
    with path.open("wb") as file:
        pq.write_table(pa.table(columns), file)
        file.flush()
        os.fsync(file.fileno())


def _read_table(path: Path) -> dict[str, np.ndarray]:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    columns = {}
    for name in table.column_names:
        column = table.column(name)
        values = column.to_numpy(zero_copy_only=False)
        if column.null_count:
            # NumPy would make a float of a whole number beside a missing one.
            columns[name] = np.array([*column.to_pylist(), None], dtype=object)[:-1]
        else:
            columns[name] = values.astype(np.str_) if values.dtype.kind == "O" else values
    return columns
