"""No rows, one row, fewer rows than centres: the whole chain gives a valid answer, or says why."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest

from dp_pipeline.orchestration.outcome import Outcome, report_path
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline_tests.orchestration.projects import HOMES, PLANTS, RIDES, ROWS, Project

HEADER, *HOMES_ROWS = ROWS["homes"]


def assert_valid_clusters(spec: DatasetSpec, outcome: Outcome) -> None:
    centres = outcome.bundle.tables["centres"]
    for name, interval in zip(centres, spec.domain.box(tuple(centres)), strict=True):
        assert len(centres[name]) == 3
        assert np.all((centres[name] >= interval.lower) & (centres[name] <= interval.upper))


def assert_valid_table(spec: DatasetSpec, tables: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    marginals = tables["marginals"]
    for name in spec.domain.discrete:
        probabilities = marginals["probability"][marginals["attribute"] == name]
        assert len(probabilities) == spec.domain[name].size
        assert np.all(probabilities >= 0)
        assert probabilities.sum() == pytest.approx(1)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_every_model_answers_on_release_data_with_fewer_rows_than_centres(
    rows: int, project: Project
):
    spec = project.declare("homes", HOMES, evaluation={"epsilon": "0.5"})
    project.write_rows("homes.csv", [HEADER, *HOMES_ROWS[:rows]])
    outcomes = {one.release.name: one for one in project.run(spec)}
    assert set(outcomes) == {"dpqt_kmeans", "eug_kmeans", "independent"}
    for name, one in outcomes.items():
        assert one.state == "charged"
        names = {"avd_2", "avd_3"} if name == "independent" else {"nicv"}
        assert set(one.bundle.quality) == names
        assert all(np.isfinite(bought.value) for bought in one.bundle.quality.values())
        if name == "independent":
            assert_valid_table(spec, one.bundle.tables)
        else:
            assert_valid_clusters(spec, one)
    assert project.spent(spec) == spec.cost_of_everything
    assert report_path(project.request(spec)).is_file()


def test_persons_without_a_row_are_a_population_too(project: Project):
    spec = project.declare("rides", RIDES)
    project.write_rows("rides.csv", ["rider,x,y"])
    for one in project.run(spec):
        assert one.state == "charged"
        assert_valid_clusters(spec, one)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_benchmark_with_fewer_rows_than_centres_is_evaluated(rows: int, project: Project):
    spec = project.declare("plants", PLANTS, models={"eug_kmeans": {"k": "3"}, "independent": {}})
    project.write_rows("plants.csv", ROWS["plants"][: 1 + rows])
    clusters, table = project.run(spec, epsilons=["1"])
    exact = {row.metric: row.value for row in clusters.quality}
    assert exact["nicv_floor"] == 0
    assert np.isnan(exact["nicv_ratio"])
    assert [row.metric for row in table.quality] == ["avd_2", "avd_3", "dcr"]
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    assert "nan" not in re.sub(r"base64,[^\"]+", "", page)
