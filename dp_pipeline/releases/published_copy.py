"""Published copies: a fixed place where readers find the newest cleared release.

    <published>/<data set>/<model>/versions/<version>/   one export, never changed
    <published>/<data set>/<model>/current.json          which version is the newest
    <published>/<data set>/<model>/current               a link to it, in a folder

A version is complete before ``current.json`` names it, which is replaced at once: readers get the
old or the new one, also on an object store, which has no links and renames no folder. Old versions
stay until somebody deletes them.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, NotPrepared, PipelineError
from dp_pipeline.config.formats import FORMAT
from dp_pipeline.export.folder import SUMS, files_of
from dp_pipeline.files import temporary_folder
from dp_pipeline.releases import export
from dp_pipeline.releases.home import PUBLISHED_VARIABLE, Home, published_place

CURRENT, VERSIONS = "current", "versions"


@dataclass(frozen=True)
class PublishedCopy:
    """A published copy of one model's newest release.

    place     the folder or address that holds ``current.json``, without a password
    version   name of its folder: digits of the release's key and of ``digest``
    digest    SHA-256 in hex, of the list of the files' digests
    release   a phrase that names the release
    """

    place: str
    version: str
    digest: str
    release: str


def publish_copies(spec: DatasetSpec, home: Home) -> dict[str, PublishedCopy | None]:
    """Copy each published model's newest cleared release to its place; return the copies by model.

    Earlier versions stay there; ``current.json`` names the newest. None stands for a model without
    a cleared release. PipelineError if a store takes no files.
    """
    copies: dict[str, PublishedCopy | None] = {}
    for publication in export.publications_of(spec):
        model, epsilon = publication.model, epsilon_text(publication.epsilon)
        span = publication.span if spec.windows is not None else 0
        request = export.ExportRequest(model, epsilon, span=span)
        try:
            settled = export.find_newest_settled(spec, home, request, only_cleared=True)
        except NotPrepared:
            copies[model] = None
            continue
        place = "/".join((published_place(home).rstrip("/"), spec.name, model))
        write = _copy_to_address if "://" in place else _copy_to_folder
        exported, label = write(settled, place), _without_password(place)
        copies[model] = PublishedCopy(label, _version(exported), exported.digest, settled.words)
    return copies


def _copy_to_folder(settled: export.SettledRelease, place: str) -> export.Export:
    folder = Path(place)
    versions = folder / VERSIONS
    versions.mkdir(parents=True, exist_ok=True)
    with temporary_folder(folder / CURRENT) as scratch:
        exported = export.export(settled, scratch / "new", ending="csv")
        version = _version(exported)
        if not (versions / version).exists():
            exported.folder.rename(versions / version)
        (scratch / "link").symlink_to(Path(VERSIONS, version), target_is_directory=True)
        (scratch / "json").write_bytes(_current_json(exported))
        (scratch / "json").replace(folder / f"{CURRENT}.json")
        (scratch / "link").replace(folder / CURRENT)
    return exported


def _copy_to_address(settled: export.SettledRelease, place: str) -> export.Export:
    with tempfile.TemporaryDirectory() as scratch:
        exported = export.export(settled, Path(scratch, "new"), ending="csv")
        current = Path(scratch, f"{CURRENT}.json")
        current.write_bytes(_current_json(exported))
        with _one_line_errors(_without_password(place)):
            files, root = _file_system(place)
            _put_version(files, exported, f"{root}/{VERSIONS}/{_version(exported)}")
            files.put_file(str(current), f"{root}/{current.name}")
    return exported


def _put_version(files: Any, exported: export.Export, folder: str) -> None:
    """Upload a version of an export unless it exists.

    The list of digests comes last, so it marks a complete version.

    Files are put whole, so that a store derives the content type from the name. Folders are made
    only where paths begin at a root: a bucket needs none, and a mistyped one would be created.
    """
    if files.exists(f"{folder}/{SUMS}"):
        return
    names = [name for name in files_of(exported.folder) if name != SUMS]
    for name in (*names, SUMS):
        path = f"{folder}/{name}"
        if path.startswith("/"):
            files.makedirs(path.rpartition("/")[0], exist_ok=True)
        files.put_file(str(exported.folder / name), path)


_REASONS: dict[type[Exception], str] = {
    FileNotFoundError: ": no such bucket or folder; none is made: make it, or correct the address",
    PermissionError: ": the user or key that writes there may not: allow it to",
}


@contextmanager
def _one_line_errors(place: str) -> Iterator[None]:
    """Turn a storage driver's error into a PipelineError without its text, which may have a key."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:  # noqa: BLE001 - each driver has errors of its own
        why = _REASONS.get(
            type(error), ": check the address, the network and the driver's settings"
        )
        raise PipelineError(
            f"The store that {PUBLISHED_VARIABLE} names cannot take files at {place}: "
            f"{type(error).__name__}{why}"
        ) from None


def _without_password(place: str) -> str:
    return re.sub(r"://([^/@:]*):[^/@]*@", r"://\1@", place)


def _file_system(place: str) -> tuple[Any, str]:
    """Return the file system of an address and the path in it; DeclarationError if it has none."""
    scheme = place.partition("://")[0][:20]
    expected = f"The variable {PUBLISHED_VARIABLE} must name a folder or a store of fsspec"
    try:
        import fsspec

        files, root = fsspec.core.url_to_fs(place)
    except ImportError:
        raise DeclarationError(
            f"{expected}, but the driver of {scheme} is missing: install `dp-pipeline[cloud]` "
            "and the driver, such as s3fs, gcsfs or adlfs"
        ) from None
    except ValueError:
        if scheme in fsspec.available_protocols():
            raise  # The driver knows the address, and refuses its own settings.
        raise DeclarationError(
            f"{expected}, but fsspec knows no addresses that begin with {scheme}://: correct it"
        ) from None
    return files, str(root).rstrip("/")


def _version(exported: export.Export) -> str:
    return f"{exported.settled.bundle.key[:16]}-{exported.digest[:16]}"


def _current_json(exported: export.Export) -> bytes:
    content = {
        "format": FORMAT,
        "version": f"{VERSIONS}/{_version(exported)}",
        "digest": f"sha256:{exported.digest}",
        "release": exported.settled.words,
        "key": exported.settled.bundle.key,
        "files": list(exported.files),
    }
    return f"{json.dumps(content, indent=1, ensure_ascii=False)}\n".encode()
