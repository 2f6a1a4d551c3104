"""URLs of sources and their hosts: allowed ones, texts without secrets, and canonical names for the
ledger.

The network is never asked: only this machine's own names and hosts file are known, and two names of
another machine are two hosts.
"""

import posixpath
import re
import socket
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

THIS_MACHINE = "localhost"
"""Canonical name of this machine, under any of its names and addresses."""

_HOSTS = Path("/etc/hosts")
_LOOPBACK = re.compile(r"(.+\.)?localhost(\.localdomain)?")
# As systemd names this machine, and as others on its network do (multicast DNS).
_RESOLVED = ("_outbound", "_localdnsstub", "_localdnsproxy")
_LOCAL = ".local"
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.IGNORECASE | re.ASCII)


def is_host(text: str) -> bool:
    """Return whether ``text`` is a single host name or address.

    >>> is_host("db.example.org"), is_host("a,b"), is_host("/var/run/postgresql")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None or _address(text) is not None


def host_names(host: str) -> tuple[str, ...]:
    """Return a host's canonical name, and its other names on this machine.

    Those are its addresses in the hosts file, and ``localhost`` if it is this machine. Two hosts
    are the same if they share a name.

    >>> host_names("Example.ORG."), host_names("127.1"), host_names("[::ffff:127.0.0.1]")
    (('example.org',), ('localhost',), ('localhost',))
    """
    own = canonical_host(host)
    names = dict.fromkeys((own, *_hosts_file().get(own, ())))
    if any(map(_is_this_machine, names)):
        names[THIS_MACHINE] = None
    return tuple(names)


def canonical_host(host: str) -> str:
    """Return a host in canonical form: lower-case name, usual address, or ``localhost``.

    A loopback or unspecified address is ``localhost``.

    >>> canonical_host("0x7f.1"), canonical_host("2130706433"), canonical_host("::")
    ('localhost', 'localhost', 'localhost')
    """
    name = host.strip("[]").lower().rstrip(".")
    address = _address(name)
    if address is None:
        return THIS_MACHINE if _LOOPBACK.fullmatch(name) else name
    # A connection to the unspecified address reaches the loopback.
    is_here = address.is_loopback or address.is_unspecified
    return THIS_MACHINE if is_here else str(address)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a text spells, as 0x7f.1 does; None for a host name.

    Its zone is left out, and an IPv6 address that stands for an IPv4 address is the latter.
    """
    digits = text.partition("%")[0] if ":" in text else text
    try:
        # As bytes: digits of other scripts are refused.
        spelled = socket.getaddrinfo(digits.encode("ascii"), 0, flags=socket.AI_NUMERICHOST)
    except (OSError, ValueError):
        return None
    address = ip_address(spelled[0][4][0])
    return getattr(address, "ipv4_mapped", None) or address


@lru_cache(maxsize=1024)
def _is_this_machine(name: str) -> bool:
    # By its name, or as a socket can bind to its address. Nothing is sent.
    address = _address(name)
    if address is None:
        return name in _own_names()
    if address.version == 6 and address.is_link_local:
        # Without its zone, which names the network, it may be ours.
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
def _hosts_file() -> dict[str, list[str]]:
    """Return host name → its addresses in /etc/hosts, all canonical; {} without that file."""
    addresses: dict[str, list[str]] = {}
    try:
        lines = _HOSTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return addresses
    for line in lines:
        first, *names = line.partition("#")[0].split() or [""]
        for name in names:
            addresses.setdefault(canonical_host(name), []).append(canonical_host(first))
    return addresses


def host_and_port(host: str, port: int | None) -> str:
    """Return a canonical host joined with its port, if it has one, as in a URL."""
    bracketed = f"[{host}]" if ":" in host else host
    return bracketed if port is None else f"{bracketed}:{port}"


EXPECTED_URL = (
    "https://… without a user, a password or signs to be written as %20 (http:// on this machine "
    "alone)"
)

_CHARACTERS = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")
"""Characters of a URI by RFC 3986: servers differ about a backslash or a lone %."""
_PARAMETERS = re.compile(r";[^/]*")
_USUAL_PORTS = (443, 80)
"""Default ports of https and http, which lead to one server."""


def is_url(location: str) -> bool:
    """Return whether a location is a URL and not a path or name."""
    return location.startswith(("https://", "http://"))


def is_allowed_url(url: str) -> bool:
    """Return whether ``url`` may be opened: https, or http to this machine, without a user.

    Nothing is escaped in the host, and all characters are of RFC 3986.

    >>> is_allowed_url("https://example.org/a.csv"), is_allowed_url("http://example.org/a.csv")
    (True, False)
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not is_host(host) or not _CHARACTERS.fullmatch(url) or {"@", "%"} & set(parts.netloc):
        return False
    if parts.scheme != "http":
        return parts.scheme == "https"
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def redact_url(url: str) -> str:
    """Return ``url`` without user, password, query and fragment, which may be secret.

    >>> redact_url("https://me:word@example.org:8443/a.csv?token=1")
    'https://example.org:8443/a.csv'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2].lower(), parts.path, "", ""))


def url_names(url: str) -> tuple[str, ...]:
    """Return the canonical names of a URL; two URLs with a common name are one source.

    They follow RFC 3986, section 6, and also ignore what many servers do: repeated slashes, the
    case of a path, an escaped slash, parameters after a semicolon, a slash at the end, a query, and
    https. A wrong match is refused with a message; a missed one would cost persons their
    protection. ValueError for a URL without a canonical form.

    >>> url_names("https://Example.org.:443/d//x/../%61.CSV?token=1")
    ('https://example.org/d/a.csv',)
    """
    parts = urlsplit(url)
    port = None if parts.port in _USUAL_PORTS else parts.port
    segments: list[str] = []
    # A client removes dots before it asks, and takes an escaped slash for no slash.
    for segment in map(unquote, parts.path.split("/")):
        if segment == "..":
            del segments[-1:]
        elif segment != ".":
            segments.append(segment)
    # A server may ignore escapes.
    plain = _PARAMETERS.sub("", "/".join(segments)).lstrip("/")
    path = quote(posixpath.normpath(f"/{plain}").casefold(), safe="/~")
    names = host_names(parts.hostname or "")
    return tuple(f"https://{host_and_port(name, port)}{path}" for name in names)
