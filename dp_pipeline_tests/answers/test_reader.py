"""A reader has a folder and a light installation: no home, no pipeline, no ε."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from dp_pipeline.cli import main
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
