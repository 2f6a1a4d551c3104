"""What README.md tells a newcomer to do works as it stands there, and `make` says what it does."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dp_pipeline.models import MODELS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_fits_one_screen_of_a_reader() -> None:
    assert len(README.split()) <= 900


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


@pytest.mark.skipif(shutil.which("make") is None, reason="expected make, got none")
def test_an_installation_says_first_what_it_installs():
    words = ["make", "--dry-run", "--always-make", "--no-print-directory", ".venv/ready"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    first, *others = done.stdout.splitlines()
    assert first.startswith('echo "Installing the packages that constraints.txt names into .venv')
    assert "a minute or two" in first
    assert others[0] == "python3 -m venv .venv"
