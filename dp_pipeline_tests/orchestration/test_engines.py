"""Where rows are prepared and counted is a setting of a place: it changes no byte of a release."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dp_pipeline.raw.stages import store_parts
from dp_pipeline.releases.home import ENGINE_VARIABLE
from dp_pipeline_tests.orchestration.conftest import copied
from dp_pipeline_tests.orchestration.projects import Declaration, Project
from dp_pipeline_tests.raw.conftest import require_engine

pytestmark = pytest.mark.chain

WALKS: Declaration = {
    "description": "Walks of one village: public.",
    "population": "walkers",
    "purpose": "benchmark",
    "protection": {"unit": "rows_of_person", "column": "walker", "at_most": "2"},
    "source": {"kind": "csv", "path": "walks.csv"},
    "usable": "0.8",
    "attributes": {
        "x": {"bounds": ["0", "8"], "bins": "4"},
        "y": {"bounds": ["0", "4"], "bins": "2"},
        "dog": {"levels": ["yes", "no"]},
    },
    "partitions": ["1"],
    "models": {
        "one_shot": {},
        "privhd": {},
        "independent": {},
        "htree_kmeans": {"k": "3"},
        "dplloyd": {"k": "3", "nominal_rows": "60"},
    },
}
LINES = [
    "walker,x,y,dog",
    *(
        f"{'' if at % 13 == 0 else at % 17},{at * 7 % 80 / 10},{at * 3 % 40 / 10},"
        f"{'yes' if at % 3 else 'no'}"
        for at in range(60)
    ),
]


@pytest.fixture(scope="module")
def ingested_walks(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Rows that are read and nothing more, so that all engines begin with the same."""
    project = Project(tmp_path_factory.mktemp("walks"))
    project.datasets.mkdir()
    project.write_rows("walks.csv", LINES)
    with small_batches():
        assert project.launch(project.declare("walks", WALKS), "ingested").success
    return project


@contextmanager
def small_batches() -> Iterator[pytest.MonkeyPatch]:
    """Row groups of seven rows: one batch alone would be sent to no worker."""
    assert store_parts.__kwdefaults__ is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(store_parts.__kwdefaults__, "rows", 7)
        yield patch


def released(begun: Project, folder: Path, engine: str) -> dict[str, bytes]:
    """Every prepared table and every bundle of a project that goes on with an engine."""
    project = copied(begun, folder / engine)
    spec = project.declare("walks", WALKS)
    with small_batches() as patch:
        patch.setenv(ENGINE_VARIABLE, engine)
        assert project.launch(spec, "validated", "normalized", "discretized").success
        for model in spec.models:
            project.publish(spec, model=model, epsilon="1", noise="seeded:7")
    stored_endings = (".parquet", "bundle.json", ".npz", ".npy")
    return {path: text for path, text in project.files().items() if path.endswith(stored_endings)}


def test_a_home_on_any_engine_holds_the_same_bytes(ingested_walks: Project, tmp_path: Path):
    here = released(ingested_walks, tmp_path, "memory")
    assert sum(path.endswith("bundle.json") for path in here) == len(WALKS["models"])
    for engine in ("stream", "dask", "spark"):
        require_engine(engine)
        assert released(ingested_walks, tmp_path, engine) == here
