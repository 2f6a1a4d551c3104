"""Clusterings that differ in more than their model are shown as what they are."""

from __future__ import annotations

import re

import pytest

from dp_pipeline.cli.released import centre_lines
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.releases.outcome import report_path
from dp_pipeline_tests.orchestration.projects import PLANTS, Project

pytestmark = pytest.mark.chain


def words_of(project: Project, spec: DatasetSpec) -> str:
    """The report without its pictures, whose letters are any."""
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    return re.sub(r"base64,[^\"]+", "", page)


def test_models_with_another_k_are_not_compared(project: Project):
    models = {"eug_kmeans": {"k": "2"}, "dpqt_kmeans": {"k": "3"}}
    spec = project.declare("plants", PLANTS, models=models, publish=None)
    project.run(spec, epsilons=["1"])
    page = words_of(project, spec)
    assert "eug_kmeans, k=2" in page
    assert "dpqt_kmeans, k=3" in page
    assert "RCP" not in page


def test_models_over_other_columns_are_named_with_them(project: Project):
    models = {"eug_kmeans": {"k": "2"}, "dpqt_kmeans": {"k": "2", "columns": "height"}}
    spec = project.declare("plants", PLANTS, models=models, publish=None)
    project.run(spec, epsilons=["1"])
    page = words_of(project, spec)
    assert "dpqt_kmeans, k=2 of height" in page
    assert "RCP" not in page


def test_models_with_one_k_and_the_same_columns_are_compared(project: Project):
    models = {"eug_kmeans": {"k": "2"}, "dpqt_kmeans": {"k": "2"}}
    spec = project.declare("plants", PLANTS, models=models, publish=None)
    project.run(spec, epsilons=["1"])
    page = words_of(project, spec)
    assert ", k=" not in page
    assert "RCP" in page


def test_of_many_columns_the_first_are_printed_whole(project: Project):
    names = [f"column_{index}" for index in range(16)]
    attributes = {name: {"bounds": ["-1000000", "1000000"]} for name in names}
    models = {"htree_kmeans": {"k": "2"}}
    spec = project.declare(
        "plants", PLANTS, models=models, attributes=attributes, one_hot="false", publish=None
    )
    lines = [",".join("-123456" for _ in names)] * 50
    project.write_rows("plants.csv", [",".join(names), *lines])
    (done,) = project.run(spec, epsilons=["1"])
    shown, centres = centre_lines(done)
    assert shown == [*names[:7], "+ 9 columns", "noisy rows"]
    assert all(len(line) == 9 and line[7] == "…" for line in centres)
