"""What README.md tells a newcomer to do works as it stands there, and `make` says what it does."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dp_pipeline.cli import main
from dp_pipeline.models import MODELS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_data_set_file_of_the_readme_is_a_good_declaration(tmp_path: Path, monkeypatch) -> None:
    (text,) = re.findall(r"```yaml\n# my_data/rides.yaml\n(.*?)```", README, re.DOTALL)
    (tmp_path / "rides.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(tmp_path))
    monkeypatch.setenv("DP_PIPELINE_HOME", str(tmp_path / "home"))
    checked = CliRunner().invoke(main, ["data", "check", str(tmp_path / "rides.yaml")])
    assert checked.exit_code == 0, checked.output
    planned = CliRunner().invoke(main, ["plan", "rides"])
    assert planned.exit_code == 0, planned.output
    assert "requested 1.9, spent 0, left 4, ceiling 4" in planned.output


def test_the_readme_fits_one_screen_of_a_reader() -> None:
    assert len(README.split()) <= 900


def test_the_estimator_of_the_readme_runs_as_it_stands_there(capsys) -> None:
    block = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    names: dict[str, object] = {}
    exec(block, names)
    centres = names["model"].cluster_centers_  # type: ignore[attr-defined]
    assert centres.shape == (3, 2)
    assert ((centres > [47.3, 8.4]) & (centres < [47.5, 8.6])).all()
    assert "Spend(" in capsys.readouterr().out


def test_every_model_and_data_set_is_on_its_page() -> None:
    datasets = [path.stem for path in (ROOT / "dp_pipeline" / "datasets").glob("*.yaml")]
    for file, names in (("docs/models.md", MODELS), ("data/README.md", datasets)):
        page = (ROOT / file).read_text(encoding="utf-8")
        assert [name for name in names if f"`{name}`" not in page] == []


def test_the_page_of_keys_is_made_from_the_schema() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "docs/site/dataset_file.py"], capture_output=True, check=True
    )
    assert made.stdout == (ROOT / "docs/reference/dataset_file.md").read_bytes()


def test_every_file_that_the_readme_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target


@pytest.mark.skipif(shutil.which("make") is None, reason="expected make, got none")
def test_an_installation_says_first_what_it_installs():
    words = ["make", "--dry-run", "--always-make", "--no-print-directory", ".venv/ready"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    first, *others = done.stdout.splitlines()
    assert first.startswith('echo "Installing the packages that constraints.txt names into .venv')
    assert "a minute or two" in first
    assert others[0] == "python3 -m venv .venv"
