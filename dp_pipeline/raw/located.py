"""Located: the files of a source, here now, downloaded if need be."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from dp_pipeline.raw.download import Download
from dp_pipeline.release.durable import make_private
from dp_pipeline.schema.errors import SourceError
from dp_pipeline.schema.source import Source
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.schema.url import shown_url

_DOWNLOADED = re.compile(r"[0-9a-f]{32}(\.[a-z0-9]+)?")
"""The names that ``_place`` gives."""


@dataclass(frozen=True)
class Located:
    """What is to be read.

    source   the declared source, or the download in its place
    files    where its locations lie; None where they are no downloads
    sha256   identity → hash of every file that was downloaded
    """

    source: Source
    files: tuple[Path, ...] | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def located(spec: DatasetSpec, folder: Path, known: Mapping[str, str]) -> Iterator[Located]:
    """The source as it can be read now: its own files where all of them are there, else what is
    declared to be downloaded.

    folder   for downloads. Those of benchmarks stay there, so that several data sets and samples
             read one; those of sensitive data go when the block ends, because rows lie in
             snapshots only.
    known    identity → hash of files that were downloaded before: another one is refused, unless
             the declaration names its hash

    Raises SourceError when a download fails.
    """
    source = _chosen(spec.source)
    if not source.is_remote:
        yield Located(source)
        return
    make_private(folder)
    files: list[Path] = []
    found = {}
    try:
        for url in source.locations:
            files.append(_place(folder, url))
            found[shown_url(url)] = _fetched(spec, source, url, files[-1], known)
        yield Located(source, tuple(files), found)
    finally:
        for path in files if spec.is_release else ():
            path.unlink(missing_ok=True)


def _chosen(source: Source) -> Source:
    own, *download = source.alternatives
    return own if all(map(_is_there, own.locations)) or not download else download[0]


def _is_there(location: str) -> bool:
    try:
        return Path(location).exists()
    except OSError:
        # It is there and may not be seen: reading it says so.
        return True


def _place(folder: Path, url: str) -> Path:
    """A name of its own for each URL; its ending says whether the file is compressed."""
    name = hashlib.sha256(url.encode()).hexdigest()[:32]
    ending = PurePosixPath(urlsplit(url).path).suffix.lower()
    return folder / f"{name}{ending if ending[1:].isalnum() else ''}"


def forget_downloads(folder: Path) -> None:
    """Delete the downloads that killed runs left in the snapshots of one sensitive data set; the
    caller holds its lock.
    """
    for path in folder.glob("*/*"):
        if _DOWNLOADED.fullmatch(path.name) and path.is_file():
            path.unlink()


def _fetched(
    spec: DatasetSpec, source: Source, url: str, path: Path, known: Mapping[str, str]
) -> str:
    """Download the file unless it is there; its hash."""
    declared, before = source.sha256.get(url), known.get(shown_url(url))
    expected = declared or before
    if path.is_file() and not spec.is_release:
        found = _sha256(path)
        if expected in (None, found):
            return found
    found = Download(spec.name, url, declared, source.at_most_mb).to(path)
    if declared is None and before not in (None, found):
        path.unlink()
        raise SourceError(
            f"{spec.name}: {shown_url(url)}: expected the file of SHA-256 {before}, as in an "
            f"earlier snapshot, got {found}; declare sha256 to say which"
        )
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
