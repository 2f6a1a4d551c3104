"""The data set of the stack's tests: homes of a made-up city, ten models at six ε."""

from collections.abc import Iterator

import numpy as np

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.raw.snapshot import stages_of
from dp_pipeline_tests.orchestration.projects import Declaration, Project

_TENURES = ("owner", "renter", "other")
_PLACES = ("eug_kmeans", "dpqt_kmeans", "dplloyd", "privtree_kmeans")
_TABLES = ("independent", "one_shot", "privbayes", "jtree", "mst", "priview")
CITY: Declaration = {
    "description": "Rooms, rent, age, size and tenure of the homes of a made-up city.",
    "population": "city",
    "purpose": "release",
    "protection": {"unit": "one_row"},
    "ceiling": {"total": "1000"},
    "source": {"kind": "csv", "path": "city.csv"},
    "attributes": {
        "rooms": {"bounds": ["0", "8"], "bins": "8"},
        "rent": {"bounds": ["0", "3000"], "bins": "8"},
        "age": {"bounds": ["0", "100"], "bins": "8"},
        "size": {"bounds": ["0", "200"], "bins": "8"},
        "tenure": {"levels": list(_TENURES), "other": "other"},
    },
    "nominal_rows": "5000",
    "partitions": ["0.1", "0.2", "0.4", "0.5", "0.8", "1"],
    "models": {**{name: {"k": "4"} for name in _PLACES}, **{name: {} for name in _TABLES}},
    "publish": {"model": "one_shot", "epsilon": "0.5"},
    "evaluation": {"epsilon": "0.05"},
}
"""Half of the time of a run goes by while something is reserved and not settled yet."""


def declare_city(project: Project, **changes: object) -> DatasetSpec:
    project.write_declaration("city", CITY)
    project.write_rows("city.csv", _homes())
    return project.declare("city", CITY, **changes)


def prepare(project: Project, spec: DatasetSpec, snapshot: str) -> None:
    """A new snapshot, ready for releases: each of them has to be paid again."""
    assert project.launch(spec, "ingested", config={"snapshot": snapshot}).success
    assert project.launch(spec, "validated", *stages_of(spec)).success


def _homes(rows: int = 5000) -> Iterator[str]:
    random = np.random.default_rng(11)
    yield "rooms,rent,age,size,tenure"
    numbers = random.integers((1, 0, 18, 20, 0), (9, 3001, 91, 201, 3), size=(rows, 5))
    for rooms, rent, age, size, tenure in numbers.tolist():
        yield f"{rooms},{rent},{age},{size},{_TENURES[tenure]}"
