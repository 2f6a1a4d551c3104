"""`dp-pipeline ui`: what it starts, where, and what it refuses."""

import os
import socket
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dp_pipeline.cli import main
from dp_pipeline_tests.stack.processes import free_port

PATIENCE = "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR"


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have taken the place of this process, in a project's folder."""
    (tmp_path / "workspace.yaml").write_text("load_from: []\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("DP_PIPELINE_HOME", "DP_PIPELINE_DAGSTER", "DAGSTER_HOME"):
        monkeypatch.setenv(name, "")
    for name in ("DAGSTER_DISABLE_TELEMETRY", "GX_ANALYTICS_ENABLED", PATIENCE):
        monkeypatch.setenv(name, "unset")
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: commands.append(command))
    return commands


def ui(*words: str) -> Result:
    return CliRunner().invoke(main, ["ui", *words])


def test_pages_are_served_to_this_computer_only(started: list[list[str]], tmp_path: Path):
    port = str(free_port())
    result = ui("--port", port)
    assert result.exit_code == 0, result.output
    assert f"http://127.0.0.1:{port}" in result.output
    workspace = str(tmp_path / "workspace.yaml")
    guarded = [sys.executable, "-m", "dp_pipeline.cli", "dagster-dev"]
    dev = [*guarded, "--host", "127.0.0.1", "--port", port]
    assert started == [[*dev, "--workspace", workspace]]
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
    monkeypatch.setattr(os, "execv", lambda *_: has_history.append(history.exists()))
    assert ui("--port", str(free_port())).exit_code == 0
    assert has_history == [True]


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
