"""The project in examples/city, by Dagster's own commands, executor and processes."""

import json
import os
import shutil
import stat
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.releases.home import Home
from dp_pipeline_tests.orchestration.warm import OURS

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/city"

# One process imports what all steps need, and they are forked from it: as the page recommends.
PRELOADED = {"preload_modules": ["dp_pipeline.dagster", "sklearn.cluster"]}
FORKED = {"start_method": {"forkserver": PRELOADED}}
EXECUTION = {"execution": {"config": {"multiprocess": FORKED}}}


@pytest.fixture
def city(tmp_path: Path) -> Path:
    folder = tmp_path / "city"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "data"))
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster/dagster.yaml").write_text("telemetry: {enabled: false}\n")
    return folder


def run_in(city: Path, *command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A command in the example's folder, its package on the path as installed."""
    outer = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
    outer["PYTHONPATH"] = os.pathsep.join((str(city / "src"), str(ROOT)))
    outer["DAGSTER_HOME"] = str(city.parent / "dagster")
    options = {"capture_output": True, "text": True, "umask": 0o022}
    return subprocess.run(command, check=False, cwd=city, env={**outer, **settings}, **options)


def dagster(city: Path, *words: str) -> str:
    """Everything that one of Dagster's commands says, which has to end well."""
    done = run_in(city, sys.executable, "-m", "dagster", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def require_charged(city: Path) -> None:
    ledger = Home(city / "data").ledger
    assert ledger.balance("city_riders").spent == Fraction("0.5")
    ledger.verify()


SELECTED = 'group:"rides_1_raw" or key:"rides/dpqt_kmeans"'
"""The rows read and prepared, and a model."""


def test_the_example_loads_and_a_release_of_it_is_charged(city: Path):
    loaded = dagster(city, "definitions", "validate")
    assert "All code locations passed validation" in loaded
    assert not (city / "data").exists()
    words = ("--module-name", "city.definitions", "--partition", "0.5", "--select", SELECTED)
    config = ("--config-json", json.dumps(EXECUTION))
    assert "multiprocess executor" in dagster(city, "asset", "materialize", *words, *config)
    require_charged(city)
    written = [city / "data", *(city / "data").rglob("*")]
    assert [path for path in written if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


DG = "DP_PIPELINE_DG"


@pytest.fixture
def dg_command() -> str:
    """Dagster's `dg`, of an environment that has this package too."""
    program = os.environ.get(DG) or shutil.which("dg")
    if program is None:
        pytest.skip(f"expected dg on the PATH (pip install dagster-dg-cli) or {DG}, got neither")
    return program


def run_dg(city: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(Path(program).parent), os.environ["PATH"]))
    done = run_in(city, program, *words, PATH=path, DG_CLI_DISABLE_TELEMETRY="1")
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def require_listed(city: Path, command: str) -> None:
    """Both commands that only load: they find every asset and make no home."""
    checked = run_dg(city, command, "check", "defs")
    listed = run_dg(city, command, "list", "defs", "--json")
    assert "All definitions loaded successfully." in checked.stdout + checked.stderr
    for key in ("rain", "open_data_page", "rides/ingested", "rides/dpqt_kmeans", "rides/budget"):
        assert f'"{key}"' in listed.stdout
    assert not (city / "data").exists()


COMPONENT = """\
type: dp_pipeline.dagster.DataSets
attributes:
  files: [rides.yaml]
  home: "{{ context.project_root }}/data"
"""
"""The defs.yaml of docs/existing_dagster_project.md."""

IN_PROCESS = {"execution": {"config": {"in_process": {}}}}
"""All steps in the process of the command, which has imported everything."""


def test_a_component_of_the_page_is_loaded_and_launched_by_dg(city: Path, dg_command: str):
    page = (ROOT / "docs/existing_dagster_project.md").read_text(encoding="utf-8")
    assert COMPONENT in page
    (city / "src/city/defs/rides.py").unlink()
    (city / "src/city/data_sets").rename(city / "src/city/defs/rides")
    (city / "src/city/defs/rides/defs.yaml").write_text(COMPONENT, encoding="utf-8")
    require_listed(city, dg_command)
    assert f"dg launch --assets '{SELECTED}' --partition 0.5" in page
    words = ("launch", "--assets", SELECTED, "--partition", "0.5")
    run_dg(city, dg_command, *words, "--config-json", json.dumps(IN_PROCESS))
    require_charged(city)


@pytest.mark.stack
def test_job_of_page_is_executed_with_epsilon_in_its_tag(city: Path):
    page = (ROOT / "docs/existing_dagster_project.md").read_text(encoding="utf-8")
    job, tags = "rides_epsilon_backfill", '{"dagster/partition": "0.5"}'
    assert f"dagster job execute -f definitions.py -j {job} --tags '{tags}'\n" in page
    dagster(city, "job", "execute", "-f", "src/city/definitions.py", "-j", job, "--tags", tags)
    require_charged(city)
