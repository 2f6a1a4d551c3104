"""A reader has a folder and a light installation: no home, no pipeline, no ε."""

import json
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from dp_pipeline.answers.tables import open_table
from dp_pipeline.cli import main
from dp_pipeline.config.clock import Clock
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.export.opening import open_release
from dp_pipeline.export.tables import FORMATS
from dp_pipeline_tests.export.samples import exported, map_release, table_release
from dp_pipeline_tests.test_architecture import ROOT, run_code

BLOCKED = (
    "dagster great_expectations sklearn sqlalchemy opendp networkx matplotlib jinja2 PIL pyarrow "
    "pandas threadpoolctl urllib3 dp_pipeline.raw dp_pipeline.gate dp_pipeline.models "
    "dp_pipeline.releases dp_pipeline.orchestration"
)
PROGRAM = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in {set(BLOCKED.split())}:
            raise ImportError(f"a reader needs no {{name}}")

sys.meta_path.insert(0, Blocked())
from dp_pipeline.cli import main
main"""


@pytest.mark.chain
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["verify", "table"], " checks, none "),
        (["ask", "table", "count where Age < 30 and Kind = '=1+1'"], "95% intervals"),
        (["ask", "table", "mean Age"], "95% intervals"),
        (["verify", "map"], " checks, none "),
    ],
)
def test_a_folder_is_read_without_the_pipeline(arguments, words: str, tmp_path: Path) -> None:
    exported(tmp_path / "table", table_release())
    exported(tmp_path / "map", map_release())
    result = run_code(f"{PROGRAM}({arguments})", tmp_path, PYTHONPATH=str(ROOT))
    assert (result.returncode, result.stderr) == (0, "")
    assert words in result.stdout


def test_another_home_gives_the_same_intervals(tmp_path: Path) -> None:
    answers = set()
    for home in ("first", "second"):
        (tmp_path / home).mkdir()
        folder = exported(tmp_path / home / "table", table_release())
        question = ["ask", str(folder), "table Age Kind", "--json"]
        result = CliRunner().invoke(main, question, env={"DP_PIPELINE_HOME": str(tmp_path / home)})
        assert result.exit_code == 0
        answers.add(result.stdout)
        assert [path.name for path in (tmp_path / home).iterdir()] == ["table"]
    assert len(answers) == 1


@pytest.mark.parametrize("ending", FORMATS)
def test_dates_in_a_format_are_asked_for_as_dates(ending: str, tmp_path: Path) -> None:
    """Two of the four people left in each half of the hundred days since 1970-01-01."""
    release = open_release(exported(tmp_path / "table", table_release(), ending))
    for where in (
        "Left >= '1970-02-20'",
        "Left = '[1970-02-20, 1970-04-10]'",
        "Left not in ('[1970-01-01, 1970-02-20)', 'missing')",
    ):
        assert release.share(where).value == 0.5
    assert 0 < release.mean("Left").value < 100
    assert 50 <= release.quantile("Left", 1).value < 100
    for text in "20.02.1970", "1970-02", "99", "today":
        with pytest.raises(DeclarationError, match=r"compares \w+, a column of dates, with"):
            release.count(f"Left >= '{text}'")
    (rows,) = release.replicates(1, seed=1)
    assert rows["Left"].str.fullmatch(r"\d\d\.\d\d\.1970").all()


@pytest.mark.parametrize("question", ["mean Left", "quantile 0.5 of Left", "mean Left by Kind"])
def test_means_and_quantiles_of_dates_are_dates(question: str, tmp_path: Path) -> None:
    folder = exported(tmp_path / "table", table_release())
    result = CliRunner().invoke(main, ["ask", str(folder), question, "--json"])
    for line in json.loads(result.stdout)["answers"]:
        low, value, high = (date.fromisoformat(line[name]) for name in ("low", "value", "high"))
        assert low <= value <= high
        assert value.year == 1970
    shown = CliRunner().invoke(main, ["ask", str(folder), question]).stdout
    assert line["value"] in shown


def test_dates_in_a_format_are_read_where_they_are_asked_for() -> None:
    """A million different times would take half a minute."""
    release = open_table(table_release().bundle.tables, {"Left": Clock("date", format="%Y-%m-%d")})
    assert release.count("Age >= 30").value == 1
    with pytest.raises(Damaged, match="column Left must hold dates as %Y-%m-%d, but one is not"):
        release.mean("Left")
