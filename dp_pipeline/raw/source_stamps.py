"""Stamps that show whether the bytes of a source may have changed, without reading rows.

They are for data whose changes are public, since they decide when something is released.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dp_pipeline.config.source import FILES, Source
from dp_pipeline.raw.sources.parquet import parquet_parts


@dataclass(frozen=True)
class SourceStamp:
    """A summary of the files of a source, by which a change is noticed.

    text        digest that changes when a file is written, added or removed
    changed_at  time at which the newest file was written; None for URLs
    """

    text: str
    changed_at: datetime | None


def is_watchable(source: Source) -> bool:
    """Return whether changes of a source can be noticed: of local files, or URLs with hashes.

    Downloaded units whose parts are in another file have no hash of both."""
    if source.kind not in FILES or (source.parts is not None and not is_watchable(source.parts)):
        return False
    return any(not each.is_remote or _declared_hashes(each) for each in source.alternatives)


def source_stamp(source: Source) -> SourceStamp | None:
    """Return the stamp of a source as it is now; None for absent files and URLs without hashes.

    It is of names, sizes and times of files, or of the declared hashes of URLs; none is opened.
    Of local files with a declared download, it is that of the download only where they are absent.
    """
    for alternative in source.alternatives:
        if alternative.is_remote:
            hashes = _declared_hashes(alternative)
            return SourceStamp(hashes, None) if hashes else None
        files = _local_files(alternative)
        if not files:
            continue
        try:
            states = [(path, path.stat()) for path in files]
        except OSError:
            return None
        lines = [f"{path} {state.st_size} {state.st_mtime_ns}" for path, state in states]
        text = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        newest = max(state.st_mtime for _, state in states)
        return SourceStamp(text, datetime.fromtimestamp(newest, UTC))
    return None


def source_digest(source: Source) -> str | None:
    """Return a SHA-256 of all bytes of a source's files, or the declared hashes of its URLs.

    None if files are absent or change meanwhile, and for URLs without hashes."""
    stamp = source_stamp(source)
    if stamp is None or stamp.changed_at is None:
        return None if stamp is None else stamp.text
    files = next(files for files in map(_local_files, source.alternatives) if files)
    digest = hashlib.sha256()
    try:
        for path in files:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    except OSError:
        return None
    return digest.hexdigest() if source_stamp(source) == stamp else None


def _declared_hashes(source: Source) -> str:
    if source.parts is not None:
        return ""  # Hashes of units do not change with the file of their parts.
    hashes = [source.sha256.get(url, "") for url in source.locations]
    return " ".join(hashes) if all(hashes) else ""


def _local_files(source: Source) -> list[Path]:
    if source.is_remote or not source.is_resolved:
        return []
    parts = [
        [path] if path.is_file() else parquet_parts(path) for path in map(Path, source.locations)
    ]
    if source.parts is not None:
        parts.append(_local_files(source.parts))
    return [file for files in parts for file in files] if all(parts) else []
