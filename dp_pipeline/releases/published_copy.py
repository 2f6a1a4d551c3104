"""The shelf: a place that stays the same, where readers find the newest cleared release.

    <published>/<data set>/<model>/versions/<version>/   one export, never changed
    <published>/<data set>/<model>/current.json          which version is the newest
    <published>/<data set>/<model>/current               a link to it, in a folder

A version is whole before anything names it, and ``current.json`` is written last and at once: who
reads meanwhile gets the old or the new one. That also holds on an object store, where there are no
links and no folder can be renamed. Old versions stay until somebody deletes them: they are public.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec, Publication
from dp_pipeline.config.errors import DeclarationError, NotPrepared, PipelineError
from dp_pipeline.config.formats import FORMAT
from dp_pipeline.export.folder import SUMS, files_of
from dp_pipeline.files import temporary_folder
from dp_pipeline.releases.export import (
    Asked,
    Exported,
    Found,
    export,
    find_newest_settled,
    publications_of,
)
from dp_pipeline.releases.home import PUBLISHED_VARIABLE, Home, published_place

CURRENT, VERSIONS = "current", "versions"
_FORMAT = "csv"


@dataclass(frozen=True)
class PublishedCopy:
    """What stands on the shelf of one model now.

    place     the folder or address that holds ``current.json``
    version   of the key of the release and the digest of the export
    digest    of the export
    """

    place: str
    version: str
    digest: str
    release: str


def publish_copies(spec: DatasetSpec, home: Home) -> dict[str, PublishedCopy | None]:
    """Put the newest cleared release of everything that a data set publishes onto its shelf;
    published model → what stands there now, None where nothing cleared was ever settled.
    """
    return {one.model: _newest(spec, home, one) for one in publications_of(spec)}


def _newest(spec: DatasetSpec, home: Home, publication: Publication) -> PublishedCopy | None:
    span = publication.span if spec.windows is not None else 0
    asked = Asked(publication.model, epsilon_text(publication.epsilon), span=span)
    try:
        found = find_newest_settled(spec, home, asked, only_cleared=True)
    except NotPrepared:
        return None
    place = "/".join((published_place(home).rstrip("/"), spec.name, publication.model))
    return _at_address(found, place) if "://" in place else _in_folder(found, Path(place))


def _in_folder(found: Found, place: Path) -> PublishedCopy:
    versions = place / VERSIONS
    versions.mkdir(parents=True, exist_ok=True)
    with temporary_folder(place / CURRENT) as beside:
        exported = export(found, beside / "new", ending=_FORMAT)
        version = _version(exported)
        if not (versions / version).exists():
            exported.folder.rename(versions / version)
        (beside / "link").symlink_to(Path(VERSIONS, version), target_is_directory=True)
        (beside / "told").write_bytes(_told(exported))
        (beside / "told").replace(place / f"{CURRENT}.json")
        (beside / "link").replace(place / CURRENT)
    return _shelved(str(place), exported)


def _at_address(found: Found, place: str) -> PublishedCopy:
    shown = _without_password(place)
    with tempfile.TemporaryDirectory() as beside:
        exported = export(found, Path(beside, "new"), ending=_FORMAT)
        told = Path(beside, f"{CURRENT}.json")
        told.write_bytes(_told(exported))
        with _one_line_of(shown):
            files, root = _file_system(place)
            _put(files, exported, f"{root}/{VERSIONS}/{_version(exported)}")
            files.put_file(str(told), f"{root}/{told.name}")
    return _shelved(shown, exported)


def _put(files: Any, exported: Exported, at: str) -> None:
    """A version, written once. The list of digests comes last: where it is, all others are.

    A whole file is put, so that a store learns from its name what it is: a page is shown, and not
    downloaded. Folders are made where paths begin at a root. A bucket needs none, and would itself
    be made where its name is mistyped.
    """
    if files.exists(f"{at}/{SUMS}"):
        return
    names = [name for name in files_of(exported.folder) if name != SUMS]
    for name in (*names, SUMS):
        path = f"{at}/{name}"
        if path.startswith("/"):
            files.makedirs(path.rpartition("/")[0], exist_ok=True)
        files.put_file(str(exported.folder / name), path)


@contextmanager
def _one_line_of(place: str) -> Iterator[None]:
    """PipelineError for whatever a driver raises. Its own words are left out: they may have the
    key that it was given.
    """
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:  # noqa: BLE001 - each driver has errors of its own
        why = _REASONS.get(type(error), "")
        raise PipelineError(
            f"{PUBLISHED_VARIABLE}: expected a store that takes files at {place}, got "
            f"{type(error).__name__}{why}"
        ) from None


_REASONS: dict[type[Exception], str] = {
    FileNotFoundError: ": no such bucket or folder; none is made",
    PermissionError: ": it may not be read or written with the key that the driver found",
}


def _without_password(place: str) -> str:
    """An address as it may be shown."""
    return re.sub(r"://([^/@:]*):[^/@]*@", r"://\1@", place)


def _file_system(place: str) -> tuple[Any, str]:
    """What fsspec makes of an address; DeclarationError for one of a store that it does not know,
    or whose driver is not installed.
    """
    expected = (
        f"{PUBLISHED_VARIABLE}: expected a folder, or an address of a store that fsspec knows"
    )
    try:
        import fsspec

        files, root = fsspec.core.url_to_fs(place)
    except ImportError:
        scheme = place.partition("://")[0]
        raise DeclarationError(
            f"{expected}, got one of {scheme[:20]} without its driver: install "
            "`dp-pipeline[cloud]` and the driver, such as s3fs, gcsfs or adlfs"
        ) from None
    except ValueError:
        raise DeclarationError(f"{expected}, got another") from None
    return files, str(root).rstrip("/")


def _version(exported: Exported) -> str:
    return f"{exported.found.bundle.key[:16]}-{exported.digest[:16]}"


def _told(exported: Exported) -> bytes:
    """What ``current.json`` says."""
    told = {
        "format": FORMAT,
        "version": f"{VERSIONS}/{_version(exported)}",
        "digest": f"sha256:{exported.digest}",
        "release": exported.found.words,
        "key": exported.found.bundle.key,
        "files": list(exported.files),
    }
    return f"{json.dumps(told, indent=1, ensure_ascii=False)}\n".encode()


def _shelved(place: str, exported: Exported) -> PublishedCopy:
    return PublishedCopy(place, _version(exported), exported.digest, exported.found.words)
