"""No rows, one row, fewer rows than centres: the whole chain gives a valid answer, or says why."""

import re
from collections.abc import Mapping

import dagster as dg
import numpy as np
import pytest

from dp_pipeline.cli.released import print_result
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.models import MODELS
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.orchestration.checks import PLAUSIBLE
from dp_pipeline.releases.outcome import report_path
from dp_pipeline.releases.run_result import RunResult
from dp_pipeline_tests.orchestration.events import check_results
from dp_pipeline_tests.orchestration.projects import HOMES, PLANTS, ROWS, Project

pytestmark = pytest.mark.chain

Broken = tuple[Project, DatasetSpec]
HEADER, *HOMES_ROWS = ROWS["homes"]


@pytest.mark.parametrize("rows", [1, 2])
def test_a_benchmark_with_fewer_rows_than_centres_is_evaluated(rows: int, project: Project):
    spec = project.declare("plants", PLANTS, models={"eug_kmeans": {"k": "3"}, "independent": {}})
    project.write_rows("plants.csv", ROWS["plants"][: 1 + rows])
    clusters, table = project.run(spec, epsilons=["1"])
    exact = {row.metric: row.value for row in clusters.quality}
    assert exact["nicv_floor"] == 0
    assert np.isnan(exact["nicv_ratio"])
    assert [row.metric for row in table.quality] == ["avd_2", "avd_3", "dcr"]
    for release in (clusters, table):
        path = project.home.reports / f"{spec.name}.cards" / f"{release.release.name}.1.md"
        good = path.read_text("utf-8").partition("## How good it is")[2].partition("##")[0]
        assert "Compared with the public rows, without noise." in good
        assert all(f"| {row.text} | {row.reading} |" in good for row in release.quality)
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    assert "nan" not in re.sub(r"base64,[^\"]+", "", page)


BROKEN = {
    **HOMES,
    "population": "broken_town",
    "nominal_rows": "2000",
    "models": {"eug_kmeans": {"k": "3"}, "independent": {}},
}
DECIMALS = [f'"{at % 8},5","3{at % 10}0,0",renter' for at in range(2000)]
"""Two thousand homes with comma decimals: none of them is a number."""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Broken:
    """A release of rows of which every single one is dropped; its noise, not seeded, is as large as
    half of 2,000 rows in fewer than one of 10^20 draws.
    """
    project = Project(tmp_path_factory.mktemp("broken"))
    spec = project.declare("homes", BROKEN)
    project.write_rows("homes.csv", [HEADER, *DECIMALS])
    project.run(spec)
    return project, spec


def test_release_of_rows_that_are_all_invalid_says_so_to_steward(broken: Broken):
    project, spec = broken
    results = [result for result in check_results(project, spec) if result.check_name == PLAUSIBLE]
    assert [result.passed for result in results] == [False, False]
    assert {result.severity for result in results} == {dg.AssetCheckSeverity.WARN}
    for result in results:
        assert "Few rows: their noisy number is" in result.metadata["What speaks against it"].value
    for name in spec.models:
        path = project.home.reports / f"{spec.name}.cards" / f"{name}.1.md"
        card = path.read_text("utf-8")
        assert "## What speaks against it\n\n- Few rows" in card
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    assert "less than half of the 2,000 that nominal_rows declares" in page


def test_the_command_that_released_them_says_so_too(
    broken: Broken, capsys: pytest.CaptureFixture[str]
):
    project, spec = broken
    print_result(RunResult.of(project.request(spec), [()]))
    # By chance, so few rows may be a weak signal too.
    lines = [line for line in capsys.readouterr().out.splitlines() if ": Few rows: " in line]
    assert [line.partition(": Few rows: ")[0] for line in lines] == [
        "warning: eug_kmeans at ε=1", "warning: independent at ε=1",
    ]  # fmt: skip


# Any rows of every clustering.

CLUSTERINGS = [name for name, model in MODELS.items() if issubclass(model, Clustering)]

ANY_ROWS: Mapping[str, list[str]] = {
    "nobody": [],
    "one row": ["1,300,renter"],
    "a constant column": [f"4,{rent},owner" for rent in range(0, 1000, 50)],
    "everybody in one place": ["3,500,renter"] * 30,
    "everybody outside the box": ["99,-5,owner", "-1e308,1e308,renter"] * 10,
    "no numbers": ["NaN,1,owner", "1,nan,owner", ",,", "inf,-inf,renter", "three,many,owner"] * 5,
    "one good row among bad ones": ["x,y,z", "2,400,owner", "NaN,inf,"],
}


@pytest.mark.parametrize("rows", ANY_ROWS)
def test_every_clustering_releases_centres_in_the_box(rows: str, project: Project):
    spec = project.declare(
        "homes",
        HOMES,
        models={name: {"k": "3"} for name in CLUSTERINGS},
        evaluation={"epsilon": "0.5"},
        label="tenure",
        ceiling={"total": "20"},
    )
    project.write_rows("homes.csv", ["rooms,rent,tenure", *ANY_ROWS[rows]])
    project.prepare(spec)
    for model in CLUSTERINGS:
        published = project.publish(spec, model=model, epsilon="1")
        assert published.state == "charged"
        assert set(published.bundle.quality) == {"nicv", "f_label", "ari_label"}
        centres = published.bundle.tables["centres"]
        for name, interval in zip(centres, spec.domain.box(tuple(centres)), strict=True):
            assert len(centres[name]) == 3
            assert np.all((centres[name] >= interval.lower) & (centres[name] <= interval.upper))
            assert np.isfinite(centres[name]).all()
    assert project.spent(spec) == spec.cost_of_everything
