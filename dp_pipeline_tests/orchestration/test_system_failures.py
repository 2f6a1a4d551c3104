"""Full disks, damaged histories, odd files, and servers in place of files: charged once."""

import errno
import itertools
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.config.system_errors import system_error
from dp_pipeline.orchestration.instance import dagster_instance
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.store import BundleStore
from dp_pipeline_tests.config.test_system_errors import MAKE, ODD
from dp_pipeline_tests.orchestration.events import refusal
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import assert_refused
from dp_pipeline_tests.postgres_server import PostgresServer

RELEASED = Fraction("0.55")
"""What RIDES at ε = 0.5 and its evaluation cost."""


class FullDisk:
    """Refuses one write that is to be kept, the n-th."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, descriptor: int) -> None:  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_is_one_line_and_charged_once(rides: Project, spec: DatasetSpec, monkeypatch):
    for number in itertools.count(1):
        disk = FullDisk(number)
        monkeypatch.setattr(os, "fsync", disk)
        try:
            published = rides.publish(spec)
        except (OSError, PipelineError) as error:
            line = str(error if isinstance(error, PipelineError) else system_error(error))
            assert "No space left on device; free some space" in line
            assert "\n" not in line
            assert rides.spent(spec) in (0, RELEASED)
        else:
            break
    assert number > 5
    assert disk.left > 0
    assert published.state in ("charged", "resumed", "replayed")
    assert rides.spent(spec) == RELEASED
    rides.ledger.verify()


def test_dagster_reports_the_systems_reason_on_release_data(rides: Project, monkeypatch):
    spec = rides.declare("rides", RIDES)
    monkeypatch.setattr(os, "fsync", FullDisk(1))
    line = refusal(rides.launch(spec, "dpqt_kmeans", partition="0.5"))
    assert "No space left on device; free some space" in line


@pytest.mark.parametrize("damaged", ["history/runs.db", "schedules/schedules.db"])
def test_a_damaged_history_is_one_line_that_says_what_is_lost(damaged, tmp_path: Path, monkeypatch):
    for name in ("DAGSTER_HOME", "DP_PIPELINE_DAGSTER"):
        monkeypatch.setenv(name, "")
    home = Home(tmp_path / "data")
    dagster_instance(home).dispose()
    path = tmp_path / ".dagster_home" / damaged
    path.write_bytes(bytes(range(256)) * 64)
    with pytest.raises(Exception, match="file is not a database") as raised:
        dagster_instance(home)
    line = str(system_error(raised.value))
    assert line.startswith("Dagster's run history: it is damaged")
    assert "the ledger, which is kept elsewhere, loses nothing" in line


@pytest.mark.parametrize("kind", ["pipe", "endless", "folder"])
def test_a_source_that_is_no_file_is_refused_and_not_waited_for(kind, project: Project):
    spec = project.declare("rides", RIDES)
    source = project.datasets / "rides.csv"
    source.unlink()
    MAKE[kind](source)
    line = refusal(project.launch(spec, "ingested"))
    assert line.endswith(f"expected a file that can be read, got {ODD[kind]}: put a file there")


LEDGER, HISTORY = "DP_PIPELINE_LEDGER", "DP_PIPELINE_DAGSTER"


@pytest.fixture(params=["files", pytest.param("servers", marks=pytest.mark.stack)])
def where(request: pytest.FixtureRequest) -> dict[str, str]:
    if request.param == "files":
        return {}
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return {LEDGER: server.new_schema(), HISTORY: server.new_database()}


@pytest.mark.chain
def test_deleting_dagsters_home_resets_no_budget(where: dict[str, str], project: Project):
    project.declare("rides", RIDES)
    first = project.cli("run", "rides", "--epsilon", "0.5", **where)
    assert first.code == 0, first.err
    assert "charged by this run: 0.55" in first.out.replace("ε=", "")
    shutil.rmtree(project.environment["DAGSTER_HOME"])
    again = project.cli("run", "rides", "--epsilon", "0.5", **where)
    assert again.code == 0, again.err
    assert "charged by this run: 0\n" in again.out.replace("ε=", "")
    ledger = Home(project.home.root, where.get(LEDGER)).ledger
    assert ledger.balance("riders").spent == Fraction("0.55")
    ledger.verify()
    has_databases = any(path.suffix in (".db", ".sqlite") for path in project.paths())
    assert has_databases == (not where)


@pytest.mark.chain
def test_project_that_has_spent_is_not_pointed_at_empty_server(released_rides, postgres_server):
    spent = released_rides.ledger.balance("riders").spent
    for command in (["run", "rides"], ["plan", "rides"], ["budget"]):
        refused = released_rides.cli(*command, **{LEDGER: postgres_server.new_schema()})
        assert_refused(refused, 1, "the rows of this home are in")
    assert released_rides.ledger.balance("riders").spent == spent > 0


EPSILONS = tuple(f"1.0{digit}" for digit in range(1, 6))
"""Any two of them fit into 2.5, and no three."""

LEFT = Fraction("2.5")
ALONE = {"publish": None, "evaluation": None}
DECLARED = {"partitions": list(EPSILONS), "ceiling": {"total": "12"}, **ALONE}


@dataclass(frozen=True)
class ServedProject(Project):
    url: str | None = None

    @property
    def home(self) -> Home:
        return Home(self.folder / "data", database=self.url)

    @property
    def environment(self) -> dict[str, str]:
        server = {} if self.url is None else {"DP_PIPELINE_LEDGER": self.url}
        return super().environment | server


@pytest.fixture(params=["sqlite", "postgresql"])
def full(request: pytest.FixtureRequest, tmp_path: Path) -> ServedProject:
    url = request.getfixturevalue("postgres_url") if request.param == "postgresql" else None
    project = ServedProject(tmp_path, url)
    spec = project.declare("rides", RIDES, **DECLARED)
    assert project.launch(spec, "ingested", "validated", "normalized").success
    project.spend(str(12 - LEFT))
    # Dagster's own storage is there already: five first starts of it at once stamp each other's.
    with project.stored_instance():
        return project


@pytest.mark.stack
def test_two_of_five_commands_at_once_release(full: ServedProject):
    ends = [full.begin_cli("run", "rides", "--epsilon", epsilon) for epsilon in EPSILONS]
    results = [end() for end in ends]
    assert Counter(result.code for result in results) == {0: 2, 3: 3}, results
    for result in results:
        if result.code == 3:
            assert_refused(result, 3, "refused by", "ceiling 12")
    passed = {epsilon for epsilon, end in zip(EPSILONS, results, strict=True) if end.code == 0}
    spent = full.ledger.balance("riders").spent
    assert spent == 12 - LEFT + sum(map(Fraction, passed))
    entries = full.ledger.entries("riders")
    charged = {entry.facts.get("epsilon") for entry in entries if entry.event == "reserve"}
    assert charged - {None} == passed
    assert len(list(BundleStore(full.home.released).root.rglob("bundle.json"))) == 2
    full.ledger.verify()
