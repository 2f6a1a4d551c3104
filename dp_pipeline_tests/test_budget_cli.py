"""`dp-pipeline budget`: shown, raised with a reason, verified, exported."""

import csv
import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dp_pipeline_tests.ledger.population import weekly
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import assert_refused

pytestmark = [pytest.mark.chain, pytest.mark.usefixtures("forgotten_disk", "blank_pictures")]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """RIDES at ε = 0.1, run once; tests copy it."""
    project = Project(tmp_path_factory.mktemp("budget"))
    project.declare("rides", RIDES)
    result = project.cli_here("run", "rides", "--epsilon", "0.1")
    assert result.code == 0, result.err
    yield project.folder


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
        {name: one for name, one in RIDES.items() if name != "protection"},
        population="streams",
        windows=weeks,
        protection={"unit": "one_row"},
        ceiling={"each_window": "2"},
        publish=[{"model": next(iter(RIDES["models"])), "epsilon": "0.1"}],
    )
    command = ("budget", "raise", "stream", "--reason", "a second model")
    raised = project.cli_here(*command, "--each-window", "3")
    assert (raised.code, raised.err) == (0, "")
    assert "{each_window: 2} → ceiling {each_window: 3}" in raised.out
    added = project.cli_here(*command, "--total", "40")
    assert "{each_window: 3} → ceiling {total: 40, each_window: 3}" in added.out
    monthly = project.cli_here(*command, "--per-month", "9")
    assert "→ ceiling {total: 40, each_window: 3, per_month: 9}" in monthly.out
    lower = project.cli_here(*command, "--each-window", "1")
    assert_refused(lower, 2, "each_window must be at least 3, not 1")
    rides = ("budget", "raise", "rides", "--each-window", "1", "--reason", "more")
    assert_refused(project.cli_here(*rides), 2, "the account has no windows, so it takes no each")


def test_a_raised_ceiling_is_not_that_of_the_file(project: Project):
    command = ("budget", "raise", "rides", "--total", "4.5", "--reason", "the second survey")
    raised = project.cli_here(*command, "--per-month", "1")
    assert (raised.code, raised.err) == (0, "")
    assert "{total: 3} → ceiling {total: 4.5, per_month: 1}" in raised.out
    word = (
        "the file declares ceiling '3', per_month 'none'; the account has ceiling '4.5', per_month"
    )
    planned = project.cli_here("plan", "rides")
    assert (planned.code, planned.err) == (0, "")
    assert word in planned.out
    month = project.cli_here("run", "rides", "--epsilon", "0.5", "--new-draw")
    assert month.code == 0, month.err
    assert word in month.out
    project.declare("rides", RIDES, ceiling={"total": "4.5", "per_month": "1"})
    assert "the account rules" not in project.cli_here("plan", "rides").out
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
        (("rides", "--total", "2", "--reason", "less"), "the ceiling must be at least 3, not 2"),
        (("rides", "--total", "3", "--reason", "none"), "are those it has already"),
        (("rides", "--total", "four", "--reason", "more"), "--total: expected"),
        (("rides", "--total", "4", "--reason", " "), "reason to raise"),
        (("strides", "--total", "4", "--reason", "more"), "There is no data set"),
    ],
)
def test_a_raise_that_is_none_is_one_line(project: Project, arguments, words: str):
    refused = project.cli_here("budget", "raise", *arguments)
    assert_refused(refused, 2, words)
    assert [entry.event for entry in project.ledger.entries()].count("raise") == 0


def test_a_good_ledger_is_verified_and_an_older_one_is_not(project: Project):
    good = project.cli_here("budget", "verify")
    rows = len(project.ledger.entries())
    assert (good.code, good.err) == (0, "")
    assert good.out.startswith(f"{rows} rows; chain, sums, limits and head agree")
    yesterday = project.folder / "yesterday"
    shutil.copytree(project.ledger.folder, yesterday)
    assert project.cli_here("run", "rides", "--epsilon", "0.5").code == 0
    shutil.rmtree(project.ledger.folder)
    shutil.copytree(yesterday, project.ledger.folder)
    for command in (("budget", "verify"), ("run", "rides"), ("plan", "rides")):
        assert_refused(project.cli_here(*command), 1, "an older copy was put back")


def texts_in(value: object) -> Iterator[str]:
    """Every text of a document, however deep."""
    if isinstance(value, str):
        yield value
    members = value.values() if isinstance(value, dict) else value
    for one in members if isinstance(value, (dict, list)) else ():
        yield from texts_in(one)


def test_a_reason_that_is_a_formula_is_text_in_a_spreadsheet(project: Project):
    reason = "=HYPERLINK(A1)"
    raised = project.cli_here("budget", "raise", "rides", "--total", "4", "--reason", reason)
    assert raised.code == 0, raised.err
    lines = list(csv.DictReader(io.StringIO(project.cli_here("budget", "export").out)))
    assert lines[-1]["reason"] == f"'{reason}"
    told = json.loads(project.cli_here("budget", "export", "--format", "json").out)
    assert told["format"] == 1
    assert told["lines"][-1]["reason"] == reason


def test_an_export_is_csv_or_json_on_the_screen_or_in_a_file(project: Project):
    shown = project.cli_here("budget", "export")
    lines = list(csv.DictReader(io.StringIO(shown.out)))
    assert [line["event"] for line in lines] == ["opened", "release"]
    assert (lines[1]["charged"], lines[1]["epsilon"], lines[1]["evaluation"]) == (
        "0.15",
        "0.1",
        "0.05",
    )
    written = project.cli_here(
        "budget", "export", "rides", "--format", "json", "--out", "budget.json"
    )
    assert (written.code, written.out) == (0, "")
    told = json.loads((project.folder / "budget.json").read_text())["lines"]
    assert told[1]["model"] == "dpqt_kmeans"
    assert len(told[1]["spends"]) > 1
    assert told[1]["parameters"] == {
        "columns": [], "gamma": "3/10", "nominal_rows": "40", "variant": "sound",
    }  # fmt: skip
    assert not [text for text in texts_in(told) if text.startswith(("{", "[", "("))]
    assert_refused(project.cli_here("budget", "export", "--out", "nowhere/at/all.csv"), 1)
