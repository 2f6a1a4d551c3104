"""URLs of sources: which may be opened, what of one may be shown, and by which names the ledger
knows it.

URLs of databases: which may be read, and what of one may be shown.

Hosts: one name for every spelling of a host, and which hosts are this machine.

Nothing is asked of the network: spellings are those of an address, names those that this machine
gives itself, in its hosts file too. Two names of another machine are two hosts.
"""

from __future__ import annotations

import importlib
import posixpath
import re
import socket
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from dp_pipeline.spec.errors import follow_links

if TYPE_CHECKING:
    from sqlalchemy import URL

THIS_MACHINE = "localhost"
"""The one name of this machine, whatever it is called and wherever it listens."""

_HOSTS = Path("/etc/hosts")
_LOOPBACK = re.compile(r"(.+\.)?localhost(\.localdomain)?")
# As systemd names this machine, and as others on its network do (multicast DNS).
_RESOLVED = ("_outbound", "_localdnsstub", "_localdnsproxy")
_LOCAL = ".local"
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.IGNORECASE | re.ASCII)
_NUMERIC = re.compile(r"[0-9a-fx]+(\.[0-9a-fx]+){0,3}", re.IGNORECASE)
"""What may be an address of inet_aton: 127.1, 0x7f.1, 2130706433, 0177.0.0.1."""


def is_host(text: str) -> bool:
    """Whether ``text`` is one host, by its name or address: no list of them, no socket's folder.

    >>> is_host("db.example.org"), is_host("a,b"), is_host("/var/run/postgresql")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None or _address(text) is not None


def host_names(host: str) -> tuple[str, ...]:
    """The canonical names of a host: its own, the address that the hosts file gives it, and
    THIS_MACHINE where it is this one. Two hosts are the same where any of their names are.

    >>> host_names("Example.ORG."), host_names("127.1"), host_names("[::ffff:127.0.0.1]")
    (('example.org',), ('localhost',), ('localhost',))
    """
    own = canonical_host(host)
    addresses = [str(one) for one in _hosts_file().get(own, ())]
    names = dict.fromkeys(canonical_host(one) for one in (own, *addresses))
    if any(map(_is_this_machine, names)):
        names[THIS_MACHINE] = None
    return tuple(names)


def canonical_host(host: str) -> str:
    """A host in lower case, without the point at its end, an address as it is written usually.

    >>> canonical_host("0x7f.1"), canonical_host("2130706433"), canonical_host("::")
    ('localhost', 'localhost', 'localhost')
    """
    name = host.strip("[]").lower().rstrip(".")
    address = _address(name)
    if address is None:
        return THIS_MACHINE if _LOOPBACK.fullmatch(name) else name
    # Whoever connects to the unspecified address reaches the loopback.
    is_here = address.is_loopback or address.is_unspecified
    return THIS_MACHINE if is_here else str(address)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """The address that a spelling means, without its zone; None for a name."""
    if ":" in text:
        text = text.partition("%")[0]
    if _NUMERIC.fullmatch(text):
        try:
            return IPv4Address(socket.inet_aton(text))
        except OSError:
            return None
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


@lru_cache(maxsize=1024)
def _is_this_machine(name: str) -> bool:
    """Whether a canonical host is this machine: by a name of its own, or an address that a socket
    can be bound to. Nothing is sent.
    """
    address = _address(name)
    if address is None:
        return name in _own_names()
    if address.version == 6 and address.is_link_local:
        # Its zone says on which network it is, and is not a part of its name: it may be ours.
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


@lru_cache(maxsize=1)
def _own_names() -> frozenset[str]:
    full = canonical_host(socket.gethostname())
    own = {full, full.partition(".")[0]}
    return frozenset({THIS_MACHINE, *_RESOLVED, *own, *(f"{name}{_LOCAL}" for name in own)})


@lru_cache(maxsize=1)
def _hosts_file() -> dict[str, list[IPv4Address | IPv6Address]]:
    """Name → the addresses that this machine's own file gives it; none without such a file."""
    found: dict[str, list[IPv4Address | IPv6Address]] = {}
    try:
        lines = _HOSTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        first, *names = line.partition("#")[0].split() or [""]
        address = _address(first)
        if address is not None:
            for name in names:
                found.setdefault(canonical_host(name), []).append(address)
    return found


EXPECTED_URL = "https://… without a user or password (http:// on this machine alone)"

_CHARACTERS = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")
"""Of a URI by RFC 3986: servers do not agree about what a backslash or a lone % means."""
_PARAMETERS = re.compile(r";[^/]*")
_PORTS = (None, 443, 80)
"""Of https and of http, which are two ways to one server."""


def is_url(location: str) -> bool:
    """Whether a location is to be downloaded, and is no path or name."""
    return location.startswith(("https://", "http://"))


def is_allowed_url(url: str) -> bool:
    """Whether ``url`` may be opened: https with a host, or http to this machine; nothing secret
    before the host, nothing escaped in it, and no character that RFC 3986 does not know.

    >>> is_allowed_url("https://example.org/a.csv"), is_allowed_url("http://example.org/a.csv")
    (True, False)
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        # Asked with its answer, because a label may be one that no host can have.
        names = url_names(url) if host and is_host(host) else ()
    except ValueError:
        return False
    if not host or not names or not _CHARACTERS.fullmatch(url) or {"@", "%"} & set(parts.netloc):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))


def _is_loopback(host: str) -> bool:
    """Whether what is sent to a host stays here; its usual name and addresses alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def shown_url(url: str) -> str:
    """``url`` without what may be secret: user, password, query and fragment.

    >>> shown_url("https://me:word@example.org:8443/a.csv?token=1")
    'https://example.org:8443/a.csv'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2].lower(), parts.path, "", ""))


def url_names(url: str) -> tuple[str, ...]:
    """The canonical names of what is behind a URL: two URLs lead to one source where any of their
    names are the same. Each of them is its own only name.

    RFC 3986, section 6, and beyond it what many servers take for one file: repeated slashes, the
    case of a path, an escaped slash, parameters behind a semicolon, a slash at the end, any query,
    and http beside https.
    Where the RFC tells two apart and a server may not, they are one here: a source too many is
    refused in words, a source that is not known again costs persons their protection.

    >>> url_names("https://Example.org.:443/d//x/../%61.CSV?token=1")
    ('https://example.org/d/a.csv',)
    """
    # Takes thirty milliseconds, and most sources are files.
    from url_normalize import url_normalize

    plain = urlsplit(str(url_normalize(_without_secrets(url))))
    path = _PARAMETERS.sub("", unquote(plain.path))
    # What was escaped counts as it is, and only here is a slash a slash.
    path = quote(posixpath.normpath(f"/{path.lstrip('/')}").casefold(), safe="/~")
    names = host_names(plain.hostname or "")
    return tuple(f"https://{_place(name, plain)}{path}" for name in names)


def _without_secrets(url: str) -> str:
    """``url`` with its host in canonical form, without user, query and fragment."""
    parts = urlsplit(url)
    place = _place(canonical_host(parts.hostname or ""), parts)
    return urlunsplit((parts.scheme, place, parts.path, "", ""))


def _place(host: str, parts: SplitResult) -> str:
    """Host and port as a URL says them, the port where it is not a usual one."""
    named = f"[{host}]" if ":" in host else host
    return named if parts.port in _PORTS else f"{named}:{parts.port}"


EXPECTED_DRIVER = "psycopg2, which `pip install 'dp-pipeline[postgresql]'` brings"

EXPECTED_DATABASE = "postgresql://user@host/database or sqlite:///path"

_POSTGRESQL = ("postgresql", "postgresql+psycopg2")
_OPTIONS = {"sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "application_name"}
"""Of a PostgreSQL URL. Another option might name another host or database than the URL shows."""

_DATABASE_NAME = re.compile(r"[\w.$ -]+", re.ASCII)
"""Of a database: nothing that could be read as settings of a connection, or as a part of a URL, and
no letter that two programs could compare in two ways."""

SQLITE = "sqlite:///"
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
    if not (
        set(url.query) <= _OPTIONS and is_host(url.host) and _DATABASE_NAME.fullmatch(url.database)
    ):
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
        return f"{SQLITE}{follow_links(str(url.database))}"
    return (
        f"postgresql://{_database_place(canonical_host(str(url.host)))}:{url.port}/{url.database}"
    )


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
