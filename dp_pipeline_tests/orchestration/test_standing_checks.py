"""A run that is refused leaves the verdicts on what was released before it as they were."""

import asyncio
from collections.abc import Mapping
from typing import Any

import dagster as dg
import pytest
from dagster._core.loader import LoadingContextForTest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline_tests.orchestration.events import materializations, refusal
from dp_pipeline_tests.orchestration.patients import WARD, ready
from dp_pipeline_tests.orchestration.projects import RIDES, Project, definitions_of

pytestmark = pytest.mark.chain

MODEL = dg.AssetKey(["rides", "dpqt_kmeans"])
KJIG = "k_anonymous/kjig"
PARTITION = "dagster/partition"
RANGE = {"dagster/asset_partition_range_start": "0.1", "dagster/asset_partition_range_end": "0.5"}


def verdicts(project: Project, spec: DatasetSpec, key: dg.AssetKey) -> dict[str, Any]:
    """Check → how it stands on the pages, with what metadata, and whether they show it: they do if
    it is of the newest materialization.
    """
    graph = definitions_of(spec, project.home).resolve_asset_graph()
    latest = project.instance.event_log_storage.get_latest_asset_check_execution_by_key(
        sorted(graph.get_check_keys_for_assets({key}))
    )
    context = LoadingContextForTest(project.instance)
    return {
        check.name: (
            record.status.value,
            getattr(record.evaluation, "metadata", None),
            asyncio.run(record.targets_latest_materialization(context)),
        )
        for check, record in latest.items()
    }


@pytest.fixture
def spec(rides: Project) -> DatasetSpec:
    """RIDES, released at ε = 0.5."""
    declared = rides.declare("rides", RIDES)
    assert rides.launch(declared, "dpqt_kmeans", partition="0.5").success
    return declared


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"tags": {PARTITION: "0.7"}}, "of 0.1, 0.5, not '0.7'"),
        ({"tags": {PARTITION: "0.50"}}, "of 0.1, 0.5, not '0.50'"),
        ({"tags": {PARTITION: ""}}, "of 0.1, 0.5, not ''"),
        ({"tags": {PARTITION: "0.1,0.5"}}, "of 0.1, 0.5, not '0.1,0.5'"),
        ({"tags": {PARTITION: "0.1\nx" * 99}}, "of 0.1, 0.5, not '0.1"),
        ({"tags": RANGE}, "not '0.1' and '0.5'"),
        ({}, "of 0.1, 0.5, not none"),
    ],
)
def test_refused_run_leaves_checks_and_metadata(
    asked: Mapping[str, Any], expected: str, rides: Project, spec: DatasetSpec
):
    spent, before = rides.spent(spec), verdicts(rides, spec, MODEL)
    materialized = materializations(rides, spec)
    assert "SUCCEEDED" in {status for status, *_ in before.values()}
    for _ in range(2):
        assert expected in refusal(rides.launch(spec, "dpqt_kmeans", **asked))
    assert verdicts(rides, spec, MODEL) == before
    assert materializations(rides, spec) == materialized
    assert rides.spent(spec) == spent


def test_a_run_that_the_ceiling_refuses_leaves_them_too(rides: Project, spec: DatasetSpec):
    for _ in range(4):
        rides.publish(spec, new_draw=True)
    # The newest is of another partition than the one that is refused.
    assert rides.launch(spec, "dpqt_kmeans", partition="0.1").success
    before = verdicts(rides, spec, MODEL)
    assert {(status, verdict) for status, _, verdict in before.values()} == {
        ("SUCCEEDED", True),
        ("FAILED", True),
    }
    result = rides.launch(spec, "dpqt_kmeans", partition="0.5", config={"new_draw": True})
    assert "requested ε=0.55, spent 2.9, left 0.1" in refusal(result)
    assert verdicts(rides, spec, MODEL) == before


def test_a_run_over_rows_that_are_not_prepared_leaves_them_too(rides: Project, spec: DatasetSpec):
    before = verdicts(rides, spec, MODEL)
    wider = rides.declare(
        "rides", RIDES, attributes={**RIDES["attributes"], "z": {"bounds": ["0", "1"]}}
    )
    result = rides.launch(wider, "dpqt_kmeans", partition="0.1")
    assert "is not validated as rides is declared now" in refusal(result)
    assert verdicts(rides, wider, MODEL) == before


def test_where_nothing_was_released_nothing_is_judged(rides: Project):
    spec = rides.declare("rides", RIDES)
    result = rides.launch(spec, "dpqt_kmeans")
    assert result.get_asset_check_evaluations() == []
    assert "not none" in refusal(result)


def test_a_k_anonymous_release_keeps_its_verdicts_too(project: Project):
    spec = ready(project, WARD)
    assert project.launch(spec, KJIG, partition="2").success
    key = dg.AssetKey([spec.name, *KJIG.split("/")])
    before = verdicts(project, spec, key)
    assert "SUCCEEDED" in {status for status, *_ in before.values()}
    for tags in ({PARTITION: "3"}, {}):
        assert "must have one K partition" in refusal(project.launch(spec, KJIG, tags=tags))
        assert verdicts(project, spec, key) == before
