"""Where the rows of a data set come from, as declared: never opened here.

Identities: whether two sources may be of the same rows, as far as can be told without a look.

A source has many spellings: of a host, of a path in a URL, of a place in the file system. Its
identity is a *set* of canonical names (``Source.identities``), and two sources overlap where any
name of the one overlaps with any of the other. Files are compared twice: by their paths, which are
there in any order of claims, and where both are still there by what the file system says of them.
That finds hard links, bind mounts and a file system that does not tell capital letters apart.
The number of a file is a name only where the file has another hard link: that of any other file is
used again when the file is gone.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from stat import S_ISREG
from typing import Literal

from dp_pipeline.config.database import SQLITE, server_names
from dp_pipeline.config.url import is_url, shown_url, url_names
from dp_pipeline.config.windows import TEMPLATE

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
        if self.kind == "sql":
            return database_names(location)
        if self.kind in FILES:
            # All windows are of the same persons: the folder that they lie in is theirs.
            before, template, _ = location.partition(TEMPLATE)
            location = str(Path(f"{before}-").parent) if template else location
            return (file_name(location),) if self.is_named else (self._described(location),)
        return (self._described(location),)

    @property
    def current_identities(self) -> tuple[str, ...]:
        """Its identities, and those of the files that would be read now: where a link leads, and
        the number of a file that has another hard link, by which it is known again while any of its
        links is there. Whoever reads rows asks for these, before and after.
        """
        places = [one.removeprefix(SQLITE) for one in self.locations if not self.is_remote]
        places = [one for one in places if Path(one).is_absolute()]
        linked = (file_name(one) for place in places for one in (place, *_linked_parts(place)))
        states = (state for place in places for state in _states(Path(place)))
        numbers = [_number(one) for one in states if S_ISREG(one.st_mode) and one.st_nlink > 1]
        inodes = (f"{_INODE}{device}:{file}" for device, file in numbers)
        return _without_contents((*self.identities, *linked, *inodes))

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


FILES = ("csv", "parquet")
"""Kinds of sources that are files, here or behind a URL."""

_FILE = "file:"
_INODE = "inode:"
_DATASET = "dataset:"
_POSTGRESQL = "sql:postgresql://"

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


def dataset_name(name: str) -> str:
    """The name by which a population holds what a data set is called: a file that comes to name
    another population is noticed, wherever its rows lie.
    """
    return f"{_DATASET}{name}"


def shown_name(name: str) -> str:
    """A name of a source in a message.

    >>> shown_name("file:/d/a.csv"), shown_name(dataset_name("rides"))
    ("source 'file:/d/a.csv'", 'data set rides')
    """
    own = name.removeprefix(_DATASET)
    return f"source {name!r}" if own == name else f"data set {own}"


def first_overlap(names: Sequence[str], others: Iterable[str]) -> tuple[str, str] | None:
    """The first of the others that may be of the same rows as a name, behind the first such name;
    None where there is none. Two names may where they are equal in their canonical form, are a
    folder and what lies in it, or one file of the file system under two paths.

    >>> first_overlap(["file:/a"], ["file:/ab", "file:/a/may.parquet"])
    ('file:/a', 'file:/a/may.parquet')
    >>> first_overlap(["https://x.org/a.csv"], ["https://X.org:443/d/../a.csv"])
    ('https://x.org/a.csv', 'https://X.org:443/d/../a.csv')
    """
    others = tuple(others)
    # Texts decide first: files are looked at only where nothing else tells.
    for keys_of in (_text_keys, _number_keys):
        own: dict[Key, str] = {}
        above: dict[Key, str] = {}
        for name in reversed(names):
            at, over = keys_of(name)
            own.update(dict.fromkeys(at, name))
            above.update(dict.fromkeys(over, name))
        for other in others if own else ():
            at, over = keys_of(other)
            same = [own.get(key) or above.get(key) for key in at]
            names_alike = list(filter(None, [*same, *map(own.get, over)]))
            if names_alike:
                return names_alike[0], other
    return None


Key = Path | str | Number
Keys = tuple[frozenset[Key], frozenset[Key]]
"""What a name is of, and what lies above that: two names overlap where they share one of the first,
or one of the first is above the other.
"""


def _text_keys(name: str) -> Keys:
    path = _path_of(name)
    if path is not None:
        return frozenset({path}), frozenset(path.parents)
    if is_url(name):
        try:
            return frozenset(url_names(name)), frozenset()
        except ValueError:
            # It has no canonical form, and must not stop the comparison of others.
            return frozenset({name}), frozenset()
    if name.startswith(_POSTGRESQL):
        return frozenset(server_names(name.removeprefix("sql:"))) or frozenset({name}), frozenset()
    # Numbers are compared with the files, whose paths a message can show.
    return frozenset() if name.startswith(_INODE) else frozenset({name}), frozenset()


def _number_keys(name: str) -> Keys:
    """Of a file or a folder the numbers of it and of every file below, and of every folder above,
    as far as they are there and may be seen.
    """
    path = _path_of(name)
    if path is not None:
        own, above = _states(path), _existing(path.parents)
        return frozenset(map(_number, own)), frozenset(map(_number, above))
    device, _, file = name.removeprefix(_INODE).partition(":")
    is_number = name.startswith(_INODE) and device.isdecimal() and file.isdecimal()
    return frozenset({(int(device), int(file))} if is_number else ()), frozenset()


def _path_of(name: str) -> Path | None:
    """Of a file or folder; None where the name is of anything else."""
    if not name.startswith(f"{_FILE}/"):
        return None
    return Path(os.path.normpath(name.removeprefix(_FILE)))


def _without_contents(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once, without files that lie in a folder that is named too."""
    named = dict.fromkeys(names)
    folders = {_path_of(name) for name in named}
    paths = ((name, _path_of(name)) for name in named)
    return tuple(name for name, path in paths if path is None or folders.isdisjoint(path.parents))


def _linked_parts(folder: str) -> Iterator[str]:
    """Those Parquet files below a folder that are links."""
    for at, _, files in os.walk(folder):
        paths = (Path(at, name) for name in files if name.endswith(".parquet"))
        yield from (str(path) for path in paths if path.is_symlink())


def _states(path: Path) -> Iterator[os.stat_result]:
    """Of a file, or of a folder and every file below it."""
    below = (Path(at, name) for at, _, files in os.walk(path) for name in files)
    return _existing(chain([path], below))


def _existing(paths: Iterable[Path]) -> Iterator[os.stat_result]:
    for path in paths:
        with suppress(OSError, ValueError):
            yield path.stat()


def _number(state: os.stat_result) -> Number:
    return state.st_dev, state.st_ino
