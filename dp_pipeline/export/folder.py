"""The folder of an export: whole or not at all, and in the place of nothing but an earlier one.

``datapackage.json`` says what each file is, and its digest. ``SHA256SUMS`` has the digests of all
files, that one's too, as ``sha256sum --check`` reads them; its own digest stands for the folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.files import sync, temporary_folder

DESCRIPTOR, SUMS = "datapackage.json", "SHA256SUMS"
RELEASE = "release.json"
"""The release as it was settled: facts, charges, quality numbers, digests of its tables."""
OWN = "dp_pipeline"
"""The property of the descriptor that says what a folder is an export of."""


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_of(folder: Path) -> list[str]:
    """Every file below a folder, with slashes, in order; Damaged for what is neither file nor
    folder, such as a link.
    """
    found = sorted(folder.rglob("*"))
    odd = next(
        (one for one in found if one.is_symlink() or not (one.is_file() or one.is_dir())), None
    )
    if odd is not None:
        raise Damaged(f"{odd.relative_to(folder)}: expected a file, got a link or a device")
    return [one.relative_to(folder).as_posix() for one in found if one.is_file()]


def sums_text(folder: Path) -> str:
    """What ``SHA256SUMS`` says of the files that are there now."""
    others = [name for name in files_of(folder) if name != SUMS]
    return "".join(f"{file_digest(folder / name)}  {name}\n" for name in others)


def digest_of_export(folder: Path) -> str:
    """The digest that stands for all of its files."""
    return file_digest(folder / SUMS)


def read_descriptor(folder: Path) -> dict[str, Any]:
    """``datapackage.json``; Damaged where there is none of an export."""
    try:
        found = json.loads((folder / DESCRIPTOR).read_text(encoding="utf-8"))
        if isinstance(found[OWN], dict) and isinstance(found["resources"], list):
            return dict(found)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise Damaged(f"{DESCRIPTOR}: expected the description of an export, got none")


def require_replaceable(target: Path, *, dataset: str, model: str) -> None:
    """DeclarationError unless nothing is there, or an earlier export of the same data set and
    model and nothing else.
    """
    if not target.exists() and not target.is_symlink():
        return
    expected = f"{target}: expected no folder, or an earlier export of {dataset}/{model}"
    if target.is_symlink() or not target.is_dir():
        raise DeclarationError(f"{expected}, got a file or a link")
    try:
        descriptor, there = read_descriptor(target), set(files_of(target))
    except Damaged:
        raise DeclarationError(f"{expected}, got a folder that is none") from None
    found = descriptor[OWN]
    if (found.get("dataset"), found.get("model")) != (dataset, model):
        got = f"{str(found.get('dataset'))[:64]}/{str(found.get('model'))[:64]}"
        raise DeclarationError(f"{expected}, got one of {got}")
    listed = {one.get("path") for one in descriptor["resources"] if isinstance(one, dict)}
    strange = sorted(there - listed - {DESCRIPTOR, SUMS})
    if strange:
        raise DeclarationError(f"{expected}, got one with another file in it: {strange[0][:80]}")


def replace_whole(target: Path, write: Callable[[Path], None], *, dataset: str, model: str) -> None:
    """Put what ``write`` makes of an empty folder in the place of ``target``, which is there before
    and after, and as it was if anything fails.
    """
    require_replaceable(target, dataset=dataset, model=model)
    target.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(target) as beside:
        new, before = beside / "new", beside / "before"
        new.mkdir()
        write(new)
        for name in files_of(new):
            sync(new / name)
        for folder in (new, *(one for one in new.rglob("*") if one.is_dir())):
            sync(folder)
        # Again: somebody may have put something there meanwhile.
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
