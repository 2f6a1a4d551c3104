"""What made the cells of a study: a digest of the code that measures, and versions below it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from functools import cache
from importlib import metadata, resources

from dp_pipeline import __version__

_ROOMS = (
    "gate",
    "metrics",
    "models",
    "raw",
    "raw/counters",
    "raw/generators",
    "release",
    "schema",
)
_SHARED = ("studies/benchmark.py", "studies/fit.py", "studies/seeds.py")


@cache
def code_version(*files: str, rooms: Collection[str] = ()) -> str:
    """Of the rooms that measure, and of the files of studies that do: charts and words
    may change without making finished cells void.

    rooms   beside those that every study depends on
    """
    package = resources.files("dp_pipeline")
    found = [file for room in (*_ROOMS, *rooms) for file in package.joinpath(room).iterdir()]
    found += [package.joinpath(file) for file in (*_SHARED, *files)]
    digest = hashlib.sha256()
    for file in sorted(found, key=str):
        if file.name.endswith(".py"):
            digest.update(file.read_bytes())
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "scikit-learn"))
    return f"dp_pipeline {__version__} {digest.hexdigest()[:12]}, {versions}"
