"""Five runs at once on one population with room for two: the ledger lets two of them through."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.parser import load_spec
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.store import BundleStore
from dp_pipeline_tests.orchestration.events import failures
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import Result, ended, start

pytestmark = pytest.mark.stack

EPSILONS = tuple(f"1.0{digit}" for digit in range(1, 6))
"""Any two of them fit into 2.5, and no three."""

LEFT = Fraction("2.5")
DECLARED = {
    "partitions": list(EPSILONS),
    "ceiling": {"total": "12"},
    "publish": None,
    "evaluation": None,
}


@dataclass(frozen=True)
class ServedProject(Project):
    """A project whose ledger is on a PostgreSQL server; without an address, in its folder."""

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
    """RIDES prepared, with room for two more releases."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgresql" else None
    project = ServedProject(tmp_path, url)
    spec = project.declare("rides", RIDES, **DECLARED)
    assert project.launch(spec, "ingested", "validated", "normalized").success
    project.spend(str(12 - LEFT))
    # Dagster's own storage is there already: five first starts of it at once stamp each other's.
    with project.stored_instance():
        return project


def test_two_of_five_commands_at_once_release(full: ServedProject):
    ends = [full.begin_cli("run", "rides", "--epsilon", epsilon) for epsilon in EPSILONS]
    check_two_of_five(full, [end() for end in ends])


def test_two_of_five_dagster_runs_at_once_are_green(full: ServedProject):
    children = []
    for epsilon in EPSILONS:
        words = Path(tempfile.mkdtemp(prefix="words-", dir=full.folder))
        children.append((start(words, run_alone, full, epsilon), words))
    check_two_of_five(full, [ended(*child) for child in children])


def run_alone(project: ServedProject, epsilon: str) -> None:
    """One Dagster run that plans nothing: only the reservation refuses; to be started in a child,
    which ends with the exit code of its one failure.
    """
    spec = load_spec(project.datasets / "rides.yaml")
    result = project.launch(spec, "dpqt_kmeans", partition=epsilon)
    if result.success:
        return
    (failed,) = failures(result)
    assert failed.user_failure_data is not None, failed.error
    sys.stderr.write(str(failed.user_failure_data.description))
    sys.exit(failed.user_failure_data.metadata["exit_code"].value)


def check_two_of_five(project: ServedProject, results: list[Result]) -> None:
    outcomes = [(result.code, result.err[-300:]) for result in results]
    assert Counter(result.code for result in results) == {0: 2, 3: 3}, outcomes
    for result in results:
        if result.code == 3:
            assert "refused by" in result.err
            assert "ceiling 12" in result.err
    passed = {epsilon for epsilon, one in zip(EPSILONS, results, strict=True) if one.code == 0}
    spent = project.ledger.balance("riders").spent
    assert spent == 12 - LEFT + sum(map(Fraction, passed))
    entries = project.ledger.entries("riders")
    charged = {entry.facts.get("epsilon") for entry in entries if entry.event == "reserve"}
    assert charged - {None} == passed
    assert len(list(BundleStore(project.home.released).root.rglob("bundle.json"))) == 2
    project.ledger.verify()
