"""The guard before Dagster's web server: which requests reach it, by their headers alone."""

import os
import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from dp_pipeline.config.errors import DeclarationError

ORIGINS_VARIABLE = "DP_PIPELINE_UI_ORIGINS"
"""Names the origins of a proxy in front of the pages: ``https://budget.example.org``, with spaces
between several."""

_ORIGIN = re.compile(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.ASCII)


def declared_origins() -> tuple[str, ...]:
    """Return the origins of ``$DP_PIPELINE_UI_ORIGINS``; DeclarationError for an invalid one."""
    origins = tuple(os.environ.get(ORIGINS_VARIABLE, "").lower().split())
    for origin in origins:
        if _ORIGIN.fullmatch(origin) is None:
            raise DeclarationError(
                f"The variable {ORIGINS_VARIABLE} must list origins such as "
                f"https://budget.example.org, without a path, not {origin[:60]!r}: correct it"
            )
    return origins


_GRAPHQL = "/graphql"
_REPORTS = "/report_asset_"
_DATA = (_GRAPHQL, "/logs/", "/download_debug/", "/notebook", "/dagit/notebook")
"""Paths that answer with data, and not with a page."""

# Any port: a tunnel or a container may give the pages another one than they are served at. What
# counts is that a page's own origin is the address that it asks.
_THIS_COMPUTER = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.ASCII)

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_SINGLE = ("host", "origin", "content-type", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")
"""Headers of which a second one could be read by one program and the first by another."""

_ADDED = (
    # No other page lays ours under its own buttons, or reads any part of it.
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class WebGuard:
    """An ASGI application before Dagster's, open only to its own pages and to local programs.

    origins   of proxies, as `declared_origins` returns them; this computer's names always count
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str] = ()) -> None:
        self._app = app
        self._origins = tuple(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_ADDED]
            await send(message)

        try:
            require_own(scope, self._origins)
        except HTTPException as refusal:
            await _answer(scope, refusal)(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)


def _answer(scope: Scope, refusal: HTTPException) -> ASGIApp:
    if scope["type"] == "websocket":
        # Before the handshake is answered: the browser sees a status of 403.
        return WebSocketClose(1008, refusal.detail[:100])
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    headers.update(refusal.headers or {})
    return PlainTextResponse(f"{refusal.detail}\n", refusal.status_code, headers)


def require_own(scope: Scope, origins: Sequence[str] = ()) -> None:
    """Raise HTTPException unless a request comes from these pages, a link to one, or a program.

    origins   origins of proxies, as `declared_origins` returns them

    A browser sends the target host (a foreign name that points to this computer stays a foreign
    name), and Origin or Sec-Fetch-Site for the requesting page. Other programs send only the host:
    they need a JSON body, which no form and no image can send without asking the server first.
    """
    # Starlette's routes end in a ``$``, which matches before a last line end too, so that another
    # path would be answered than is checked here.
    if _CONTROL.search(scope["path"]):
        raise HTTPException(
            400,
            "the path of a request must not have control characters, but it has some: "
            "correct the address",
        )
    headers = Headers(scope=scope)
    for name in _SINGLE:
        if len(headers.getlist(name)) > 1:
            reason = f"a request must have the header {name} once, but it has it several times"
            raise HTTPException(400, reason)
    host, origin = headers.get("host", "").lower(), headers.get("origin")
    own_origins = {proxy for proxy in origins if proxy.partition("://")[2] == host}
    if _THIS_COMPUTER.fullmatch(host):
        own_origins.add(f"http://{host}")
    if not own_origins:
        raise HTTPException(
            403,
            "the host of a request must be localhost, 127.0.0.1, [::1] or that of an origin in "
            f"{ORIGINS_VARIABLE}, not {host[:60]!r}: open one of these",
        )
    _require_page(scope, headers)
    # Browsers send an origin with each changing request.
    if origin is not None and origin.lower() not in own_origins:
        raise HTTPException(
            403,
            f"a request must come from these pages, not from {origin.lower()[:60]!r}: a proxy has "
            f"to pass its own host on, and to be listed in {ORIGINS_VARIABLE}",
        )
    if scope["type"] == "http":
        _require_method(scope, headers)


def _require_page(scope: Scope, headers: Headers) -> None:
    """Raise HTTPException if a page of another origin sends the request, except for a link to a
    page here."""
    site = headers.get("sec-fetch-site", "none").lower()
    if site in ("none", "same-origin"):
        return
    is_link = (
        scope["type"] == "http"
        and scope["method"] == "GET"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
        and not scope["path"].startswith(_DATA)
    )
    if not is_link:
        raise HTTPException(
            403,
            f"a request must come from these pages, but it is a {site[:20]} one: open the page "
            "from its own address",
        )


def _require_method(scope: Scope, headers: Headers) -> None:
    """Raise HTTPException unless a request to GraphQL is POST with a JSON body, and any other is
    GET or HEAD and reports no event of an asset."""
    path, method = scope["path"], scope["method"]
    if path.startswith(_REPORTS):
        reason = "events of runs cannot be reported from outside, as each run records its own"
        raise HTTPException(403, reason)
    if path == _GRAPHQL:
        if method != "POST":
            reason = f"a request to {_GRAPHQL} must be POST, not {method[:10]}"
            raise HTTPException(405, reason, {"allow": "POST"})
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise HTTPException(
                415,
                f"a request to {_GRAPHQL} must have the content type application/json, not "
                f"{kind[:60]!r}",
            )
    elif method not in ("GET", "HEAD"):
        reason = f"a request must be GET, not {method[:10]}"
        raise HTTPException(405, reason, {"allow": "GET, HEAD"})
