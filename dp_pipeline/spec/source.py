"""Where the rows of a data set come from, as declared: never opened here.

Identities: whether two sources may be of the same rows, as far as can be told without a look.

A source has many spellings: of a host, of a path in a URL, of a place in the file system. Its
identity is a *set* of canonical names (``Source.identities``), and two sources overlap where any
name of the one overlaps with any of the other. Files are compared twice: by their paths, which are
there in any order of claims, and where both are still there by what the file system says of them.
That finds hard links, bind mounts and a file system that does not tell capital letters apart.
Numbers of devices and files are never stored: they are used again for other files.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from dp_pipeline.spec.url import SQLITE, is_url, server_names, shown_url, url_names
from dp_pipeline.spec.windows import TEMPLATE

SourceKind = Literal["csv", "parquet", "sql", "sklearn", "generator"]

DATA_FOLDER_VARIABLE = "DP_PIPELINE_DATA"

_ENDS = re.compile(r"(?<![:\w]):(start|end)\b")
"""What stands for the seconds of a window in a query; not the type of a cast, ``::end``."""

WHITESPACE = "whitespace"
"""As a delimiter: any spaces and tabs between two cells, as many as there are."""


@dataclass(frozen=True)
class Sample:
    """So many rows of a source, as many of each class as its share of all rows asks for.

    by     the attribute whose levels are the classes
    seed   decides by chance which rows of a class
    """

    rows: int
    by: str
    seed: int

    def __str__(self) -> str:
        return f"{self.rows} rows by {self.by}, seed {self.seed}"


@dataclass(frozen=True)
class Source:
    """One declared source. No password is ever held here.

    kind        ``csv`` (also .csv.gz), ``parquet`` (a file, or a folder of them), ``sql``,
                ``sklearn`` (bundled sets), ``generator``
    location    a path or URL of a file, the database without its user and password, or the name
                of the bundled set or generator
    delimiter   of a CSV file: one character, or WHITESPACE
    header      column names of a CSV file that has none in its first line
    options     arguments of a generator, such as seed and rows
    needs       the environment variable that must be set for this source, or None
    more        locations of further CSV files of the same form, whose rows follow
    comment     lines of a CSV file that begin with this character are no rows; none when empty
    sample      which of the rows are read, on benchmarks only; None: all
    query       of a database: one SELECT
    sha256      URL → hex digest of the file behind it, where it is declared
    at_most_mb  the most that one URL may give, in 10^6 bytes; 0 where nothing is downloaded
    download    what is read instead where a file is absent, or None
    in_place    whether snapshots are the files where they are, by their fingerprints, and no copy
    whole       where this is the part of one window: the source of all of them; else None
    """

    kind: SourceKind
    location: str
    delimiter: str = ","
    header: tuple[str, ...] = ()
    options: Mapping[str, int] = field(default_factory=dict)
    needs: str | None = None
    more: tuple[str, ...] = ()
    comment: str = ""
    sample: Sample | None = None
    query: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)
    at_most_mb: int = 0
    download: Source | None = None
    in_place: bool = False
    whole: Source | None = None

    @property
    def is_template(self) -> bool:
        """Whether a path or the query names a window."""
        return any(TEMPLATE in one for one in self.locations) or bool(_ENDS.search(self.query))

    def of_window(self, name: str, start: int, end: int) -> Source:
        """What is read of one window: a file of its own, a query of its own, or the same as of all.

        name         of the window
        start, end   its first second and the first one after it, since 1970 in UTC

        >>> Source("csv", "/d/{window}.csv").of_window("2026-W03", 0, 1).location
        '/d/2026-W03.csv'
        """
        ends = {":start": str(start), ":end": str(end)}
        return replace(
            self,
            location=self.location.replace(TEMPLATE, name),
            more=tuple(one.replace(TEMPLATE, name) for one in self.more),
            query=_ENDS.sub(lambda found: ends[found[0]], self.query),
            whole=self,
        )

    @property
    def locations(self) -> tuple[str, ...]:
        """Every path or URL in order, or the one name."""
        return (self.location, *self.more)

    @property
    def is_remote(self) -> bool:
        """Whether the rows lie behind URLs."""
        return is_url(self.location)

    @property
    def is_named(self) -> bool:
        """Whether every variable in it is set: a path that begins with one is none."""
        return not any(location.startswith("$") for location in self.locations)

    def only(self, location: str) -> Source:
        """The same source, were this its one file, with all rows."""
        return replace(self, location=location, more=(), sample=None, download=None)

    @property
    def alternatives(self) -> tuple[Source, ...]:
        """What may be read: the source itself, and the download in its place."""
        alone = replace(self, download=None)
        if self.download is None:
            return (alone,)
        return (alone, replace(self.download, sample=self.sample))

    @property
    def identities(self) -> tuple[str, ...]:
        """Its canonical names, however it was spelled: one or more for every file, URL, declared
        hash, database, bundled set or generator, the download in its place included. The ledger
        keeps two populations from sharing any of them. A sample is of the same persons, and so
        may be the rows of another query: neither is told here.

        >>> Source("generator", "trips_like", options={"seed": 7}).identities
        ('generator:trips_like?seed=7',)
        >>> file = Source("csv", "/d//a.csv", download=Source("csv", "https://X.org:443/a.csv?t=1"))
        >>> file.identities
        ('file:/d/a.csv', 'https://x.org/a.csv')
        """
        if self.whole is not None:
            return self.whole.identities
        if self.download is None:
            return self._own_identities
        own = self._own_identities if self.is_named else ()
        return tuple(dict.fromkeys((*own, *self.download.identities)))

    @property
    def _own_identities(self) -> tuple[str, ...]:
        names = [name for location in self.locations for name in self._names(location)]
        hashes = [sha256_name(self.sha256[url]) for url in self.locations if url in self.sha256]
        return tuple(dict.fromkeys((*names, *hashes)))

    def _names(self, location: str) -> tuple[str, ...]:
        if self.is_remote:
            return url_names(location)
        if self.kind in ("csv", "parquet") and TEMPLATE in location:
            # All windows are of the same persons: the folder that they lie in is theirs.
            location = str(Path(location.partition(TEMPLATE)[0] + "-").parent)
        if self.kind in ("csv", "parquet"):
            return (file_name(location),) if self.is_named else (self._described(location),)
        if self.kind == "sql":
            return database_names(location)
        return (self._described(location),)

    def _described(self, location: str) -> str:
        if self.is_remote:
            return shown_url(location)
        options = "&".join(f"{name}={value}" for name, value in sorted(self.options.items()))
        return f"{self.kind}:{location}" + (f"?{options}" if options else "")

    @property
    def identity(self) -> str:
        """One text for all of it, and for what is read of it; not of the download in its place.

        >>> Source("csv", "a.csv", more=("b.csv",)).identity
        'csv:a.csv + csv:b.csv'
        >>> Source("csv", "a.csv", sample=Sample(20, "job", 7)).identity
        'csv:a.csv: 20 rows by job, seed 7'
        >>> Source("sql", "sqlite:///a.db", query="SELECT x FROM a").identity
        'sql:sqlite:///a.db, query 2546eb434778'
        """
        every = " + ".join(map(self._described, self.locations))
        if self.query:
            every += f", query {hashlib.sha256(self.query.encode()).hexdigest()[:12]}"
        return every if self.sample is None else f"{every}: {self.sample}"


def database_names(location: str) -> tuple[str, ...]:
    """The canonical names of what ``database_name`` gives: a file by its path, a server's
    database by each name of its host. The variable of one that is not known yet is its only name.

    >>> database_names("sqlite:////data/../rides.db"), database_names("$RIDES")
    (('file:/rides.db',), ('sql:$RIDES',))
    """
    if location.startswith(SQLITE):
        return (file_name(location.removeprefix(SQLITE)),)
    return server_names(location) or (f"sql:{location}",)


_FILE = "file:"
_FILES_BEFORE = ("csv:", "parquet:", f"sql:{SQLITE}")
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
