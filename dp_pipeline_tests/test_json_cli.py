"""`--json`: one document on stdout for programs, with the same errors and exit codes."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import Result

pytestmark = [pytest.mark.chain, pytest.mark.usefixtures("forgotten_disk", "blank_pictures")]

WEEKLY = {
    "windows": {"column": "ended", "every": "week", "first": "2026-W01"},
    "ceiling": {"each_window": "2", "total": "9"},
    "protection": {**RIDES["protection"], "within": "ever"},
    "publish": [{"model": "dpqt_kmeans", "epsilon": "0.5"}],
}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The folder of RIDES, and its first run, at ε = 0.1; tests copy the folder."""
    project = Project(tmp_path_factory.mktemp("json"))
    project.declare("rides", RIDES)
    return project.folder, project.cli("run", "rides", "--epsilon", "0.1", "--json")


@pytest.fixture
def project(first: tuple[Path, Result], tmp_path: Path) -> Project:
    shutil.copytree(first[0], tmp_path / "own", ignore=shutil.ignore_patterns("dagster"))
    return Project(tmp_path / "own")


def document(result: Result, *, code: int = 0) -> dict[str, Any]:
    """The one document that stands on stdout, without its format."""
    assert result.code == code, result.err
    assert "\x1b" not in result.out
    content: dict[str, Any] = json.loads(result.out)
    assert content.pop("format") == 1
    return content


def test_a_run_gives_its_releases_and_their_prices_to_a_program(first: tuple[Path, Result]):
    folder, result = first
    assert (result.err, result.steps) == (
        "",
        ("rides: rows …", "rides: ε=0.1 …", "rides: report …"),
    )
    report = str(folder / "data" / "reports" / "rides.html")
    finished = document(result)
    expected = {"dataset": "rides", "charged": "0.15", "currency": "pure", "report": report}
    assert expected.items() <= finished.items()
    (release,) = finished["releases"]
    expected = {"model": "dpqt_kmeans", "epsilon": "0.1", "state": "charged", "spent": "0.15"}
    assert expected.items() <= release.items()
    (quality,) = release["quality"]
    assert quality["metric"] == "nicv"
    assert quality["deviation"] > 0, "numbers of sensitive rows must be noisy"
    assert (Path(release["folder"]) / "bundle.json").is_file()


def test_a_quiet_run_leaves_stderr_empty(project: Project):
    result = project.cli("run", "rides", "--epsilon", "0.5", "--quiet")
    assert (result.code, result.err, result.steps) == (0, "", ())
    assert "charged by this run: 0.55" in result.out


def test_what_was_released_is_replayed_in_a_document_too(project: Project):
    result = project.cli_here("run", "rides", "--epsilon", "0.1", "--json")
    assert (result.err, result.steps) == ("", ()), "no step was begun"
    again = document(result)
    assert again["charged"] == "0"
    assert [release["state"] for release in again["releases"]] == ["replayed"]


def test_a_plan_is_a_document_with_exact_amounts(project: Project):
    project.declare("rides", RIDES, evaluation={"epsilon": "0.050000007"})
    plan = document(project.cli_here("plan", "rides", "--epsilon", "0.5", "--json"))
    (release,) = plan["releases"]
    assert (release["state"], release["cost"]) == ("new", "0.550000007")
    expected = {"requested": "0.550000007", "spent": "0.15", "left": "2.85", "ceiling": "3"}
    assert expected.items() <= plan.items()


def test_a_plan_beyond_the_ceiling_is_a_document_too(project: Project):
    project.declare("tight", RIDES, population="tight", ceiling={"total": "3", "per_month": "0.6"})
    assert document(project.cli_here("plan", "tight", "--epsilon", "0.5", "--json"))
    beyond = project.cli_here("plan", "tight", "--json")
    expected = {"requested": "0.7", "left_this_month": "0.6", "a_month": "0.6"}
    assert expected.items() <= document(beyond, code=3).items()
    assert beyond.err.startswith("dp-pipeline: ")
    assert beyond.err.count("\n") == 1


def test_the_windows_of_a_plan_have_their_own_limits(project: Project):
    project.declare("weeks", RIDES, population="weekly", **WEEKLY)
    plan = document(project.cli_here("plan", "weeks", "--window", "2026-W01..2026-W02", "--json"))
    assert [release["windows"] for release in plan["releases"]] == [["2026-W01"], ["2026-W02"]]
    limits = {"spent": "0", "left": "2", "ceiling": "2"}
    assert plan["windows"][0] == {"window": "2026-W01", "requested": "0.55", **limits}
    assert (plan["requested"], plan["left"], plan["ceiling"]) == ("1.1", "9", "9")


def test_a_backfill_says_which_runs_it_is_about_before_it_fails(project: Project):
    result = project.cli_here("backfill", "rides", "--epsilon", "0.5", "--json")
    backfill = document(result, code=1)
    assert (backfill["runs"], backfill["requested"]) == (["0.5"], "0.55")
    assert result.err.startswith("dp-pipeline: The backfill needs a running Dagster daemon: start")


@pytest.mark.parametrize("command", [
    *("plan rides --epsilon 0.3", "run rides --model kmeans", "backfill strides"),
    *("anonymize rides", "roll-up rides", "budget strides"),
])  # fmt: skip
def test_a_refusal_is_the_same_line_for_a_program(command: str, project: Project):
    person, program = (project.cli_here(*command.split(), *more) for more in ((), ("--json",)))
    assert (person.code, person.out) == (2, "")
    assert program == person
    assert program.err.count("\n") == 1


def test_lists_are_documents(project: Project):
    datasets = document(project.cli_here("data", "list", "--json"))
    (rides,) = [dataset for dataset in datasets["datasets"] if dataset["name"] == "rides"]
    expected = {"purpose": "release", "models": ["dpqt_kmeans"], "epsilons": ["0.1", "0.5"]}
    assert {**expected, "available": "yes"}.items() <= rides.items()
    assert datasets["refused"] == []
    (account,) = document(project.cli_here("budget", "rides", "--json"))["accounts"]
    assert (account["spent"], account["left"]) == ("0.15", "2.85")
    verified = document(project.cli_here("budget", "verify", "--json"))
    assert verified["rows"] > 0
    assert re.fullmatch("[0-9a-f]{64}", verified["newest"])
