"""Documents for programs by `--json`; `budget`: shown, raised, verified, exported."""

import csv
import io
import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dp_pipeline_tests.ledger.population import weekly
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import Result, assert_refused

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


def test_limits_of_windows_are_raised_and_added_by_command(project: Project):
    weeks = {"column": "ended", "every": "week", "first": "2026-W01"}
    cut = "every week by ended, UTC"
    account = replace(weekly(each="2", windows=cut), population="streams", unit="one row")
    project.ledger.open_account(account)
    project.declare(
        "stream",
        {**RIDES, "population": "streams", "protection": {"unit": "one_row"}},
        windows=weeks,
        ceiling={"each_window": "2"},
        publish=[{"model": "dpqt_kmeans", "epsilon": "0.1"}],
    )
    command = ("budget", "raise", "stream", "--reason", "a second model")
    raised = project.command(*command, "--each-window", "3")
    assert "{each_window: 2} → ceiling {each_window: 3}" in raised
    total = project.command(*command, "--total", "40")
    assert "{each_window: 3} → ceiling {total: 40, each_window: 3}" in total
    monthly = project.command(*command, "--per-month", "9")
    assert "→ ceiling {total: 40, each_window: 3, per_month: 9}" in monthly
    lower = project.cli_here(*command, "--each-window", "1")
    assert_refused(lower, 2, "each_window must be at least 3, as before, not 1")
    rides = ("budget", "raise", "rides", "--each-window", "1", "--reason", "more")
    assert_refused(
        project.cli_here(*rides), 2, "each_window needs `windows`, but the account has none"
    )


def test_a_raised_ceiling_is_not_that_of_the_file(project: Project):
    command = ("budget", "raise", "rides", "--total", "4.5", "--reason", "the second survey")
    raised = project.command(*command, "--per-month", "1")
    assert "{total: 3} → ceiling {total: 4.5, per_month: 1}" in raised
    note = "the file declares ceiling '3', per_month 'none'; the account has ceiling '4.5', per_mon"
    assert note in project.command("plan", "rides")
    month = project.cli_here("run", "rides", "--epsilon", "0.5", "--new-draw")
    assert month.code == 0, month.err
    assert note in month.out
    project.declare("rides", RIDES, ceiling={"total": "4.5", "per_month": "1"})
    assert "the account rules" not in project.command("plan", "rides")
    project.declare("rides", RIDES, ceiling={"total": "5"})
    more = project.cli_here("plan", "rides")
    assert more.code == 2
    assert "`dp-pipeline budget raise DATASET --total … --reason …`" in more.err
    project.declare("rides", RIDES)
    refused = project.cli_here("run", "rides", "--epsilon", "0.5", "--new-draw")
    assert refused.code == 3
    assert "per_month 1" in refused.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("rides --total 2 --reason less", "the ceiling must be at least 3, as before, not 2"),
        ("rides --total 3 --reason none", "are those it has already"),
        ("rides --total four --reason more", "--total: expected"),
        ("rides --total 4 --reason ' '", "reason to raise"),
        ("strides --total 4 --reason more", "There is no data set"),
    ],
)
def test_a_raise_that_is_none_is_one_line(project: Project, arguments: str, words: str):
    refused = project.cli_here("budget", "raise", *shlex.split(arguments))
    assert_refused(refused, 2, words)
    assert [entry.event for entry in project.ledger.entries()].count("raise") == 0


def test_a_good_ledger_is_verified_and_an_older_one_is_not(project: Project):
    rows = len(project.ledger.entries())
    verdict = project.command("budget", "verify")
    assert verdict.startswith(f"{rows} rows; chain, sums, limits and head agree")
    yesterday = project.folder / "yesterday"
    shutil.copytree(project.ledger.folder, yesterday)
    assert project.cli_here("run", "rides", "--epsilon", "0.5").code == 0
    shutil.rmtree(project.ledger.folder)
    shutil.copytree(yesterday, project.ledger.folder)
    for command in (("budget", "verify"), ("run", "rides"), ("plan", "rides")):
        assert_refused(project.cli_here(*command), 1, "an older copy was put back")


def exported_lines(project: Project) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(project.command("budget", "export"))))


def test_a_reason_that_is_a_formula_is_text_in_a_spreadsheet(project: Project):
    reason = "=HYPERLINK(A1)"
    project.command("budget", "raise", "rides", "--total", "4", "--reason", reason)
    assert exported_lines(project)[-1]["reason"] == f"'{reason}"
    document = json.loads(project.command("budget", "export", "--format", "json"))
    assert document["format"] == 1
    assert document["lines"][-1]["reason"] == reason


def test_an_export_is_csv_or_json_on_the_screen_or_in_a_file(project: Project):
    opened, release = exported_lines(project)
    assert (opened["event"], release["event"]) == ("opened", "release")
    amounts = [release[name] for name in ("charged", "epsilon", "evaluation")]
    assert amounts == ["0.15", "0.1", "0.05"]
    words = "export rides --format json --out budget.json"
    assert project.command("budget", *words.split()) == ""
    text = (project.folder / "budget.json").read_text()
    lines = json.loads(text)["lines"]
    assert lines[1]["model"] == "dpqt_kmeans"
    assert len(lines[1]["spends"]) > 1
    parameters = {"columns": [], "gamma": "3/10", "nominal_rows": "40", "variant": "sound"}
    assert lines[1]["parameters"] == parameters
    assert not re.search(r'"[{\[(]', text), "a text that holds a document"
    assert_refused(project.cli_here("budget", "export", "--out", "nowhere/at/all.csv"), 1)
