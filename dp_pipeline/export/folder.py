"""Writing of an export as a complete folder, which may replace an earlier export and nothing else.

``datapackage.json`` describes each file, with its digest. ``SHA256SUMS`` has the digests of all
files, also of the description, as ``sha256sum --check`` reads them; the digest of ``SHA256SUMS``
stands for the whole folder.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.config.system_errors import system_line
from dp_pipeline.files import sync, temporary_folder

DESCRIPTOR, SUMS = "datapackage.json", "SHA256SUMS"
RELEASE = "release.json"
"""The file of the stored release: facts, charges, quality numbers, digests of its tables."""
OWN = "dp_pipeline"
"""The property of ``datapackage.json`` that names the exported data set and model."""


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_of(folder: Path) -> list[str]:
    """Return the sorted relative paths of all files in a folder; Damaged for a link or device."""
    paths = sorted(folder.rglob("*"))
    for path in paths:
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            kind = "link" if path.is_symlink() else "device"
            raise Damaged(
                f"{path.relative_to(folder)} must be a file, but it is a {kind}: remove it "
                "if it was added, or fetch the export again"
            )
    return [path.relative_to(folder).as_posix() for path in paths if path.is_file()]


def sums_text(folder: Path) -> str:
    """Return the content that ``SHA256SUMS`` must have for the other files in a folder.

    It has a line for each, sorted: the digest, two spaces and the relative path. Damaged for a link
    or device.
    """
    names = [name for name in files_of(folder) if name != SUMS]
    return "".join(f"{file_digest(folder / name)}  {name}\n" for name in names)


def digest_of_export(folder: Path) -> str:
    """Return the SHA-256 in hex of ``SHA256SUMS``, which identifies all files of an export."""
    return file_digest(folder / SUMS)


def read_descriptor(folder: Path) -> dict[str, Any]:
    """Return the content of ``datapackage.json``; Damaged if it does not describe an export."""
    path, fault = folder / DESCRIPTOR, "does not describe an export of this program"
    try:
        descriptor = json.loads(path.read_text(encoding="utf-8"))
        texts = [file[name] for file in descriptor["resources"] for name in ("name", "path")]
        if isinstance(descriptor[OWN], dict) and all(isinstance(text, str) for text in texts):
            return dict(descriptor)
    except FileNotFoundError:
        fault = "does not exist"
    except OSError as error:
        raise Damaged(system_line(error, path)) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise Damaged(f"{path} {fault}: name the folder of an export, or fetch the export again")


def require_replaceable(target: Path, *, dataset: str, model: str) -> None:
    """Raise DeclarationError if a path exists and is no export of this data set and model.

    An export with any file that it does not describe is refused too.
    """
    if not target.exists() and not target.is_symlink():
        return
    expected = f"{target} may only be an earlier export of {dataset}/{model}, but it is"
    if target.is_symlink() or not target.is_dir():
        kind = "link" if target.is_symlink() else "file"
        raise DeclarationError(f"{expected} a {kind}: choose another folder")
    try:
        descriptor, names = read_descriptor(target), set(files_of(target))
    except Damaged as error:
        fault = str(error).partition(": ")[0]
        raise DeclarationError(
            f"{expected} none, as {fault}: choose a folder that does not exist"
        ) from None
    identity = descriptor[OWN].get("dataset"), descriptor[OWN].get("model")
    if identity != (dataset, model):
        got = "/".join(str(part)[:64] for part in identity)
        raise DeclarationError(f"{expected} an export of {got}: choose another folder")
    described = {resource["path"] for resource in descriptor["resources"]}
    extra = sorted(names - described - {DESCRIPTOR, SUMS})
    if extra:
        raise DeclarationError(
            f"{expected} one with a file of another origin, {extra[0][:80]}: move that file away"
        )


def replace_folder(
    target: Path, write: Callable[[Path], None], *, dataset: str, model: str
) -> None:
    """Make a folder of the files that ``write`` puts into an empty one, or replace an earlier one.

    If anything fails, the earlier folder stays as it was. DeclarationError if the target exists and
    is no export of this data set and model.
    """
    require_replaceable(target, dataset=dataset, model=model)
    target.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(target) as scratch:
        new, before = scratch / "new", scratch / "before"
        new.mkdir()
        write(new)
        for name in files_of(new):
            sync(new / name)
        for folder in (new, *filter(Path.is_dir, new.rglob("*"))):
            sync(folder)
        # Another process may have written there meanwhile.
        require_replaceable(target, dataset=dataset, model=model)
        if target.exists():
            target.rename(before)
        try:
            new.rename(target)
        except OSError:
            if before.exists():
                before.rename(target)
            raise
        sync(target.parent)
