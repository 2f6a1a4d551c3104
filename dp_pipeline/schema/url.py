"""URLs of sources: which may be opened, and what of one may be shown."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

EXPECTED_URL = "https://… without a user or password (http:// on this machine alone)"

_PRINTABLE = re.compile(r"[!-~]+")


def is_url(location: str) -> bool:
    """Whether a location is to be downloaded, and is no path or name."""
    return location.startswith(("https://", "http://"))


def is_allowed_url(url: str) -> bool:
    """Whether ``url`` may be opened: https with a host, or http to this machine; nothing secret
    before the host.

    >>> is_allowed_url("https://example.org/a.csv"), is_allowed_url("http://example.org/a.csv")
    (True, False)
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or not _PRINTABLE.fullmatch(url) or "@" in parts.netloc:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_this_machine(host))


def is_this_machine(host: str) -> bool:
    """Whether a host is the loopback, by its name or address."""
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
