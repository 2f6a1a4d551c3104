"""A run whose ledger and whose history are on servers: one variable each."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.releases.home import Home
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.postgres_server import PostgresServer

pytestmark = pytest.mark.chain

LEDGER, HISTORY = "DP_PIPELINE_LEDGER", "DP_PIPELINE_DAGSTER"


@pytest.fixture(params=["files", pytest.param("servers", marks=pytest.mark.stack)])
def where(request: pytest.FixtureRequest) -> dict[str, str]:
    """What a command is told of its stores."""
    if request.param == "files":
        return {}
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return {LEDGER: server.new_schema(), HISTORY: server.new_database()}


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
    """Files of SQLite, Dagster's or the ledger's."""
    return [path for path in project.paths() if path.suffix in (".db", ".sqlite")]


def test_project_that_has_spent_is_not_pointed_at_empty_server(
    released_rides: Project, postgres_server: PostgresServer
):
    spent = released_rides.ledger.balance("riders").spent
    for command in (["run", "rides"], ["plan", "rides"], ["budget"]):
        refused = released_rides.cli(*command, **{LEDGER: postgres_server.new_schema()})
        assert refused.code == 1
        assert "the rows of this home are in" in refused.err
        assert refused.err.count("\n") == 1
    assert released_rides.ledger.balance("riders").spent == spent > 0
