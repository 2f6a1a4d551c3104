"""Children in which one promise is broken, and which end by SIGKILL at the worst moment."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from dp_pipeline.config.parser import load_spec
from dp_pipeline.ledger import Charge, Ledger
from dp_pipeline.releases import publish as publishing
from dp_pipeline.releases import store
from dp_pipeline.releases.publish import publish
from dp_pipeline.results.bundle import Bundle
from dp_pipeline_tests.orchestration.faults import die
from dp_pipeline_tests.orchestration.projects import Project


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
