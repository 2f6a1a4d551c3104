"""What a source says of itself without being read as rows: whether its bytes may be others now.

For data alone whose changes are public: the answer decides when something is released.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dp_pipeline.raw.sources.parquet_folder import parquet_parts
from dp_pipeline.schema.source import Source

FILES = ("csv", "parquet")
"""Kinds of sources that are files, here or behind a URL."""


@dataclass(frozen=True)
class SourceStamp:
    """A cheap look at a source.

    text        another one when any file was written, came or went
    changed_at  when the newest file was written; None behind a URL
    """

    text: str
    changed_at: datetime | None


def is_watchable(source: Source) -> bool:
    """Whether it has a stamp at all: files here, or behind URLs with a declared hash. Decided by
    the declaration: nothing is opened.
    """
    return source.kind in FILES and any(
        not one.is_remote or _declared(one) for one in source.alternatives
    )


def source_stamp(source: Source) -> SourceStamp | None:
    """The stamp of what would be read now; None where that is not there, or not whole yet.

    Of files: names, sizes and times of writing. Of URLs, which are never opened for this: the
    hashes that the data set file declares.
    """
    for one in source.alternatives:
        if one.is_remote:
            declared = _declared(one)
            return SourceStamp(declared, None) if declared else None
        files = _files(one)
        if files:
            return _stamp_of(files)
    return None


def source_digest(source: Source) -> str | None:
    """Hash of the bytes that would be read now: of every file by itself, in order; None where
    there are none, or where they changed meanwhile.
    """
    before = source_stamp(source)
    if before is None or before.changed_at is None:
        return None if before is None else before.text
    files = next(found for found in map(_files, source.alternatives) if found)
    digest = hashlib.sha256()
    try:
        for path in files:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    except OSError:
        return None
    return digest.hexdigest() if source_stamp(source) == before else None


def _declared(source: Source) -> str:
    """Declared hashes of every URL; empty where one is missing."""
    hashes = [source.sha256.get(url, "") for url in source.locations]
    return " ".join(hashes) if all(hashes) else ""


def _files(source: Source) -> list[Path]:
    """Every file of a local source; none where one is missing."""
    if source.is_remote or not source.is_named:
        return []
    found: list[Path] = []
    for path in map(Path, source.locations):
        files = [path] if path.is_file() else parquet_parts(path)
        if not files:
            return []
        found += files
    return found


def _stamp_of(files: list[Path]) -> SourceStamp | None:
    try:
        states = [(path, path.stat()) for path in files]
    except OSError:
        return None
    lines = [f"{path} {state.st_size} {state.st_mtime_ns}" for path, state in states]
    text = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    newest = max(state.st_mtime for _, state in states)
    return SourceStamp(text, datetime.fromtimestamp(newest, UTC))
