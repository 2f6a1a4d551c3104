import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.raw import ingest
from dp_pipeline_tests.orchestration.faults import stopped
from dp_pipeline_tests.orchestration.kinds import KINDS, Case
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import start_server

QUICK = (
    *("asset_pages", "existing_project", "golden_keys", "histories_of_a_home", "other_code"),
    *("rehearsal", "sensors", "storage", "system_failures"),
)
"""Files that run no chain, but in the tests that say so themselves."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of all other files as chains, before marks decide what is run."""
    for item in items:
        is_here = item.path.parent == Path(__file__).parent
        if is_here and item.path.stem.removeprefix("test_") not in QUICK:
            item.add_marker(pytest.mark.chain)


@pytest.fixture(scope="session", autouse=True)
def warm_server() -> None:
    """Its imports run beside the first tests."""
    start_server()


@pytest.fixture(scope="module", autouse=True)
def quick_chains(forgotten_disk: None, blank_pictures: None) -> None:
    """Every test here runs a chain or a part of one."""


@pytest.fixture(scope="session", autouse=True)
def november() -> Iterator[None]:
    """All weeks of the tests are over."""
    moment = int(datetime(2026, 11, 23, tzinfo=UTC).timestamp())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "now", lambda: moment)
        yield


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="session")
def prepared_rides(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """RIDES with rows read, validated and prepared; to be copied, not used."""
    project = Project(tmp_path_factory.mktemp("rides"))
    spec = project.declare("rides", RIDES)
    assert project.launch(spec, "ingested", "validated", "normalized").success
    return project


@pytest.fixture
def rides(prepared_rides: Project, tmp_path: Path) -> Project:
    """A project of its own with RIDES prepared and nothing released."""
    return copied(prepared_rides, tmp_path / "rides")


@pytest.fixture
def spec(rides: Project) -> DatasetSpec:
    return rides.declare("rides", RIDES)


@pytest.fixture
def transcript(rides: Project, spec: DatasetSpec) -> Path:
    """The transcript of a release of these rides that was stopped after two answers."""
    with stopped(2):
        rides.publish(spec)
    (transcript,) = rides.home.released.rglob("transcript.jsonl")
    return transcript


@pytest.fixture(scope="session")
def ran_rides(prepared_rides: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """RIDES with the whole chain run at ε = 0.5; to be copied, not used."""
    project = copied(prepared_rides, tmp_path_factory.mktemp("ran") / "rides")
    project.run(project.declare("rides", RIDES), epsilons=["0.5"])
    return project


@pytest.fixture
def released_rides(ran_rides: Project, tmp_path: Path) -> Project:
    """A project of its own with RIDES released at ε = 0.5; Dagster has forgotten how."""
    return copied(ran_rides, tmp_path / "rides")


@pytest.fixture
def released_spec(released_rides: Project) -> DatasetSpec:
    return released_rides.declare("rides", RIDES)


def copied(project: Project, folder: Path) -> Project:
    shutil.copytree(project.folder, folder)
    return Project(folder)


@pytest.fixture(scope="session")
def prepared_kinds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Project]:
    """A project with the rows of one kind of release; to be copied, not used."""

    @cache
    def prepared(name: str) -> Project:
        project = Project(tmp_path_factory.mktemp(name.replace(" ", "_")))
        KINDS[name].prepare(project)
        return project

    return prepared


@pytest.fixture(params=KINDS)
def case(
    request: pytest.FixtureRequest, prepared_kinds: Callable[[str], Project], tmp_path: Path
) -> Case:
    """Each kind of release, with its rows prepared and nothing of it released."""
    return Case(request.param, copied(prepared_kinds(request.param), tmp_path / "case"))


@pytest.fixture(scope="session")
def settled_kinds(
    prepared_kinds: Callable[[str], Project], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Project]:
    """The same with one release of it settled; to be copied, not used."""

    @cache
    def settled(name: str) -> Project:
        folder = tmp_path_factory.mktemp("settled") / name.replace(" ", "_")
        project = copied(prepared_kinds(name), folder)
        Case(name, project).publish()
        return project

    return settled


@pytest.fixture(params=KINDS)
def settled(
    request: pytest.FixtureRequest, settled_kinds: Callable[[str], Project], tmp_path: Path
) -> Case:
    """Each kind of release, of which one is settled."""
    return Case(request.param, copied(settled_kinds(request.param), tmp_path / "case"))
