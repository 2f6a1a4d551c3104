"""What watches the kills would see it if a promise were broken."""

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.parser import load_spec
from dp_pipeline.ledger import Charge, Ledger
from dp_pipeline.releases import publish as publishing
from dp_pipeline.releases import store
from dp_pipeline.releases.publish import publish
from dp_pipeline.results.bundle import Bundle
from dp_pipeline_tests.orchestration.faults import die
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import ended, start, start_server
from dp_pipeline_tests.stack.accounts import (
    reading,
    replay_everything,
    require_nothing_uncounted,
    require_paid_once,
)
from dp_pipeline_tests.stack.city import prepare

# In processes that are killed.
pytestmark = pytest.mark.chain


@pytest.fixture(scope="module", autouse=True)
def warm_server() -> None:
    start_server()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("prepared"))
    prepare(project, project.declare("rides", RIDES), "first")
    return project


@pytest.fixture
def project(prepared: Project, tmp_path: Path) -> Project:
    shutil.copytree(prepared.folder, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path)


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    return project.declare("rides", RIDES)


def killed(project: Project, work: Callable[[Path], None]) -> None:
    words = project.folder / "words"
    words.mkdir()
    result = ended(start(words, work, project.folder), words)
    assert result.code == -signal.SIGKILL, result.err


def release_everything(project: Project, spec: DatasetSpec) -> None:
    for epsilon in spec.partition_keys:
        project.publish(spec, epsilon=epsilon)


def test_store_that_writes_in_place_shows_a_broken_bundle(project: Project):
    with reading(project.home.released) as reader:
        killed(project, publish_in_place)
    assert "not as it was stored" in reader.broken[0]


def test_ledger_that_reserves_late_is_seen_to_under_count(project: Project, spec: DatasetSpec):
    killed(project, publish_before_paying)
    assert project.spent(spec) == 0
    with pytest.raises(AssertionError, match="drawn and not paid"):
        require_nothing_uncounted(project, spec)


def test_a_bundle_that_changes_after_it_was_read_is_seen(project: Project, spec: DatasetSpec):
    with reading(project.home.released) as reader:
        release_everything(project, spec)
        reader.look()
        path = next(iter(reader.texts)) / "bundle.json"
        path.write_text(path.read_text().replace('"model": "dpqt', '"model": "eug'))
    assert any("not what it was" in words for words in reader.broken)


def test_a_release_that_is_paid_twice_is_seen(project: Project, spec: DatasetSpec):
    release_everything(project, spec)
    require_paid_once(project, spec, snapshots=1)
    replay_everything(project, spec)
    project.publish(spec, new_draw=True)
    with pytest.raises(AssertionError):
        require_paid_once(project, spec, snapshots=1)


def test_a_release_that_is_not_there_yet_is_no_replay(project: Project, spec: DatasetSpec):
    project.publish(spec)
    with pytest.raises(AssertionError, match="at ε=1/10"):
        replay_everything(project, spec)


def publish_in_place(folder: Path) -> None:
    """The store writes a bundle where it shall lie, and there is no process after a table."""

    def write(_: store.BundleStore, path: Path, bundle: Bundle, **__: bytes) -> None:
        path.mkdir(parents=True)
        for name, table in bundle.tables.items():
            store._write_table(path / f"{name}.parquet", table)
            die()

    store.BundleStore.write = write  # type: ignore[method-assign]
    _publish(folder)


def publish_before_paying(folder: Path) -> None:
    """The ledger reserves after the block that draws, and there is no process before that."""

    @contextmanager
    def reserve(_: Ledger, charge: Charge) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(state="new", charge=charge, settle=die)

    Ledger.reserve = reserve  # type: ignore[method-assign, assignment]
    publishing.require_reserved_parameters = lambda *_: None  # type: ignore[assignment]
    _publish(folder)


def _publish(folder: Path) -> None:
    project = Project(folder)
    publish(project.release(load_spec(project.datasets / "rides.yaml")))
