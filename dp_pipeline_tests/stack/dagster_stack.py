"""A whole Dagster over a temporary project: web server, daemon and code server on loopback."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster._core.scheduler.instigation import ScheduleInstigatorData

from dp_pipeline_tests.orchestration.projects import Project
from dp_pipeline_tests.stack.dagster_client import LOCATION, Backfill, Client, Run
from dp_pipeline_tests.stack.processes import Server, command_line, free_port, listens, wait_for

WEB, DAEMON, CODE = "web server", "daemon", "code server"
SERVERS = (CODE, WEB, DAEMON)

ENDED = frozenset({"COMPLETED", "COMPLETED_SUCCESS", "COMPLETED_FAILED", "CANCELED", "FAILED"})
SETTINGS = Path(__file__).parents[2] / "dagster.yaml"
_OURS = ("DP_PIPELINE_", "DAGSTER_")
_QUICK = {"poll_interval_seconds": 5, "start_timeout_seconds": 90, "cancel_timeout_seconds": 10}
"""Run monitoring that a test can wait for that kills a process as it starts; minutes otherwise."""


@dataclass
class DagsterStack:
    """The servers of one project.

    patient   a run may take as long to start as our own settings let it
    """

    project: Project
    patient: bool = False
    _ports: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._ports = {name: free_port() for name in (WEB, CODE)}
        self.folder.mkdir()
        self._write_settings()
        self._make_history()

    @property
    def folder(self) -> Path:
        return self.project.folder / "stack"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._ports[WEB]}"

    @property
    def client(self) -> Client:
        return Client(self.url)

    @cached_property
    def servers(self) -> dict[str, Server]:
        logs = {name: self.folder / f"{name.replace(' ', '_')}.log" for name in SERVERS}
        return {
            name: Server(name, self._command(name), self.shell, self.folder, log)
            for name, log in logs.items()
        }

    @property
    def shell(self) -> dict[str, str]:
        """The environment of every server, and of a command that shall see the same Dagster."""
        outer = {name: text for name, text in os.environ.items() if not name.startswith(_OURS)}
        told = {
            # As `dp-pipeline ui` tells them.
            "DAGSTER_DISABLE_TELEMETRY": "1",
            "GX_ANALYTICS_ENABLED": "false",
            "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }
        return outer | told | self.project.environment

    @property
    def workspace(self) -> Path:
        """The file that says where the code server is."""
        return self.project.folder / "workspace.yaml"

    def start(self) -> None:
        for name in SERVERS:
            self.servers[name].start()
        for name in SERVERS:
            self.wait_ready(name)

    def restart(self, name: str) -> None:
        self.servers[name].start()
        self.wait_ready(name)

    def kill(self, name: str) -> None:
        """SIGKILL of one server; the runs of a code server go on without it."""
        self.servers[name].kill()

    def kill_with_children(self, name: str) -> None:
        """SIGKILL of one server and all that it had started: what the end of a container does."""
        self.servers[name].end()

    def workers(self) -> tuple[int, ...]:
        """The processes of runs, also of those whose code server is gone."""
        # Beside them, multiprocessing has one that tidies up semaphores.
        pids = self.servers[CODE].members()
        return tuple(pid for pid in pids if "--multiprocessing-fork" in command_line(pid))

    def wait_ready(self, name: str, *, seconds: float = 300) -> None:
        """Until a server does its work; NotInTime with its last words."""
        checks = {CODE: self._is_served, WEB: self._has_loaded, DAEMON: self._beats}

        def ready() -> bool:
            assert self.servers[name].lives, f"the {name} ended"
            return checks[name]()

        try:
            wait_for(ready, what=f"a {name} that is ready", seconds=seconds)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.servers[name].last_words()}") from None

    def wait_backfill(self, backfill: str, *, seconds: float = 300) -> Backfill:
        def ended() -> Backfill | None:
            found = self.client.backfill(backfill)
            runs = self.client.runs(backfill)
            over = found.status in ENDED and all(run.is_finished for run in runs)
            return found if over else None

        return wait_for(ended, what=f"the end of backfill {backfill}", seconds=seconds)

    def wait_run(self, run: str, *, seconds: float = 180) -> Run:
        def ended() -> Run | None:
            every = (*self.client.runs(), *self.client.renewals())
            return next((r for r in every if r.id == run and r.is_finished), None)

        return wait_for(ended, what=f"the end of run {run}", seconds=seconds)

    def tick_as_after_a_pause(self, schedule: str, *, seconds: float = 120) -> str:
        """Let the daemon make the last tick of a schedule as after a day without it."""
        with dg.DagsterInstance.from_config(self.project.environment["DAGSTER_HOME"]) as instance:
            (state,) = [one for one in instance.all_instigator_state() if one.name == schedule]
            data = ScheduleInstigatorData(
                state.instigator_data.cron_schedule, time.time() - timedelta(days=1).total_seconds()
            )
            instance.update_instigator_state(state.with_data(data))

            def made() -> Any:
                ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1)
                return ticks[0] if ticks and ticks[0].is_completed else None

            return str(wait_for(made, what=f"a tick of {schedule}", seconds=seconds).status.value)

    def stop(self) -> None:
        """SIGKILL of everything that was started; nothing is left."""
        for server in self.servers.values():
            server.end()

    def _command(self, name: str) -> list[str]:
        port = str(self._ports.get(name, ""))
        at = ["--host", "127.0.0.1", "--port", port]
        loads = ["--module-name", "dp_pipeline.definitions", "--location-name", LOCATION]
        reads = ["--workspace", str(self.workspace)]
        words = {
            CODE: ["dagster", "api", "grpc", *at, *loads],
            WEB: ["dp_pipeline.cli", "webserver", *at, *reads],
            DAEMON: ["dagster._daemon", "run", *reads],
        }
        return [sys.executable, "-m", *words[name]]

    def _write_settings(self) -> None:
        home = Path(self.project.environment["DAGSTER_HOME"])
        home.mkdir(parents=True, exist_ok=True)
        settings: dict[str, Any] = yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))
        if not self.patient:
            settings["run_monitoring"] = {**settings["run_monitoring"], **_QUICK}
        (home / "dagster.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        server = {"host": "127.0.0.1", "port": self._ports[CODE], "location_name": LOCATION}
        workspace = {"load_from": [{"grpc_server": server}]}
        self.workspace.write_text(yaml.safe_dump(workspace), encoding="utf-8")

    def _make_history(self) -> None:
        """Make Dagster's own storage, which several servers at once would fail over."""
        with dg.DagsterInstance.from_config(self.project.environment["DAGSTER_HOME"]):
            pass

    def _is_served(self) -> bool:
        return listens(self._ports[CODE])

    def _has_loaded(self) -> bool:
        error = self.client.location_error()
        if error:
            # Read while there was no code server.
            self.client.reload()
        return error == ""

    def _beats(self) -> bool:
        beats, since = self.client.heartbeats(), self.servers[DAEMON].started
        needed = ("BACKFILL", "QUEUED_RUN_COORDINATOR", "SCHEDULER")
        return all(beats.get(name, 0.0) >= since for name in needed)


@contextmanager
def running_stack(project: Project, *, patient: bool = False) -> Iterator[DagsterStack]:
    """All servers over a project; stopped at the end, whatever happens."""
    stack = DagsterStack(project, patient)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
