"""The declared source of the rows of a data set, and the names that identify it; none is opened.

One source has many spellings. Its identity is a *set* of canonical names (``Source.identities``),
and two sources overlap where any two of their names do. Files are compared by their paths, and
while both exist by their inode numbers too, which finds hard links, bind mounts and file systems
that ignore capital letters. An inode number is a name only for a file with another hard link: any
other is reused once its file is gone.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from stat import S_ISREG
from typing import Literal, Self

from dp_pipeline.config.database import server_names, split_database_file
from dp_pipeline.config.url import is_url, redact_url, url_names
from dp_pipeline.config.windows import TEMPLATE

SourceKind = Literal["csv", "parquet", "xlsx", "sql", "sklearn", "generator"]

DATA_FOLDER_VARIABLE = "DP_PIPELINE_DATA"
BUNDLED = ("breast_cancer", "digits", "iris", "wine")  # Data sets in scikit-learn's wheel

_ENDS = re.compile(r"(?<![:\w]):(start|end)\b")
"""The placeholders of a window's ends in a query; not the type of a cast, ``::end``."""

WHITESPACE = "whitespace"
"""Delimiter for any number of spaces and tabs between two cells."""


@dataclass(frozen=True)
class Sample:
    """A sample of the rows of a source, with each class in proportion.

    by     attribute whose levels are the classes
    seed   seed of the draw of rows
    """

    rows: int
    by: str
    seed: int

    def __str__(self) -> str:
        return f"{self.rows} rows by {self.by}, seed {self.seed}"


@dataclass(frozen=True)
class Source:
    """A declared source of rows, without any password.

    kind        ``csv`` (also .csv.gz), ``parquet`` (a file, or a folder of them), ``xlsx`` (a
                spreadsheet), ``sql``, ``sklearn`` (bundled sets), ``generator``
    location    a path or URL of a file, the database without its user and password, or the name
                of the bundled set or generator
    delimiter   of a CSV file: one character, or WHITESPACE
    header      column names of a CSV file without them in its first line
    options     arguments of a generator, such as seed and rows
    needs       environment variable that must be set for this source, or None
    more        locations of further CSV files of the same form, whose rows follow
    comment     first character of lines of a CSV file that are no rows, or empty
    encoding    of a CSV file, where it is not UTF-8
    multiline   lines that a quoted cell of a sensitive CSV file may go on over
    header_row  the line of a CSV file, or row of a sheet, that has the names of columns
    footer      lines or rows at the end that are none
    sheet       of a spreadsheet; the first one when empty
    sample      the rows that are read, on benchmarks only; None: all
    query       the SELECT of a database
    sha256      URL → declared hex digest of its file
    at_most_mb  the most that one URL may give, in 10^6 bytes; 0 without a download
    download    the source that is read where a file is absent, or None
    in_place    whether a snapshot refers to the files by their fingerprints, without a copy
    template    the source of all windows, where this is that of one window; else None
    parts       the source of the parts of units, if they have one of their own; else None
    """

    kind: SourceKind
    location: str
    delimiter: str = ","
    header: tuple[str, ...] = ()
    options: Mapping[str, int] = field(default_factory=dict)
    needs: str | None = None
    more: tuple[str, ...] = ()
    comment: str = ""
    encoding: str = ""
    multiline: int = 1
    header_row: int = 1
    footer: int = 0
    sheet: str = ""
    sample: Sample | None = None
    query: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)
    at_most_mb: int = 0
    download: Self | None = None
    in_place: bool = False
    template: Self | None = None
    parts: Self | None = None

    @property
    def is_template(self) -> bool:
        """Whether a path or the query has a placeholder for a time window."""
        has_window = any(TEMPLATE in location for location in self.locations)
        return has_window or _ENDS.search(self.query) is not None

    def of_window(self, name: str, start: int, end: int) -> Self:
        """Return the source of one time window, with the placeholders of paths and query filled in.

        start, end   its first second and the first one after it, since 1970 in UTC

        >>> Source("csv", "/d/{window}.csv").of_window("2026-W03", 0, 1).location
        '/d/2026-W03.csv'
        """
        ends = {":start": str(start), ":end": str(end)}
        return replace(
            self,
            location=self.location.replace(TEMPLATE, name),
            more=tuple(location.replace(TEMPLATE, name) for location in self.more),
            query=_ENDS.sub(lambda match: ends[match[0]], self.query),
            template=self,
        )

    @property
    def locations(self) -> tuple[str, ...]:
        """The paths or URLs of the source in order, or its single name."""
        return (self.location, *self.more)

    @property
    def is_remote(self) -> bool:
        """Whether the rows are downloaded from URLs."""
        return is_url(self.location)

    @property
    def is_resolved(self) -> bool:
        """Whether every path is complete, without an environment variable that is not set."""
        return not any(location.startswith("$") for location in self.locations)

    def single_file(self, location: str) -> Self:
        """Return the source of the file at ``location`` alone, without a sample or download."""
        return replace(self, location=location, more=(), sample=None, download=None)

    @property
    def alternatives(self) -> tuple[Self, ...]:
        """The sources to try in order: this one without its download, and then the download."""
        without_download = replace(self, download=None)
        if self.download is None:
            return (without_download,)
        own = replace(self.download, sample=self.sample, parts=self.parts)
        return (without_download, own)

    @property
    def identities(self) -> tuple[str, ...]:
        """The canonical names of the source, its download and its parts.

        The ledger keeps two populations from sharing any name. Samples and queries have no names of
        their own, since others may give the same persons. A window has the names of its template.
        With a download, paths that begin with an unset variable have no names.

        >>> Source("generator", "trips_like", options={"seed": 7}).identities
        ('generator:trips_like?seed=7',)
        >>> file = Source("csv", "/d//a.csv", download=Source("csv", "https://X.org:443/a.csv?t=1"))
        >>> file.identities
        ('file:/d/a.csv', 'https://x.org/a.csv')
        """
        if self.template is not None:
            return self.template.identities
        of_parts = () if self.parts is None else self.parts.identities
        if self.download is None:
            return tuple(dict.fromkeys((*self._own_identities, *of_parts)))
        own = self._own_identities if self.is_resolved else ()
        return tuple(dict.fromkeys((*own, *self.download.identities, *of_parts)))

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
            # Windows share persons: their name is the folder of all files.
            before, template, _ = location.partition(TEMPLATE)
            location = str(Path(f"{before}-").parent) if template else location
            return (file_name(location),) if self.is_resolved else (self._described(location),)
        return (self._described(location),)

    @property
    def current_identities(self) -> tuple[str, ...]:
        """The canonical names, with targets of links and inodes of files with several hard links.

        The file system is read. They are compared before and after a read of rows. Files in a
        folder that is named too are left out.
        """
        local = () if self.is_remote else self.locations
        places = [(split_database_file(path) or ("", path))[1] for path in local]
        places = [path for path in places if Path(path).is_absolute()]
        linked: list[str] = []
        for place in places:
            linked.append(file_name(place))
            for parent, _, files in os.walk(place):
                parts = (Path(parent, name) for name in files if name.endswith(".parquet"))
                linked += [file_name(str(part)) for part in parts if part.is_symlink()]
        states = (state for place in places for state in _states(Path(place)))
        numbers = [_inode(path) for path in states if S_ISREG(path.st_mode) and path.st_nlink > 1]
        inodes = (f"{_INODE}{device}:{file}" for device, file in numbers)
        of_parts = () if self.parts is None else self.parts.current_identities
        names = dict.fromkeys((*self.identities, *linked, *inodes, *of_parts))
        paths = {name: _path_of(name) for name in names}
        folders = {*paths.values()}
        return tuple(n for n, path in paths.items() if not path or folders.isdisjoint(path.parents))

    def _described(self, location: str) -> str:
        if self.is_remote:
            return redact_url(location)
        options = "&".join(f"{name}={value}" for name, value in sorted(self.options.items()))
        return f"{self.kind}:{location}" + (f"?{options}" if options else "")

    @property
    def identity(self) -> str:
        """A text with the locations, query, sample and parts of the source, without its download.

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
        every += "" if self.sample is None else f": {self.sample}"
        return every if self.parts is None else f"{every}, with parts of {self.parts.identity}"


def database_names(location: str) -> tuple[str, ...]:
    """Return the canonical names of a database: a file's path, or one for each name of its host.

    The name of a variable that is not set stands for itself.

    >>> database_names("sqlite:////data/../rides.db"), database_names("$RIDES")
    (('file:/rides.db',), ('sql:$RIDES',))
    """
    file = split_database_file(location)
    if file is not None:
        return (file_name(file[1]),)
    return server_names(location) or (f"sql:{location}",)


FILES = ("csv", "parquet", "xlsx")
"""Kinds of sources that are files, local or at a URL."""

_FILE = "file:"
_INODE = "inode:"
_DATASET = "dataset:"
_POSTGRESQL = "sql:postgresql://"

Inode = tuple[int, int]
"""Device and inode of an existing file."""


def file_name(path: str) -> str:
    """Return the canonical name of a file or folder, by its real path.

    >>> file_name("/data//x/../rides.csv")
    'file:/data/rides.csv'
    """
    return f"{_FILE}{os.path.realpath(path)}"


def sha256_name(digest: str) -> str:
    """Return ``sha256:`` and the digest in lower case, the canonical name of a hashed file."""
    return f"sha256:{digest.lower()}"


def dataset_name(name: str) -> str:
    """Return ``dataset:`` and the name, by which the ledger binds a data set to a population."""
    return f"{_DATASET}{name}"


def source_label(name: str) -> str:
    """Return the phrase by which messages call a source.

    >>> source_label("file:/d/a.csv"), source_label(dataset_name("rides"))
    ("source 'file:/d/a.csv'", 'data set rides')
    """
    own = name.removeprefix(_DATASET)
    return f"source {name!r}" if own == name else f"data set {own}"


def first_overlap(names: Sequence[str], other_names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names, one of each list, that may mean the same rows, or None.

    Those are equal names in canonical form, a folder and a path in it, or two paths of one file.

    >>> first_overlap(["file:/a"], ["file:/ab", "file:/a/may.parquet"])
    ('file:/a', 'file:/a/may.parquet')
    >>> first_overlap(["https://x.org/a.csv"], ["https://X.org:443/d/../a.csv"])
    ('https://x.org/a.csv', 'https://X.org:443/d/../a.csv')
    """
    other_names = tuple(other_names)
    # The file system is asked only where no texts overlap.
    for keys_of in (_text_keys, _inode_keys):
        names_of_keys: dict[Key, str] = {}
        names_below: dict[Key, str] = {}
        for name in reversed(names):
            keys, parents = keys_of(name)
            names_of_keys.update(dict.fromkeys(keys, name))
            names_below.update(dict.fromkeys(parents, name))
        for other in other_names if names_of_keys else ():
            keys, parents = keys_of(other)
            overlaps = [names_of_keys.get(key) or names_below.get(key) for key in keys]
            overlaps += map(names_of_keys.get, parents)
            first = next(filter(None, overlaps), None)
            if first is not None:
                return first, other
    return None


Key = Path | str | Inode
Keys = tuple[frozenset[Key], frozenset[Key]]
"""Keys of a name, and keys of the folders above it: two names overlap where they share an own key,
or an own key of one is above the other.
"""


def _text_keys(name: str) -> Keys:
    path = _path_of(name)
    if path is not None:
        return frozenset({path}), frozenset(path.parents)
    if is_url(name):
        try:
            return frozenset(url_names(name)), frozenset()
        except ValueError:
            # Without a canonical form it is compared as it is.
            return frozenset({name}), frozenset()
    if name.startswith(_POSTGRESQL):
        return frozenset(server_names(name.removeprefix("sql:"))) or frozenset({name}), frozenset()
    # ``_inode_keys`` compares inodes with files, whose paths a message can show.
    return frozenset() if name.startswith(_INODE) else frozenset({name}), frozenset()


def _inode_keys(name: str) -> Keys:
    """Return (inodes of a path and all files below it, inodes of the folders above it).

    The name of an inode gives itself, and any other name nothing.
    """
    path = _path_of(name)
    if path is not None:
        own, above = _states(path), _states_of_existing(path.parents)
        return frozenset(map(_inode, own)), frozenset(map(_inode, above))
    device, _, file = name.removeprefix(_INODE).partition(":")
    is_number = name.startswith(_INODE) and device.isdecimal() and file.isdecimal()
    return frozenset({(int(device), int(file))} if is_number else ()), frozenset()


def _path_of(name: str) -> Path | None:
    if not name.startswith(f"{_FILE}/"):
        return None
    return Path(os.path.normpath(name.removeprefix(_FILE)))


def _states(path: Path) -> Iterator[os.stat_result]:
    files_below = (Path(parent, name) for parent, _, files in os.walk(path) for name in files)
    return _states_of_existing(chain([path], files_below))


def _states_of_existing(paths: Iterable[Path]) -> Iterator[os.stat_result]:
    for path in paths:
        with suppress(OSError, ValueError):
            yield path.stat()


def _inode(state: os.stat_result) -> Inode:
    return state.st_dev, state.st_ino
