"""Runs whose ledger and history are in files, or on servers by one variable each."""

import shutil
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.releases.home import Home
from dp_pipeline.releases.store import BundleStore
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import assert_refused
from dp_pipeline_tests.postgres_server import PostgresServer

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
    assert bool(databases(project)) == (not where)


def databases(project: Project) -> list[Path]:
    return [path for path in project.paths() if path.suffix in (".db", ".sqlite")]


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
    passed = {epsilon for epsilon, one in zip(EPSILONS, results, strict=True) if one.code == 0}
    spent = full.ledger.balance("riders").spent
    assert spent == 12 - LEFT + sum(map(Fraction, passed))
    entries = full.ledger.entries("riders")
    charged = {entry.facts.get("epsilon") for entry in entries if entry.event == "reserve"}
    assert charged - {None} == passed
    assert len(list(BundleStore(full.home.released).root.rglob("bundle.json"))) == 2
    full.ledger.verify()
