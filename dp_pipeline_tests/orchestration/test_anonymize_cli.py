"""`dp-pipeline anonymize` as a shell sees it, and what the other commands say of such releases."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from dp_pipeline_tests.orchestration.patients import ROWS, WARD, declare
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import Result, assert_refused

pytestmark = pytest.mark.chain

SECRET = "1902107770713359"


def lines_of(result: Result) -> list[list[str]]:
    """Cells of the table's lines, split at the columns' gaps."""
    cells_by_line = (re.split(r"  +", line.strip()) for line in result.out.splitlines())
    return [cells for cells in cells_by_line if cells[0] in ("kjig", "mutual_information")]


def cards_of(result: Result) -> list[Path]:
    return [Path(path) for path in re.findall(r"^card of .*: (\S+)$", result.out, re.MULTILINE)]


def test_public_rows_are_released_by_the_first_method_at_every_k(project: Project):
    declare(project, WARD, rows=ROWS * 3)
    first = project.cli_here("anonymize", "patients")
    assert (first.code, first.err) == (0, "")
    rows = lines_of(first)
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("kjig", "2", "recorded, not-dp"),
        ("kjig", "5", "recorded, not-dp"),
    ]
    assert all(int(row[4]) >= int(row[1]) for row in rows), "smallest class"
    assert all(0 <= float(row[-2]) <= 1 for row in rows), "AUC"
    assert "This is not differential privacy" in first.out
    assert [path.name for path in cards_of(first)] == ["card.md", "card.md"]
    assert all("NOT DIFFERENTIALLY PRIVATE" in path.read_text() for path in cards_of(first))
    stored = project.files("released")
    again = project.cli_here("anonymize", "patients")
    assert [row[-1] for row in lines_of(again)] == ["replayed, not-dp"] * 2
    assert project.files("released") == stored
    (account,) = json.loads(project.cli_here("budget", "--json").out)["accounts"]
    assert (account["releases"], account["not_dp"], account["spent"]) == ("2", "2", "0")
    assert len(project.instance.get_runs()) == 1 + 3, "rows, two K and a comparison; nothing again"


def test_methods_and_k_are_chosen_by_name_or_all_at_once(project: Project):
    declare(project, WARD)
    chosen = project.cli_here("anonymize", "patients", "--method", "mutual_information", "--k", "5")
    assert [row[:2] for row in lines_of(chosen)] == [["mutual_information", "5"]]
    everything = project.cli_here("anonymize", "patients", "--all")
    assert [row[:2] for row in lines_of(everything)] == [
        [name, k] for name in ("kjig", "mutual_information") for k in ("2", "5")
    ]


def test_of_sensitive_rows_the_k_has_to_be_named(project: Project):
    declare(project)
    assert_refused(
        project.cli_here("anonymize", "patients"),
        2,
        "as tables of sensitive rows at several K together reveal more",
    )
    assert not project.home.root.exists()
    result = project.cli_here("anonymize", "patients", "--k", "2")
    assert (result.code, result.err) == (0, "")
    ((_, k, *_, auc, state),) = lines_of(result)
    assert (k, auc, state) == ("2", "–", "recorded, not-dp")
    report = (project.home.reports / "patients.html").read_text(encoding="utf-8")
    assert "ALSO RELEASED WITHOUT ε" in report
    declare(project, k_anonymity={"methods": {"kjig": {}}, "partitions": ["5"]})
    assert project.cli_here("anonymize", "patients").code == 0, "there is one K alone"


WRONG: dict[str, tuple[Sequence[str], str]] = {
    "an unknown data set": (["ward"], "There is no data set"),
    "no such section": (["rides"], "the file has no section `k_anonymity`: add it, or name"),
    "an undeclared K": (["patients", "--k", "3"], "K of a table must be one of 2, 5, not 3"),
    "no K": (["patients", "--k", "few"], "K: expected an integer"),
    "an undeclared method": (["patients", "--method", "rfka"], "the method must be one of kjig"),
    "all methods and one": (
        ["patients", "--all", "--method", "kjig"],
        "cannot be used with it: leave one out",
    ),
    "an unsafe snapshot": (
        ["patients", "--k", "2", "--snapshot", "../x"],
        "The name of a snapshot must have letters, digits",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_argument_is_refused_with_nothing_made(mistake: str, project: Project):
    declare(project)
    project.declare("rides", RIDES)
    arguments, word = WRONG[mistake]
    assert_refused(project.cli_here("anonymize", *arguments), 2, word)
    assert not project.home.root.exists()


@pytest.mark.parametrize(
    ("methods", "word"),
    [
        ({"kjigg": {}}, "the method must be one of"),
        ({"kjig": {"trees": "5"}}, "kjig: a parameter must be one of shape, not 'trees'"),
    ],
)
def test_a_wrong_method_is_named_before_anything_is_made(
    methods: dict[str, dict[str, str]], word: str, project: Project
):
    declare(project, k_anonymity={"methods": methods})
    for command in (["run"], ["plan"], ["anonymize", "--k", "2"]):
        assert_refused(project.cli_here(*command, "patients"), 2, word)
    assert_refused(project.cli_here("data", "check", "datasets/patients.yaml"), 2, word)
    assert not project.home.root.exists()


def test_too_few_rows_end_in_one_line_and_exit_code_1(project: Project):
    declare(project, rows=[*ROWS[:3], f"{SECRET},f,no"])
    failed = project.cli_here("anonymize", "patients", "--k", "5")
    assert_refused(failed, 1, "There are fewer rows than K=5")
    assert not list(project.home.released.rglob("bundle.json"))
    assert [entry.what for entry in project.ledger.not_dp_releases("ward")] == [
        "patients/k_anonymous/kjig at K=5"
    ]
    assert SECRET not in failed.err
    (account,) = json.loads(project.cli_here("budget", "--json").out)["accounts"]
    assert account["not_dp"] == "1"


def test_check_plan_and_list_say_what_is_declared(project: Project):
    declare(project)
    line = "k-anonymous, by `anonymize`, without any ε: kjig, mutual_information at K = 2, 5"
    assert line in project.cli_here("data", "check", "datasets/patients.yaml").out
    assert line in project.cli_here("plan", "patients").out
    listed = project.cli_here("data", "list").out.splitlines()[-1]
    assert re.search("also released k-anonymous by `anonymize`, without ε: .*patients", listed)
    assert not project.home.root.exists()
