"""Whatever the umask says, nobody but its owner opens what the pipeline writes."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dp_pipeline.orchestration.instance import dagster_instance, make_dagster_home
from dp_pipeline.releases.home import Home
from dp_pipeline.reporting.pages import write_report
from dp_pipeline_tests.orchestration.kinds import Case
from dp_pipeline_tests.orchestration.projects import HOMES, Project
from dp_pipeline_tests.orchestration.warm import ended, start
from dp_pipeline_tests.reporting.samples import spec as squares

OTHERS = 0o077


@pytest.fixture(params=[0o000, 0o022], ids=["all may do all", "all may read"], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture(autouse=True)
def environment(monkeypatch) -> None:
    for name in ("DAGSTER_HOME", "DP_PIPELINE_DAGSTER"):
        monkeypatch.setenv(name, "")


def opened(*folders: Path) -> set[str]:
    assert all(folder.is_dir() for folder in folders)
    below = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    return {str(path) for path in below if stat.S_IMODE(path.lstat().st_mode) & OTHERS}


@pytest.mark.parametrize("case", ["clustering", "k-anonymous"], indirect=True)
def test_a_release_without_dagster_opens_nothing(case: Case, umask: int):
    os.umask(umask)
    published, home = case.publish(), case.project.home
    assert len(list(published.folder.iterdir())) > 2
    assert opened(home.released, home.raw, home.ledger_folder) == set()


@pytest.mark.parametrize("umask", [0], indirect=True)
def test_the_whole_chain_and_dagsters_own_home_open_nothing(project: Project, umask: int):
    spec = project.declare("homes", HOMES, models={"independent": {}})
    os.umask(umask)
    child = start(project.folder, run_all, project.folder)
    assert ended(child, project.folder).code == 0
    assert opened(project.home.root, project.folder / ".dagster_home") == set()
    written = {path.suffix for path in project.folder.rglob("*")}
    assert {".db", ".parquet", ".jsonl", ".html", ".md", ".json", ".yaml"} <= written
    assert spec.name in {path.name for path in project.home.released.iterdir()}


def run_all(folder: Path) -> None:
    """The chain over Dagster's own storage; to be started in a child."""
    os.environ.update(DAGSTER_HOME="", DP_PIPELINE_DAGSTER="")
    from dp_pipeline.orchestration.runner import execute

    project = Project(folder)
    project.datasets.chmod(0o755)
    spec = project.declare("homes", HOMES, models={"independent": {}})
    execute(project.request(spec), lambda _: None)


def test_folders_that_were_opened_are_closed(tmp_path: Path):
    home = Home(tmp_path / "data")
    folders = [*home.folders, tmp_path / ".dagster_home"]
    for folder in folders:
        folder.mkdir(mode=0o755, parents=True)
        folder.chmod(0o755)
    make_dagster_home(home)
    assert opened(*folders) == set()


def test_folder_named_for_dagster_stays_open_or_is_made_closed(tmp_path: Path, monkeypatch):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o750)
    monkeypatch.setenv("DAGSTER_HOME", str(theirs))
    make_dagster_home(Home(tmp_path / "data"))
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o750
    assert opened(*(path for path in theirs.iterdir() if path.is_dir())) == set()
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "a" / "b"))
    with dagster_instance(Home(tmp_path / "data")):
        pass
    assert opened(tmp_path / "a") == set()


def load_definitions(folder: Path) -> None:
    os.environ["DP_PIPELINE_HOME"] = str(folder.parent / "data")
    os.environ["DP_PIPELINE_SHOWN"] = "wdbc"
    import dp_pipeline.definitions

    assert dp_pipeline.definitions.defs
    folder.mkdir()


def a_page(folder: Path) -> None:
    write_report(folder / "page.html", level="epsilon", spec=squares(), releases=[])


@pytest.mark.parametrize("work", [load_definitions, a_page])
def test_what_a_process_of_dagster_writes_is_for_its_owner(work, tmp_path: Path):
    child = start(tmp_path, work, tmp_path / "written")
    assert ended(child, tmp_path).code == 0
    assert opened(tmp_path / "written") == set()
