"""Where the rows of a data set come from, as declared: never opened here.

URLs of databases: which may be read, and what of one may be shown.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dp_pipeline.spec.identity import file_name, sha256_name
from dp_pipeline.spec.url import canonical_host, host_names, is_host, is_url, shown_url, url_names

if TYPE_CHECKING:
    from sqlalchemy import URL

SourceKind = Literal["csv", "parquet", "sql", "sklearn", "generator"]

DATA_FOLDER_VARIABLE = "DP_PIPELINE_DATA"

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


EXPECTED_DRIVER = "psycopg2, which `pip install 'dp-pipeline[postgresql]'` brings"

EXPECTED_DATABASE = "postgresql://user@host/database or sqlite:///path"

_POSTGRESQL = ("postgresql", "postgresql+psycopg2")
_OPTIONS = {"sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "application_name"}
"""Of a PostgreSQL URL. Another option might name another host or database than the URL shows."""

_NAME = re.compile(r"[\w.$ -]+", re.ASCII)
"""Of a database: nothing that could be read as settings of a connection, or as a part of a URL, and
no letter that two programs could compare in two ways."""

_SQLITE = "sqlite:///"
_SERVER = re.compile(r"postgresql://(.+):(\d+)/([^/]+)")
"""What ``database_name`` makes of a server's URL."""

_QUERY = re.compile(r"\s*(select|with)\b[^;]*;?\s*", re.IGNORECASE)


def database_url(text: str) -> URL | None:
    """The URL with its driver and port, or None where it is not one of EXPECTED_DATABASE; its
    ``str`` hides the password.
    """
    # Takes a third of a second, and most data sets are files.
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
        port = url.port or 5432
    except (ArgumentError, ValueError):
        return None
    if url.drivername == "sqlite":
        return url if _is_file(url) else None
    if url.drivername not in _POSTGRESQL or not (url.host and url.database):
        return None
    # Several hosts, a socket's folder or a second @, which is one of a password, are no host.
    if not (set(url.query) <= _OPTIONS and is_host(url.host) and _NAME.fullmatch(url.database)):
        return None
    # By its name, because which driver is meant by none differs between versions of SQLAlchemy.
    return url.set(drivername="postgresql+psycopg2", port=port)


def has_driver() -> bool:
    """Whether psycopg2 can be imported; one built for another Python raises SystemError."""
    try:
        importlib.import_module("psycopg2")
    except (ImportError, SystemError):
        return False
    return True


def _is_file(url: URL) -> bool:
    """Whether a URL of SQLite is a path and nothing else."""
    path = url.database or ""
    if url.query or url.host or path.startswith("file:"):
        return False
    return Path(path).is_absolute()


def database_name(url: URL) -> str:
    """Which database it is, without user, password and options, its host in canonical form.

    >>> url = database_url("postgresql://me:word@127.0.0.1/rides")
    >>> database_name(url)
    'postgresql://localhost:5432/rides'
    """
    if url.drivername == "sqlite":
        return f"{_SQLITE}{Path(str(url.database)).resolve()}"
    return (
        f"postgresql://{_database_place(canonical_host(str(url.host)))}:{url.port}/{url.database}"
    )


def database_names(location: str) -> tuple[str, ...]:
    """The canonical names of what ``database_name`` gives: a file by its path, a server's
    database by each name of its host. The variable of one that is not known yet is its only name.

    >>> database_names("sqlite:////data/../rides.db"), database_names("$RIDES")
    (('file:/rides.db',), ('sql:$RIDES',))
    """
    if location.startswith(_SQLITE):
        return (file_name(location.removeprefix(_SQLITE)),)
    return server_names(location) or (f"sql:{location}",)


def server_names(location: str) -> tuple[str, ...]:
    """The canonical names of a database on a server; none of what is another text. Two databases
    whose names differ in capital letters alone are one: people write both for the same.

    >>> server_names("postgresql://127.1:5432/Rides")
    ('sql:postgresql://localhost:5432/rides',)
    """
    found = _SERVER.fullmatch(location)
    if found is None:
        return ()
    host, port, name = found.groups()
    return tuple(
        f"sql:postgresql://{_database_place(one)}:{int(port)}/{name.casefold()}"
        for one in host_names(host)
    )


def _database_place(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_one_query(text: str) -> bool:
    """Whether ``text`` can be one SELECT and nothing behind it.

    A semicolon inside of a quoted text is not told from one that ends a statement:
    a second statement could end the transaction that makes the first read-only.

    >>> is_one_query("SELECT x FROM rides;"), is_one_query("SELECT x FROM rides; DROP TABLE rides")
    (True, False)
    """
    return _QUERY.fullmatch(text) is not None
