"""`dp-pipeline ui`: Dagster's pages, for this computer only, protected from pages of other sites.

Dagster runs mutations of any request, so a foreign page that the custodian opens could spend ε.
WebGuard decides which requests reach its web server. `dp-pipeline webserver` and `dp-pipeline
dagster-dev` are Dagster's own programs behind that guard.
"""

import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

import click

from dp_pipeline.config.errors import DeclarationError, PipelineError

_HOST = "127.0.0.1"
_PORTS = click.IntRange(1, 65535)
_ENVIRONMENT = {
    "DAGSTER_DISABLE_TELEMETRY": "1",
    "GX_ANALYTICS_ENABLED": "false",
    # Else a daemon that looks at a backfill while the code server is away ends it, and its runs.
    "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR": "1",
}


@click.command()
@click.option("--port", default=3000, type=_PORTS, help="The port of the pages; by default 3000.")
def ui(port: int) -> None:
    """Open Dagster's pages, for this computer only."""
    from dp_pipeline.orchestration.instance import code_location, dagster_instance
    from dp_pipeline.releases.home import HOME_VARIABLE, find_home

    home = find_home()
    declared_origins()
    # Dagster would silently take another port where this one is in use.
    with socket.socket() as probe:
        # A server that has just ended leaves the port in TIME_WAIT: that is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            reason = f"{error.strerror or type(error).__name__}; name another by --port"
            raise PipelineError(f"The port {port} cannot be used: {reason}") from None
    # The programs start at the same time; none of them has to make the history.
    dagster_instance(home).dispose()
    # Runs are processes of their own, wherever they are started: all find the same home.
    os.environ[HOME_VARIABLE] = str(home.root)
    os.environ.update(_ENVIRONMENT)
    click.echo(f"http://{_HOST}:{port} shows {home.root}; end it with Ctrl-C")
    sys.stdout.flush()
    words = ["dagster-dev", "--host", _HOST, "--port", str(port), *code_location()]
    os.execv(sys.executable, [*OURS, *words])


ORIGINS_VARIABLE = "DP_PIPELINE_UI_ORIGINS"
"""Names the origins of a proxy in front of the pages: ``https://budget.example.org``, with spaces
between several."""

Scope = Mapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]

_GRAPHQL = "/graphql"
_REPORTS = "/report_asset_"
_DATA = (_GRAPHQL, "/logs/", "/download_debug/", "/notebook", "/dagit/notebook")
"""Paths that answer with data, and not with a page."""

# Any port: a tunnel or a container may give the pages another one than they are served at. What
# counts is that a page's own origin is the address that it asks.
_THIS_COMPUTER = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.ASCII)
_ORIGIN = re.compile(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.ASCII)

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


class RequestRefused(Exception):
    """Raised when a web request is refused, with an HTTP status and one line that says why.

    allowed   the allowed methods, where the request has another one
    """

    def __init__(self, status: int, reason: str, *, allowed: str = "") -> None:
        self.status, self.allowed = status, allowed
        super().__init__(reason)


class WebGuard:
    """An ASGI application before Dagster's, open only to its own pages and to local programs.

    origins   of proxies, as `declared_origins` returns them; this computer's names always count
    """

    def __init__(self, app: App, origins: Sequence[str] = ()) -> None:
        self._app = app
        self._origins = tuple(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            require_own(scope, self._origins)
        except RequestRefused as refusal:
            await _refuse(scope, refusal, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_ADDED]
            await send(message)

        await self._app(scope, receive, send_with_headers)


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


def require_own(scope: Scope, origins: Sequence[str] = ()) -> None:
    """Raise RequestRefused unless a request comes from these pages, a link to one, or a program.

    origins   origins of proxies, as `declared_origins` returns them

    A browser sends the target host (a foreign name that points to this computer stays a foreign
    name), and Origin or Sec-Fetch-Site for the requesting page. Other programs send only the host:
    they need a JSON body, which no form and no image can send without asking the server first.
    """
    # Starlette's routes end in a ``$``, which matches before a last line end too, so that another
    # path would be answered than is checked here.
    if _CONTROL.search(scope["path"]):
        raise RequestRefused(
            400,
            "the path of a request must not have control characters, but it has some: "
            "correct the address",
        )
    headers = _headers(scope)
    host, origin = headers.get("host", "").lower(), headers.get("origin")
    own_origins = {proxy for proxy in origins if proxy.partition("://")[2] == host}
    if _THIS_COMPUTER.fullmatch(host):
        own_origins.add(f"http://{host}")
    if not own_origins:
        raise RequestRefused(
            403,
            "the host of a request must be localhost, 127.0.0.1, [::1] or that of an origin in "
            f"{ORIGINS_VARIABLE}, not {host[:60]!r}: open one of these",
        )
    _require_page(scope, headers)
    # Browsers send an origin with each changing request.
    if origin is not None and origin.lower() not in own_origins:
        raise RequestRefused(
            403,
            f"a request must come from these pages, not from {origin.lower()[:60]!r}: a proxy has "
            f"to pass its own host on, and to be listed in {ORIGINS_VARIABLE}",
        )
    if scope["type"] == "http":
        _require_method(scope, headers)


def _headers(scope: Scope) -> dict[str, str]:
    """Return name in lower case → header; RequestRefused where one of ``_SINGLE`` occurs twice."""
    headers: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        if name in _SINGLE and name in headers:
            reason = f"a request must have the header {name} once, but it has it several times"
            raise RequestRefused(400, reason)
        headers[name] = value.decode("latin-1").strip()
    return headers


def _require_page(scope: Scope, headers: Mapping[str, str]) -> None:
    """Raise RequestRefused if a page of another origin sends the request, except for a link to a
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
        raise RequestRefused(
            403,
            f"a request must come from these pages, but it is a {site[:20]} one: open the page "
            "from its own address",
        )


def _require_method(scope: Scope, headers: Mapping[str, str]) -> None:
    """Raise RequestRefused unless a request to GraphQL is POST with a JSON body, and any other is
    GET or HEAD and reports no event of an asset."""
    path, method = scope["path"], scope["method"]
    if path.startswith(_REPORTS):
        reason = "events of runs cannot be reported from outside, as each run records its own"
        raise RequestRefused(403, reason)
    if path == _GRAPHQL:
        if method != "POST":
            reason = f"a request to {_GRAPHQL} must be POST, not {method[:10]}"
            raise RequestRefused(405, reason, allowed="POST")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestRefused(
                415,
                f"a request to {_GRAPHQL} must have the content type application/json, not "
                f"{kind[:60]!r}",
            )
    elif method not in ("GET", "HEAD"):
        raise RequestRefused(405, f"a request must be GET, not {method[:10]}", allowed="GET, HEAD")


async def _refuse(scope: Scope, refusal: RequestRefused, send: Send) -> None:
    if scope["type"] == "websocket":
        # Before the handshake is answered: the browser sees a status of 403.
        await send({"type": "websocket.close", "code": 1008, "reason": str(refusal)[:100]})
        return
    body = f"{refusal}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *([(b"allow", refusal.allowed.encode())] if refusal.allowed else []),
        *_ADDED,
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


OURS = [sys.executable, "-m", "dp_pipeline.cli"]
_WORDS = {"ignore_unknown_options": True, "help_option_names": []}
_WEBSERVER = [sys.executable, "-m", "dagster_webserver"]
_DAEMON = [sys.executable, "-m", "dagster._daemon"]

# Dagster takes no middleware: these two names of its modules are replaced. A version without them
# ends here, before it serves anything.
_MAKES_APP = "create_app_from_workspace_process_context"
_STARTS = "open_ipc_subprocess"


@click.command(context_settings=_WORDS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def webserver(words: Sequence[str]) -> None:
    """Serve Dagster's pages alone, closed to foreign pages.

    This is `dagster-webserver` with its own arguments; `dp-pipeline ui` starts all programs.
    """
    from dagster_webserver import cli

    from dp_pipeline.orchestration.instance import keep_files_private

    keep_files_private()
    origins, create_app = declared_origins(), vars(cli)[_MAKES_APP]

    def guarded(context: Any, path_prefix: str = "", *arguments: Any, **options: Any) -> WebGuard:
        if path_prefix:
            # The guard knows the paths that answer with data, from the root.
            raise DeclarationError(
                "--path-prefix or DAGSTER_WEBSERVER_PATH_PREFIX: the pages have no path prefix, so "
                f"{path_prefix[:60]!r} cannot be used: leave it out"
            )
        return WebGuard(create_app(context, path_prefix, *arguments, **options), origins)

    vars(cli)[_MAKES_APP] = guarded
    cli.cli(list(words), prog_name="dagster-webserver", auto_envvar_prefix="DAGSTER_WEBSERVER")


@click.command("dagster-dev", context_settings=_WORDS, hidden=True)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def dagster_dev(words: Sequence[str]) -> None:
    """Start code server, daemon and the guarded pages, as `dagster dev` does."""
    from dagster._cli import dev

    from dp_pipeline.orchestration.instance import keep_files_private

    keep_files_private()
    declared_origins()
    start = vars(dev)[_STARTS]

    def started(command: Sequence[str], **options: Any) -> Any:
        return start(guarded_command(command), **options)

    vars(dev)[_STARTS] = started
    dev.dev_command(list(words), prog_name="dagster dev")


def guarded_command(command: Sequence[str]) -> list[str]:
    """Return a command that `dagster dev` starts: that of the guarded pages in the place of the
    web server's, and that of the daemon unchanged.

    PipelineError for an unknown one: another version of Dagster would serve unguarded pages.
    """
    program, words = list(command[:3]), list(command[3:])
    if program == _DAEMON:
        return [*program, *words]
    if program != _WEBSERVER:
        raise PipelineError(
            "Dagster must start its web server and daemon, but it starts "
            f"{' '.join(program)}: install the version of Dagster that this program was "
            "tested with, which its constraints.txt names"
        )
    return [*OURS, "webserver", *words]
