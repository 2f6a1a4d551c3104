"""`dp-pipeline` as a shell sees it: exit codes, one line on stderr, and what is left behind."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dp_pipeline.cli import main, run
from dp_pipeline.cli.released import print_failed_checks
from dp_pipeline.orchestration import instance
from dp_pipeline.releases.account import open_population
from dp_pipeline.reporting.text import print_table
from dp_pipeline_tests.orchestration import patients
from dp_pipeline_tests.orchestration.events import entries
from dp_pipeline_tests.orchestration.projects import HOMES, PLANTS, RIDES, ROWS, Project
from dp_pipeline_tests.orchestration.warm import Result, assert_refused, start_server

pytestmark = [pytest.mark.chain, pytest.mark.usefixtures("forgotten_disk", "blank_pictures")]

SECRET = "1902107770713359"
"""Stands in rows and in no declaration. Eight digits would occur in noise and names by chance."""

COLOURED = {**PLANTS, "models": {"independent": {}}, "partitions": ["0.5"]}


@pytest.fixture(scope="module", autouse=True)
def warm_server() -> None:
    start_server()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="module")
def home_of_rides(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """RIDES, run once by the command; tests read it and do not change it."""
    project = Project(tmp_path_factory.mktemp("rides"))
    project.declare("rides", RIDES)
    result = project.cli("run", "rides")
    assert result.code == 0, result.err
    return project


def assert_kept_secret(project: Project, result: Result) -> None:
    """The value of a row is in no output, no event and no file but the rows' own."""
    assert SECRET not in result.out + result.err
    with project.stored_instance() as stored:
        both = [*entries(stored), *entries(project.instance)]
    assert both, "nothing was run"
    assert SECRET not in "".join(dg.serialize_value(entry) for entry in both)
    for name, content in project.files().items():
        if not name.startswith(("datasets/", "data/raw/")):
            assert SECRET.encode() not in content, name


def assert_nothing_left(project: Project, name: str) -> None:
    """No snapshot, no release, no report, and no charge."""
    assert not list(project.home.raw.glob(f"{name}/*/*"))
    assert not (project.home.raw / name / "current").exists()
    for folder in (project.home.released, project.home.internal, project.home.reports):
        assert not folder.exists()
    assert [entry.event for entry in project.ledger.entries() if entry.nano_epsilon] == []


def test_help_lists_every_command_with_a_sentence():
    # The one cold start: the interpreter, the entry point and no warm server.
    help_command = [sys.executable, "-m", "dp_pipeline.cli", "--help"]
    result = subprocess.run(help_command, capture_output=True, text=True, check=True)
    require_whole_sentences(result.stdout)


@pytest.mark.parametrize("group", ["data", "budget"])
def test_help_of_a_group_lists_its_commands_in_sentences(group: str, project: Project):
    require_whole_sentences(project.cli_here(group, "--help").out)


def require_whole_sentences(help_text: str) -> None:
    """Require a sentence for every listed command, none of which is cut."""
    commands = help_text.partition("Commands:\n")[2].splitlines()
    assert len(commands) > 3
    for line in commands:
        assert re.search(r"^  [a-z-]+ +[A-Z].+[^.]\.$", line), line


WRONG_USES = {
    "run": "Missing argument 'DATASET' (`dp-pipeline run",
    "plan": "Missing argument 'DATASET' (`dp-pipeline plan",
    "data check": "Missing argument 'FILE' (`dp-pipeline data check",
    "run rides --frobnicate": "No such option '--frobnicate'",
    "--frobnicate": "No such option '--frobnicate'",
    "frobnicate": "No such command 'frobnicate'",
    "bacfill rides": "No such command 'bacfill': did you mean backfill?",
    "data chekc": "No such command 'chekc'",
}


@pytest.mark.parametrize("command", WRONG_USES)
def test_a_wrong_use_of_the_command_line_takes_one_line(command: str, project: Project):
    result = project.cli_here(*command.split())
    assert_refused(result, 2, WRONG_USES[command], " --help` lists what it takes)")


def test_the_command_line_without_a_command_prints_its_help(project: Project):
    result = project.cli_here()
    assert (result.code, result.out) == (2, "")
    assert "Usage: dp-pipeline" in result.err


def test_a_plan_and_a_check_read_no_row_and_make_nothing(project: Project):
    project.declare("rides", RIDES)
    (project.datasets / "rides.csv").unlink()
    before = project.paths()
    planned = project.command("plan", "rides")
    assert "requested 0.7, spent 0, left 3, ceiling 3" in planned
    assert len(re.findall("^noise of a count: ", planned, re.MULTILINE)) == 1
    checked = project.command("data", "check", "datasets/rides.yaml")
    assert checked.endswith("valid; all models at all ε with evaluations cost 0.7\n")
    project.command("budget")
    assert json.loads(project.command("budget", "--json")) == {"format": 1, "accounts": []}
    assert project.paths() == before


MATCHING = {"type": "expect_column_values_to_match_regex", "column": "rider", "regex": "^[a-z]+$"}
"""Declared in Great Expectations' words: `eve` and the others fit, SECRET does not."""


@pytest.mark.parametrize("is_custodian", [False, True], ids=["unasked", "asked"])
@pytest.mark.parametrize("is_terminal", [False, True], ids=["log", "terminal"])
@pytest.mark.parametrize("purpose", ["benchmark", "release"])
def test_failed_checks_need_a_terminal_or_the_custodian(
    project: Project, monkeypatch, capsys, purpose: str, is_terminal: bool, is_custodian: bool
):
    """Their names differ between neighbouring tables, and a log has more readers than rows have."""
    spec = replace(project.declare("rides", RIDES), purpose=purpose)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    print_failed_checks(spec, ("bounds__x",), custodian=is_custodian)
    output = capsys.readouterr()
    assert output.out == ""
    is_shown = purpose == "benchmark" or is_terminal or is_custodian
    assert output.err.startswith("rides: the rows fail bounds__x; ") is is_shown
    assert bool(output.err) is is_shown


def test_failed_checks_are_named_to_the_custodian_alone(project: Project):
    project.declare("rides", RIDES, usable="0.95", expectations=[MATCHING])
    project.write_rows("rides.csv", [*ROWS["rides"], f"{SECRET},99,1", ",3,3"])
    result = project.cli("run", "rides", "--epsilon", "0.1", "--custodian")
    assert result.code == 0, result.err
    shares = {
        "bounds__x": "90.0000",
        "present_person_id": "90.0000",
        "expect_column_values_to_match_regex_person_id": "88.8889",
    }
    failures = ", ".join(f"{name} ({share} % are so)" for name, share in shares.items())
    assert result.err.startswith(f"rides: the rows fail {failures}; this stopped nothing")
    assert result.err.count("\n") == 1
    assert_kept_secret(project, result)
    readable = project.files("released", "reports", "internal")
    assert readable
    for name in shares:
        assert name not in result.out
        assert not any(name.encode() in content for content in readable.values())
    again = project.cli("run", "rides", "--epsilon", "0.1")
    assert (again.code, again.err) == (0, ""), "nothing was validated"
    written = project.cli("data", "docs", "rides")
    assert (written.code, written.err) == (0, "")
    (folder,) = project.home.raw.glob("rides/*/great_expectations")
    assert str(folder / "data_docs" / "index.html") in written.out
    assert_kept_secret(project, written)


def test_documents_before_a_run_open_no_account(project: Project):
    project.declare("rides", RIDES)
    assert_refused(project.cli_here("data", "docs", "rides"), 1, "no rows are ingested yet")
    assert project.ledger.account("riders") is None


def test_the_plan_of_what_was_released_costs_nothing(home_of_rides: Project):
    planned = home_of_rides.command("plan", "rides")
    rows = [line.split() for line in planned.splitlines() if "dpqt_kmeans" in line]
    assert rows == [
        ["dpqt_kmeans", "0.1", "settled", "0", "20.0"],
        ["dpqt_kmeans", "0.5", "settled", "0", "3.96"],
    ]
    assert "requested 0, spent 0.7, left 2.3, ceiling 3" in planned
    assert "settled: released before, shown again at no cost\n" in planned
    anew = home_of_rides.command("plan", "rides", "--new-draw", "--epsilon", "0.50")
    assert "requested 0.55, spent 0.7, left 2.3, ceiling 3" in anew


def test_the_budget_of_one_data_set_is_that_of_its_population(home_of_rides: Project):
    (account,) = json.loads(home_of_rides.command("budget", "rides", "--json"))["accounts"]
    expected = {"population": "riders", "releases": "2", "not_dp": "0", "spent": "0.7"}
    limits = {"left": "2.3", "ceiling": "3", "per_month": "none", "month_left": "none"}
    assert account == {**expected, **limits}
    assert json.loads(home_of_rides.command("budget", "census", "--json"))["accounts"] == []
    shown = home_of_rides.command("budget", "rides")
    assert shown == home_of_rides.command("budget", "show")
    assert "a month: the limit of each calendar month (UTC), its rest: what is left of" in shown
    assert "How to read it" not in home_of_rides.command("budget", "census")


def test_a_run_says_what_was_released_and_where_the_report_is(home_of_rides: Project):
    output = home_of_rides.command("run", "rides", "--epsilon", "5e-1", "--epsilon", "0.50")
    (row,) = [line.split() for line in output.splitlines() if line.startswith(" dpqt_kmeans")]
    assert [*row[:2], *row[-3:]] == ["dpqt_kmeans", "0.5", "0.55", "0", "replayed"]
    assert "charged by this run: 0\n" in output
    report = Path(output.splitlines()[-1].removeprefix("report: "))
    assert report == home_of_rides.home.reports / "rides.html"
    assert report.is_file()


def test_the_demo_runs_its_data_sets_in_order_and_prints_each(project: Project, monkeypatch):
    project.declare("plants", COLOURED)
    project.declare("rides", RIDES)
    for name, value in project.environment.items():
        monkeypatch.setenv(name, value)
    patients.declare(project, patients.WARD)
    monkeypatch.setattr(run, "DEMO", ("plants", "rides"))
    monkeypatch.setattr(run, "DEMO_ANONYMOUS", {"patients": "2"})
    monkeypatch.setattr(instance, "dagster_instance", lambda _: nullcontext(project.instance))
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 0
    steps = [line.partition(":")[0] for line in result.stderr.splitlines()]
    assert list(dict.fromkeys(steps)) == ["plants", "rides", "patients"]
    assert result.stdout.count("How to read it: ") == 1, "of the first table"
    assert re.findall("charged by this run: (.*)", result.stdout) == ["0.5", "0.7"]
    pages = ("plants.html", "rides.html", "patients.k_anonymous.html")
    places = [result.stdout.index(page) for page in pages]
    assert places == sorted(places)
    assert "This is not differential privacy" in result.stdout
    again = CliRunner().invoke(main, ["demo", "--json", "--quiet"])
    assert (again.exit_code, again.stderr) == (0, "")
    document = json.loads(again.stdout)
    assert [finished["charged"] for finished in document["runs"]] == ["0", "0"]
    (anonymous,) = document["k_anonymous"]
    assert (anonymous["dataset"], anonymous["guarantee"]) == ("patients", "not-dp")
    (table,) = anonymous["releases"]
    assert table["smallest"] >= table["k"] == 2
    assert Path(table["card"]).is_file()


def test_columns_of_numbers_are_aligned_to_the_right(capsys):
    numbers = ["1", "1,230", "12.3 ± 0.4", "(2.35 ± 0.04)×10⁶", "1.23×10⁻⁵", "n/a", "–", ""]
    print_table("Numbers", ["n", "words"], [[number, "one 2"] for number in numbers])
    lines = capsys.readouterr().out.splitlines()
    cells = [line.partition("   one")[0] for line in lines if "one 2" in line]
    widest = max(map(len, numbers))
    assert cells == [" " + number.rjust(widest) for number in numbers]


@pytest.mark.parametrize("variable", ["DP_PIPELINE_HOME", "DAGSTER_HOME"])
def test_a_home_that_cannot_be_a_folder_is_refused(variable: str, project: Project):
    project.declare("rides", RIDES)
    home = str(project.datasets / "rides.csv")
    assert_refused(project.cli("run", "rides", **{variable: home}), 1, "cannot be used")
    assert_nothing_left(project, "rides")


@pytest.mark.parametrize("dagster", ["", "somewhere/dagster"])
def test_dagsters_home_may_be_unset_or_relative(dagster: str, project: Project):
    project.declare("plants", COLOURED)
    result = project.cli("run", "plants", DAGSTER_HOME=dagster)
    assert result.code == 0, result.err
    assert (project.folder / (dagster or ".dagster_home") / "history").is_dir()


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"x" * 9000])
def test_a_corrupted_ledger_stops_every_command(content: bytes, project: Project):
    project.declare("rides", RIDES)
    ledger = project.home.root / "ledger" / "ledger.sqlite"
    ledger.parent.mkdir(parents=True)
    ledger.write_bytes(content)
    for command in (["run", "rides"], ["plan", "rides"], ["budget"], ["budget", "--json"]):
        assert_refused(project.cli_here(*command), 1, "ledger")
    assert ledger.read_bytes() == content
    assert not project.home.raw.exists()


def test_an_edited_or_lost_ledger_is_no_empty_budget(project: Project):
    open_population(project.declare("rides", RIDES), project.home)
    project.spend("0.1")
    path = project.home.root / "ledger" / "ledger.sqlite"
    content = path.read_bytes()
    assert b"earlier releases" in content
    path.write_bytes(content.replace(b"earlier releases", b"earlier RELEASES"))
    assert_refused(project.cli_here("budget", "--json"), 1, "does not match its hash")
    path.unlink()
    for command in ("run", "plan"):
        lost = "is lost, but its keys are here: put back a copy"
        assert_refused(project.cli_here(command, "rides"), 1, lost)


def replace_table(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


TIMES = pa.array([0] * 50, pa.timestamp("s"))
DAMAGES: dict[str, Callable[[Path], object]] = {
    "no file": Path.unlink,
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a column less": lambda path: replace_table(path, lambda rows: rows.drop_columns(["y"])),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:500]),
    "no Parquet": lambda path: path.write_text(f"{SECRET},{SECRET}\n" * 99),
    "times": lambda path: replace_table(path, lambda rows: rows.set_column(2, "y", TIMES)),
}


@pytest.mark.parametrize(
    ("damage", "purpose"),
    [*((damage, "release") for damage in DAMAGES), ("a column less", "benchmark")],
)
def test_an_unreadable_source_leaves_one_line_and_no_snapshot(damage, purpose, project: Project):
    ceiling = RIDES["ceiling"] if purpose == "release" else None
    base = {**RIDES, "evaluation": None, "purpose": purpose, "ceiling": ceiling}
    project.datasets.mkdir()
    path = project.datasets / "rides.parquet"
    columns = {"rider": [SECRET] * 50, "x": [1.0] * 50, "y": [float(SECRET)] * 50}
    pq.write_table(pa.table(columns), path)
    DAMAGES[damage](path)
    project.declare("rides", base, source={"kind": "parquet", "path": path.name})
    result = project.cli_here("run", "rides")
    assert_refused(result, 1, "rides: parquet:", "expected")
    assert_kept_secret(project, result)
    assert_nothing_left(project, "rides")


@pytest.mark.parametrize(
    ("row", "expectation"),
    [
        (f"1,1,{SECRET}", "levels__colour"),
        ("nan,1,red", "present__height"),
        (f"x{SECRET},1,red", "present__height"),
        (f"{SECRET},1,red", "bounds__height"),
        ("", "has_rows"),
    ],
)
def test_a_broken_row_of_a_benchmark_names_the_expectation(row, expectation, project: Project):
    project.declare("plants", COLOURED, on_invalid="drop")
    head, *rows = ROWS["plants"]
    project.write_rows("plants.csv", [head, *rows, row] if row else [head])
    result = project.cli_here("run", "plants")
    assert_refused(result, 1, "plants: the snapshot is not as declared", expectation)
    assert_kept_secret(project, result)
    assert not project.home.released.exists()
    assert project.ledger.balance("garden").spent == 0


def test_a_refused_benchmark_needs_a_new_snapshot(project: Project):
    project.declare("plants", COLOURED, on_invalid="drop")
    project.write_rows("plants.csv", [*ROWS["plants"], f"1,1,{SECRET}"])
    assert_refused(project.cli_here("run", "plants"), 1, "levels__colour")
    project.write_rows("plants.csv", ROWS["plants"])
    assert_refused(project.cli_here("run", "plants"), 1, "levels__colour")
    assert project.cli_here("run", "plants", "--snapshot", "mended").code == 0


def shape(text: str) -> str:
    """Output without what follows from noise: numbers, however they are written, and the warning
    that more rows than noise explains were left out, which comes by chance here."""
    without = re.sub(r"^warning: .* Left out: .*\n", "", text, flags=re.MULTILINE)
    without = re.sub(r"-?\d[\d,]*(\.\d+)?(e[+-]\d+)?", "0", without)
    without = re.sub(r"\(0 ± 0\)×0[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", "0 ± 0", without)
    return re.sub(r"─+", "─", re.sub(r" +", " ", without))


ODD_ROWS: dict[str, tuple[str, ...]] = {
    "good rows": ROWS["homes"][1:],
    "rows that break every rule": (
        *(f"1,1,{SECRET}", "nan,1,owner", f"x{SECRET},1,owner", f"{SECRET},{SECRET},owner"),
        *(",,", f"1,{SECRET}", f'1,"{SECRET}'),
    ),
    "no row": (),
}


def test_rows_of_a_release_change_no_shape_of_the_output(project: Project):
    """Of stdout; and stderr, which lands in logs and mails, says nothing."""
    waits = {}
    for name, rows in ODD_ROWS.items():
        variant = Project(project.folder / name)
        models = {"eug_kmeans": {"k": "3", "nominal_rows": "9"}}
        variant.declare("homes", HOMES, models=models, evaluation={"epsilon": "0.5"})
        variant.write_rows("homes.csv", [ROWS["homes"][0], *rows])
        waits[variant] = variant.begin_cli("run", "homes")
    shapes = set()
    for variant, wait in waits.items():
        result = wait()
        assert (result.code, result.err) == (0, ""), variant
        shapes.add(shape(result.out.replace(variant.folder.name, "")))
        assert_kept_secret(variant, result)
        assert variant.ledger.balance("town").spent == 1.5
    assert len(shapes) == 1, shapes


def test_a_failed_new_snapshot_leaves_the_old_one_in_place(home_of_rides: Project):
    before = home_of_rides.files("raw", "released")
    rows = home_of_rides.datasets / "rides.csv"
    content = rows.read_text()
    try:
        rows.write_text(f"rider,x\n{SECRET},1\n")
        result = home_of_rides.cli("run", "rides", "--snapshot", "broken")
    finally:
        rows.write_text(content)
    assert_refused(result, 1, "expected a column 'y'")
    assert_kept_secret(home_of_rides, result)
    assert home_of_rides.files("raw", "released") == before
    assert home_of_rides.cli("run", "rides").code == 0
