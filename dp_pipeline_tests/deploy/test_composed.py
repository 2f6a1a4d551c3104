"""The commands of deploy/docker-compose.yaml, started as processes over a real PostgreSQL."""

import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from dp_pipeline.releases.home import Home
from dp_pipeline_tests.deploy.compose_file import FOLDER, composed, variables
from dp_pipeline_tests.deploy.conftest import PASSWORDS
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.postgres_server import PostgresServer
from dp_pipeline_tests.stack.dagster_stack import CODE, DAEMON, WEB, DagsterStack
from dp_pipeline_tests.stack.processes import Server

pytestmark = pytest.mark.stack

SERVICE = {CODE: "code", WEB: "webserver", DAEMON: "daemon"}


class ComposedStack(DagsterStack):
    """What the file says, with its folders, ports and names of computers moved to this one.

    server   has the two databases
    """

    server: PostgresServer

    @cached_property
    def servers(self) -> dict[str, Server]:
        return {name: self._server(name) for name in SERVICE}

    def command(self, *words: str) -> None:
        """`docker compose run --rm code dp-pipeline …`."""
        command = [_program("dp-pipeline"), *words]
        subprocess.run(
            command, env=self._told(SERVICE[CODE]), cwd=self.folder, check=True, timeout=300
        )

    def start(self) -> None:
        program, *words = self._here(self._service("history")["command"])
        told = self._told("history")
        subprocess.run([_program(program), *words], env=told, check=True, timeout=300)
        super().start()

    def _server(self, name: str) -> Server:
        service = SERVICE[name]
        program, *words = self._here(self._service(service)["command"])
        log = self.folder / f"{service}.log"
        return Server(name, [_program(program), *words], self._told(service), self.folder, log)

    def _told(self, service: str) -> dict[str, str]:
        return self.shell | self._here(self._service(service)["environment"])

    def _service(self, service: str) -> Any:
        values = dict.fromkeys(variables(), "x") | PASSWORDS
        return composed(values)["services"][service]

    def _here(self, said: Any) -> Any:
        if isinstance(said, list):
            return [self._here(one) for one in said]
        if isinstance(said, dict):
            return {name: self._here(one) for name, one in said.items()}
        moved = {
            "/project": str(self.project.folder),
            "@postgres/": f"@127.0.0.1:{self.server.port}/",
            "0.0.0.0": "127.0.0.1",
            "code-inside": "127.0.0.1",
            "3000": str(self._ports[WEB]),
            "4000": str(self._ports[CODE]),
        }
        for there, here in moved.items():
            said = said.replace(there, here)
        return said

    @property
    def home(self) -> Home:
        told = self._told(SERVICE[CODE])
        head = Path(told["DP_PIPELINE_LEDGER_HEAD"])
        return Home(Path(told["DP_PIPELINE_HOME"]), told["DP_PIPELINE_LEDGER"], head)

    @property
    def shell(self) -> dict[str, str]:
        ours = ("DP_PIPELINE_", "DAGSTER_")
        return {name: text for name, text in super().shell.items() if not name.startswith(ours)}

    def _make_history(self) -> None:
        """A part of the file does."""

    def _write_settings(self) -> None:
        history = self.project.folder / "history"
        history.mkdir()
        settings = (FOLDER / "dagster.yaml").read_text(encoding="utf-8")
        (history / "dagster.yaml").write_text(settings, encoding="utf-8")
        workspace = yaml.safe_load((FOLDER / "workspace.yaml").read_text(encoding="utf-8"))
        server = workspace["load_from"][0]["grpc_server"]
        server.update(host="127.0.0.1", port=self._ports[CODE])
        path = self.project.folder / "workspace.yaml"
        path.write_text(yaml.safe_dump(workspace), encoding="utf-8")


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


@pytest.fixture
def stack(tmp_path: Path, databases: PostgresServer) -> Iterator[ComposedStack]:
    project = Project(tmp_path)
    project.declare("rides", RIDES)
    stack = ComposedStack(project)
    stack.server = databases
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()


def test_release_of_the_composed_stack_is_in_both_databases(stack: ComposedStack):
    stack.command("run", "rides", "--epsilon", "0.1")
    assert stack.home.ledger.balance("riders").spent == Fraction("0.15")
    backfill = stack.client.launch_backfill([["rides", "dpqt_kmeans"]], ["0.5"])
    assert stack.wait_backfill(backfill).status == "COMPLETED_SUCCESS"
    assert stack.home.ledger.balance("riders").spent == Fraction("0.7")
    stack.home.ledger.verify()
    at = {"url": stack.server.url("dagster")}
    assert stack.server.execute("SELECT DISTINCT status FROM runs", **at) == [("SUCCESS",)]
    assert not list(stack.project.folder.rglob("*.sqlite"))
    assert not list((stack.project.folder / "history").rglob("*.db"))
    assert stack.home.head.exists()
