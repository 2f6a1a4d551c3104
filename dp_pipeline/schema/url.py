"""URLs of sources: which may be opened, what of one may be shown, and by which names the ledger
knows it.
"""

from __future__ import annotations

import posixpath
import re
from ipaddress import ip_address
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from dp_pipeline.schema.host import canonical_host, host_names, is_host

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
