"""Identities: whether two sources may be of the same rows, as far as can be told without a look.

A source has many spellings: of a host, of a path in a URL, of a place in the file system. Its
identity is a *set* of canonical names (``Source.identities``), and two sources overlap where any
name of the one overlaps with any of the other. Files are compared twice: by their paths, which are
there in any order of claims, and where both are still there by what the file system says of them.
That finds hard links, bind mounts and a file system that does not tell capital letters apart.
Numbers of devices and files are never stored: they are used again for other files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dp_pipeline.spec.url import is_url, url_names

_FILE = "file:"
_FILES_BEFORE = ("csv:", "parquet:", "sql:sqlite:///")
"""How names of files began in ledgers of before a file was one source whatever is read of it."""
_POSTGRESQL = "postgresql://"

Number = tuple[int, int]
"""Device and file, of a file that is there now."""


def file_name(path: str) -> str:
    """The name of a file or folder: where it is, whatever links lead there.

    >>> file_name("/data//x/../rides.csv")
    'file:/data/rides.csv'
    """
    return f"{_FILE}{os.path.realpath(path)}"


def sha256_name(digest: str) -> str:
    """The name of a file whose hash is declared, wherever it lies."""
    return f"sha256:{digest.lower()}"


def overlap(one: str, other: str) -> bool:
    """Whether two names may be of the same rows: equal in their canonical form, a folder and what
    lies in it, or one file of the file system under two paths.

    >>> overlap("file:/a", "file:/a/may.parquet"), overlap("file:/a", "file:/ab")
    (True, False)
    >>> overlap("https://example.org/a.csv", "https://EXAMPLE.org:443/x/../a.csv")
    True
    """
    return Named(one).overlaps(Named(other))


@dataclass(frozen=True)
class Named:
    """One name of a source, as it is stored or declared, to be compared with others.

    The files of a folder are listed once, when it is compared for the first time.
    """

    name: str

    def overlaps(self, other: Named) -> bool:
        """What ``overlap`` says of the two names."""
        if self.path is None or other.path is None:
            return not self._canonical.isdisjoint(other._canonical)
        if self.path == other.path or self._is_above(other) or other._is_above(self):
            return True
        return bool(
            self._held & other._held or self._held & other._above or self._above & other._held
        )

    @cached_property
    def path(self) -> Path | None:
        """Of a file or folder; None where the name is of anything else."""
        for beginning in (_FILE, *_FILES_BEFORE):
            if self.name.startswith(f"{beginning}/"):
                return Path(os.path.normpath(self.name.removeprefix(beginning)))
        return None

    @cached_property
    def _canonical(self) -> frozenset[str]:
        if self.path is not None:
            return frozenset({f"{_FILE}{self.path}"})
        if is_url(self.name):
            try:
                return frozenset(url_names(self.name))
            except ValueError:
                # Stored before such hosts were refused: it must not stop the comparison of others.
                return frozenset({self.name})
        plain = self.name.removeprefix("sql:")
        if plain.startswith(_POSTGRESQL):
            # Takes a third of a second, and most data sets are files.
            from dp_pipeline.spec.source import server_names

            return frozenset(server_names(plain)) or frozenset({self.name})
        return frozenset({self.name})

    def _is_above(self, other: Named) -> bool:
        assert self.path is not None and other.path is not None
        return other.path.is_relative_to(self.path)

    @cached_property
    def _held(self) -> frozenset[Number]:
        """The file, or the folder and every file that is read of it, as far as they are there and
        may be seen.
        """
        assert self.path is not None
        below = (Path(at, name) for at, _, names in os.walk(self.path) for name in names)
        return _numbers([self.path, *(one for one in below if one.suffix == ".parquet")])

    @cached_property
    def _above(self) -> frozenset[Number]:
        """Every folder above."""
        assert self.path is not None
        return _numbers(list(self.path.parents))


def _numbers(paths: list[Path]) -> frozenset[Number]:
    found = set()
    for path in paths:
        try:
            state = path.stat()
        except (OSError, ValueError):
            continue
        found.add((state.st_dev, state.st_ino))
    return frozenset(found)
