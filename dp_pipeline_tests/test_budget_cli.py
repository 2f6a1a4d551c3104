"""`dp-pipeline budget`: shown, raised with a reason, verified, exported."""

import csv
import io
import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dp_pipeline_tests.ledger.population import weekly
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import assert_refused

pytestmark = [pytest.mark.chain, pytest.mark.usefixtures("forgotten_disk", "blank_pictures")]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """RIDES at ε = 0.1, run once; tests copy it."""
    project = Project(tmp_path_factory.mktemp("budget"))
    project.declare("rides", RIDES)
    project.command("run", "rides", "--epsilon", "0.1")
    return project.folder


@pytest.fixture
def project(ran: Path, tmp_path: Path) -> Project:
    shutil.copytree(ran, tmp_path / "own", ignore=shutil.ignore_patterns("dagster"))
    return Project(tmp_path / "own")


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
    assert_refused(lower, 2, "each_window must be at least 3, not 1")
    rides = ("budget", "raise", "rides", "--each-window", "1", "--reason", "more")
    assert_refused(project.cli_here(*rides), 2, "the account has no windows, so it takes no each")


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
        ("rides --total 2 --reason less", "the ceiling must be at least 3, not 2"),
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
