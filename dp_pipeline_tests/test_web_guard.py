"""What `dp-pipeline ui` starts, and who gets through to its pages and to Dagster."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from click.testing import CliRunner, Result
from dagster._cli import dev
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response

from dp_pipeline.cli import main
from dp_pipeline.cli.ui import OURS, guarded_command
from dp_pipeline.cli.web_guard import ORIGINS_VARIABLE, WebGuard, declared_origins
from dp_pipeline.config.errors import DeclarationError, PipelineError
from dp_pipeline_tests.stack.processes import free_port

HERE = "127.0.0.1:3000"
OWN = f"http://{HERE}"
JSON = {"content-type": "application/json"}
PROXY = "https://budget.example.org"

DAGSTER = Response("Dagster")
"""An application that answers every path, of a websocket too."""

Headers = Mapping[str, str] | Sequence[tuple[str, str]]


def ask(
    method: str = "GET",
    path: str = "/",
    headers: Headers = (),
    *,
    host: str | None = HERE,
    kind: str = "http",
    origins: Sequence[str] = (),
    behind: Any = DAGSTER,
) -> tuple[int, list[tuple[bytes, bytes]], str]:
    """Status, headers and body of an answer to a request, whose body the guard must not read."""
    pairs = [*headers.items()] if isinstance(headers, Mapping) else [*headers]
    pairs += [] if host is None else [("host", host)]
    scope: dict[str, Any] = {
        "type": kind,
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in pairs],
    }
    if kind == "http":
        scope["method"] = method
    receive, send = AsyncMock(side_effect=AssertionError), AsyncMock()
    asyncio.run(WebGuard(behind, origins)(scope, receive, send))
    first, *others = [call.args[0] for call in send.await_args_list]
    if first["type"] == "websocket.close":
        return 403, [], first["reason"]
    return first["status"], first["headers"], others[0]["body"].decode()


def status(*words: Any, **named: Any) -> int:
    return ask(*words, **named)[0]


KINDS = ("http", "websocket")
PATHS = ("/graphql\n", "/\x1fruns", "/runs\x7f")
HOSTS = (
    *("evil.example:3000", "localhost.evil.example:3000", "127.0.0.1.evil.example", "", None),
    *("localhost.:3000", "localhost:3000@evil.example", "127.0.0.2:3000", "0.0.0.0:3000"),
)
ORIGINS = (
    *("http://127.0.0.1:3001", "http://localhost:3000", "https://127.0.0.1:3000", "null", ""),
    *("http://evil.example", "http://127.0.0.1:3000.evil.example"),
)
PAGES = (("http", "POST", "/graphql"), ("http", "GET", "/"), ("websocket", "", "/graphql"))
CONTROL = "the path of a request must not have control characters"
FOREIGN: list[tuple[dict[str, Any], str]] = [
    *(({"path": path, "kind": kind}, CONTROL) for path, kind in product(PATHS, KINDS)),
    *(
        ({"host": host, "kind": kind}, "the host of a request must be localhost, 127")
        for host, kind in product(HOSTS, KINDS)
    ),
    *(
        (
            {"method": method, "path": path, "headers": {**JSON, "origin": origin}, "kind": kind},
            "a request must come from these pages, not from",
        )
        for origin, (kind, method, path) in product(ORIGINS, PAGES)
    ),
]


@pytest.mark.parametrize(("request_of", "words"), FOREIGN)
def test_a_foreign_request_gets_nothing(request_of: dict[str, Any], words: str):
    code, _, reason = ask(**request_of)
    assert code == (400 if words == CONTROL and request_of["kind"] == "http" else 403)
    assert reason.startswith(words)


@pytest.mark.parametrize("host", ["127.0.0.1:3000", "localhost:3000", "[::1]:3000", "LOCALHOST"])
def test_the_pages_of_this_computer_load_and_ask(host: str):
    origin = {"origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    assert status("GET", "/runs", host=host) == 200
    assert status("POST", "/graphql", {**JSON, **origin}, host=host) == 200
    assert status(path="/graphql", headers=origin, host=host, kind="websocket") == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "new-word"])
def test_what_a_browser_marks_as_of_another_site_gets_nothing(site: str):
    image = {**JSON, "sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    for method, path in (("GET", "/"), ("GET", "/logs/run/out"), ("POST", "/graphql")):
        assert status(method, path, image) == 403
    assert status(path="/graphql", headers=image, kind="websocket") == 403


def test_a_link_of_another_site_opens_a_page_and_no_data():
    place = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    link = {"sec-fetch-site": "cross-site", **place}
    assert status("GET", "/runs/1", link) == 200
    assert status("GET", "/download_debug/1", link) == 403
    assert status("GET", "/runs/1", {**link, "sec-fetch-dest": "iframe"}) == 403
    assert status("POST", "/graphql", {**link, **JSON}) == 403


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT"])
def test_graphql_is_asked_by_post_alone(method: str):
    accepts = {"accept": "text/html", "sec-fetch-site": "same-origin"}
    code, headers, reason = ask(method, "/graphql", accepts)
    assert code == 405
    assert (b"allow", b"POST") in headers
    assert "must be POST, not" in reason


@pytest.mark.parametrize("kind", [
    *("text/plain", "text/plain; charset=application/json", "text/plain;application/json", ""),
    *("multipart/form-data; boundary=application/json", "application/x-www-form-urlencoded"),
    *("application/graphql", "application/jsonp"),
])  # fmt: skip
def test_a_body_that_a_form_can_send_is_not_read(kind: str):
    assert status("POST", "/graphql", {"content-type": kind}) == 415
    assert status("POST", "/graphql") == 415


def test_a_program_that_is_no_browser_asks_by_json():
    assert status("POST", "/graphql", JSON) == 200
    assert status("POST", "/graphql", {"content-type": "Application/JSON; charset=utf-8"}) == 200
    assert status(path="/graphql", kind="websocket") == 200


@pytest.mark.parametrize("name", ["host", "origin", "content-type", "sec-fetch-site"])
def test_a_header_that_stands_twice_is_refused(name: str):
    once = {"host": HERE, "origin": OWN, **JSON, "sec-fetch-site": "same-origin"}
    twice = [*once.items(), (name, once[name])]
    assert status("POST", "/graphql", once, host=None) == 200
    assert status("POST", "/graphql", twice, host=None) == 400


@pytest.mark.parametrize("event", ["materialization", "check", "observation"])
def test_no_program_reports_what_no_run_has_made(event: str):
    assert status("POST", f"/report_asset_{event}/rides/eug_kmeans", JSON) == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/graphql/", "/prefix/graphql", "/server_info"])
def test_everything_else_is_read_only(method: str, path: str):
    code, headers, _ = ask(method, path, {**JSON, "origin": OWN})
    assert code == 405
    assert (b"allow", b"GET, HEAD") in headers


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("POST", "/"), ("GET", "/graphql")])
def test_no_page_may_frame_or_embed_an_answer(method: str, path: str):
    _, headers, _ = ask(method, path)
    assert (b"x-frame-options", b"DENY") in headers
    assert (b"content-security-policy", b"frame-ancestors 'none'") in headers
    assert (b"cross-origin-resource-policy", b"same-origin") in headers
    assert not [name for name, _ in headers if name.startswith(b"access-control")]


def test_a_named_proxy_gives_its_pages_their_own_origin():
    named = {"host": "budget.example.org", "origins": [PROXY]}
    assert status("GET", "/", **named) == 200
    assert status("POST", "/graphql", {**JSON, "origin": PROXY}, **named) == 200
    # Not over a connection that anybody on the way can write to, nor from this computer's pages.
    for foreign in ("http://budget.example.org", OWN, "https://evil.example.org"):
        assert status("POST", "/graphql", {**JSON, "origin": foreign}, **named) == 403
    assert status("POST", "/graphql", {**JSON, "origin": PROXY}, origins=[PROXY]) == 403


def test_the_variable_names_origins(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(ORIGINS_VARIABLE, raising=False)
    assert declared_origins() == ()
    monkeypatch.setenv(ORIGINS_VARIABLE, f" {PROXY.upper()}  http://[fd00::1]:8080 ")
    assert declared_origins() == (PROXY, "http://[fd00::1]:8080")


@pytest.mark.parametrize("text", ["budget.example.org", f"{PROXY}/", "*", "https://*", "null"])
def test_what_is_no_origin_is_refused(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(ORIGINS_VARIABLE, text)
    with pytest.raises(DeclarationError, match="must list origins such as https://budget"):
        declared_origins()


TEXTS = st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=12)


@given(
    host=st.sampled_from([HERE, "localhost"]) | TEXTS,
    origin=st.sampled_from([OWN, "http://evil.example", "null"]) | TEXTS,
    method=st.sampled_from(["GET", "POST"]),
    path=st.sampled_from(["/", "/graphql", "/graphql/", "/report_asset_check/a"]) | TEXTS,
)
def test_whatever_is_let_through_with_an_origin_has_its_own(host, origin, method, path):
    if status(method, path, {**JSON, "origin": origin}, host=host) == 200:
        assert origin.strip().lower() == f"http://{host.strip().lower()}"


def test_other_events_of_the_server_pass():
    dagster, unused = AsyncMock(), AsyncMock(side_effect=AssertionError)
    asyncio.run(WebGuard(dagster)({"type": "lifespan"}, unused, unused))
    dagster.assert_awaited_once_with({"type": "lifespan"}, unused, unused)


def test_dagster_dev_serves_the_guarded_pages():
    web = [sys.executable, "-m", "dagster_webserver", "--port", "3000"]
    assert guarded_command(web) == [*OURS, "webserver", "--port", "3000"]
    daemon = [sys.executable, "-m", "dagster._daemon", "run"]
    assert guarded_command(daemon) == daemon


def test_a_dagster_that_starts_anything_else_is_refused():
    with pytest.raises(PipelineError, match="Dagster must start its web server and daemon, but"):
        guarded_command([sys.executable, "-m", "dagster_pages"])


PATIENCE = "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR"


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The words with which `dagster dev` would have been started, in a project's folder."""
    (tmp_path / "workspace.yaml").write_text("load_from: []\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("DP_PIPELINE_HOME", "DP_PIPELINE_DAGSTER", "DAGSTER_HOME"):
        monkeypatch.setenv(name, "")
    for name in ("DAGSTER_DISABLE_TELEMETRY", "GX_ANALYTICS_ENABLED", PATIENCE):
        monkeypatch.setenv(name, "unset")
    commands: list[list[str]] = []
    # What starts its programs is replaced for good, and put back after the test.
    monkeypatch.setattr(dev, "open_ipc_subprocess", None)
    monkeypatch.setattr(dev, "dev_command", lambda words, **_: commands.append(words))
    return commands


def ui(*words: str) -> Result:
    return CliRunner().invoke(main, ["ui", *words])


def test_pages_are_served_to_this_computer_only(started: list[list[str]], tmp_path: Path):
    port = str(free_port())
    result = ui("--port", port)
    assert result.exit_code == 0, result.output
    assert f"http://127.0.0.1:{port}" in result.output
    workspace = str(tmp_path / "workspace.yaml")
    assert started == [["--host", "127.0.0.1", "--port", port, "--workspace", workspace]]
    assert (tmp_path / ".dagster_home" / "dagster.yaml").exists()
    assert os.environ["DAGSTER_HOME"] == str(tmp_path / ".dagster_home")
    assert os.environ["DP_PIPELINE_HOME"] == str(tmp_path / "data")
    assert os.environ["DAGSTER_DISABLE_TELEMETRY"] == "1"
    # The daemon waits for a code server that is absent.
    assert os.environ[PATIENCE] == "1"


@pytest.mark.usefixtures("started")
def test_the_history_exists_before_programs_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    history = tmp_path / ".dagster_home" / "history" / "runs.db"
    has_history: list[bool] = []
    monkeypatch.setattr(dev, "dev_command", lambda *_, **__: has_history.append(history.exists()))
    assert ui("--port", str(free_port())).exit_code == 0
    assert has_history == [True]


@pytest.mark.usefixtures("started")
def test_pages_of_the_background_end_by_an_interrupt(monkeypatch: pytest.MonkeyPatch):
    handlers: list[Any] = []
    get_handler = partial(signal.getsignal, signal.SIGINT)
    monkeypatch.setattr(dev, "dev_command", lambda *_, **__: handlers.append(get_handler()))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert ui("--port", str(free_port())).exit_code == 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert handlers == [signal.default_int_handler]


def test_without_a_workspace_file_the_package_is_what_is_loaded(started, tmp_path, monkeypatch):
    (tmp_path / "workspace.yaml").unlink()
    monkeypatch.setenv("DP_PIPELINE_HOME", str(tmp_path / "data"))
    assert ui("--port", str(free_port())).exit_code == 0
    package = ["--module-name", "dp_pipeline.definitions", "--working-directory", str(tmp_path)]
    assert [command[-4:] for command in started] == [package]


def test_a_port_that_is_taken_is_said_in_one_line(started: list[list[str]]):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        result = ui("--port", port)
    assert result.exit_code == 1
    assert result.output == (
        f"dp-pipeline: The port {port} cannot be used: Address already in use; "
        "name another by --port\n"
    )
    assert started == []


def test_without_a_home_nothing_is_started(started: list[list[str]], tmp_path: Path):
    (tmp_path / "workspace.yaml").unlink()
    assert ui().exit_code == 2
    assert started == []
