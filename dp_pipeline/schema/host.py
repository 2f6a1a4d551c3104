"""Hosts: one name for every spelling of a host, and which hosts are this machine.

Nothing is asked of the network: spellings are those of an address, names those that this machine
gives itself, in its hosts file too. Two names of another machine are two hosts.
"""

from __future__ import annotations

import re
import socket
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

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
