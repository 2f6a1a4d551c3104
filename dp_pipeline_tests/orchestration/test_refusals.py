"""What is not ready is refused, costs nothing, and leaves the verdicts of before as they were."""

import asyncio
import re
from fractions import Fraction
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.loader import LoadingContextForTest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import NotPrepared
from dp_pipeline.raw.stages import read_stage, store_parts
from dp_pipeline_tests.orchestration.events import failures, materializations, refusal
from dp_pipeline_tests.orchestration.patients import WARD, ready
from dp_pipeline_tests.orchestration.projects import PUBLIC, RIDES, Project, definitions_of

WIDER = {"x": {"bounds": ["0", "9"]}, "y": {"bounds": ["0", "4"]}}
ONE_COLUMN_MORE = {**RIDES["attributes"], "z": {"bounds": ["0", "1"]}}
RANGE = {"dagster/asset_partition_range_start": "0.1", "dagster/asset_partition_range_end": "0.5"}


def collect_refusal(project: Project, spec: DatasetSpec, expected: str) -> None:
    spent, before = project.spent(spec), project.files("released")
    assert expected in refusal(project.launch(spec, "dpqt_kmeans", partition="0.5"))
    assert project.spent(spec) == spent
    assert project.files("released") == before


def missing_column(project: Project) -> DatasetSpec:
    return project.declare("rides", RIDES, attributes=ONE_COLUMN_MORE)


def wrong_type(project: Project) -> DatasetSpec:
    spec = project.declare("rides", RIDES)
    snapshot = project.snapshot(spec)
    table = read_stage(snapshot, "ingested")
    flags = pa.array([True] * table.num_rows)
    store_parts(snapshot, "ingested", [table.set_column(table.column_names.index("x"), "x", flags)])
    return spec


def fail_validation(project: Project, spec: DatasetSpec, checks: set[str]) -> None:
    result = project.launch(spec, "validated")
    (failure,) = failures(result)
    assert all(check in failure.user_failure_data.description for check in checks)
    assert checks <= {c.check_name for c in result.get_asset_check_evaluations() if not c.passed}
    collect_refusal(project, spec, "its checks refused the snapshot: mend what they report, then")
    assert not project.launch(spec, "normalized").success


@pytest.mark.parametrize(
    ("broken", "checks"), [(missing_column, {"column__z", "type__z"}), (wrong_type, {"type__x"})]
)
def test_after_validation_failed_the_model_alone_is_refused(broken, checks, rides: Project):
    fail_validation(rides, broken(rides), checks)


def test_rows_that_break_release_are_warned_of_and_stop_nothing(project: Project):
    kind = "expect_column_values_to_match_regex"
    declared = {"type": kind, "column": "rider", "regex": "^[a-z]+$"}
    spec = project.declare("rides", RIDES, expectations=[declared])
    project.write_rows("rides.csv", ["rider,x,y", "ann,1,1", ",900,word", "007,2,2"])
    result = project.launch(spec, "ingested", "validated", "normalized")
    assert result.success
    checks = result.get_asset_check_evaluations()
    failed = {check.check_name: check for check in checks if not check.passed}
    names = {"bounds__x", "present__y", "present_person_id", f"{kind}_person_id"}
    assert set(failed) == names, "those of the library and that of the user"
    assert {check.severity.value for check in failed.values()} == {"WARN"}
    assert all(not check.metadata for check in failed.values())


def test_without_a_prepared_snapshot_the_model_is_refused(project: Project):
    spec = project.declare("rides", RIDES)
    collect_refusal(project, spec, "rides: no snapshot is prepared")
    assert project.launch(spec, "ingested").success
    collect_refusal(project, spec, "is not validated as rides is declared now")
    assert project.launch(spec, "validated").success
    collect_refusal(project, spec, "is not prepared as rides is declared now")


def test_changed_declaration_is_refused_until_a_run_prepares(project: Project):
    old = project.declare("rides", RIDES)
    project.run(old, epsilons=["0.5"])
    new = project.declare("rides", RIDES, attributes=WIDER)
    collect_refusal(project, new, "is not validated as rides is declared now")
    (outcome,) = project.run(new, epsilons=["0.5"])
    assert outcome.state == "charged"
    assert project.spent(new) == Fraction("1.1")
    # The release under the old declaration is still there, and still free.
    assert project.publish(project.declare("rides", RIDES)).state == "replayed"


def test_a_snapshot_that_is_only_a_name_is_refused(rides: Project, spec: DatasetSpec):
    (rides.home.raw / "rides" / "current").write_text("elsewhere")
    with pytest.raises(NotPrepared):
        rides.publish(spec)
    assert rides.spent(spec) == 0


@pytest.mark.parametrize(
    "names", [("dpqt_kmeans",), ("dpqt_kmeans", "evaluation"), ("evaluation",)]
)
def test_a_run_over_a_range_of_partitions_is_refused_in_one_line(names, rides, spec):
    result = rides.launch(spec, *names, tags=RANGE)
    assert result.get_asset_check_evaluations() == []
    assert refusal(result) == (
        "rides: a run must have one ε partition of 0.1, 0.5, not '0.1' and '0.5': "
        "launch one run for each"
    )
    assert rides.spent(spec) == 0
    assert not (rides.home.released / "rides").exists()


@pytest.mark.parametrize("noise", ["seeded:1", "loud", "seeded:", "seeded:²", "opendp:1", "9" * 99])
def test_unfit_noise_is_refused_before_a_row_is_read(noise: str, project: Project):
    project.declare("rides", RIDES)
    result = project.cli_here("run", "rides", DP_PIPELINE_NOISE=noise)
    assert (result.code, result.out) == (2, "")
    line = f"noise .*must be .*, not (by )?'{noise[:60]}'.*: .*DP_PIPELINE_NOISE"
    assert re.search(line, result.err)
    assert result.err.count("\n") == 1
    assert not project.home.root.exists()


def test_dagster_refuses_seeded_noise_on_release_data(rides: Project, spec: DatasetSpec):
    line = refusal(rides.launch(spec, "dpqt_kmeans", partition="0.5", noise="seeded:1"))
    assert line.startswith(
        "The noise for data set rides must be drawn without a seed, not by 'seeded:1', because "
        "its rows are sensitive: unset the variable DP_PIPELINE_NOISE"
    )
    assert rides.spent(spec) == 0


def test_a_seeded_benchmark_is_marked_not_fit_for_release(project: Project):
    spec = project.declare("rides", RIDES, **PUBLIC)
    (release,) = project.run(spec, epsilons=["0.5"], noise="seeded:1")
    assert not release.bundle.is_releasable
    (real,) = project.run(spec, epsilons=["0.5"])
    assert real.bundle.is_releasable
    assert real.bundle.key != release.bundle.key


MODEL = dg.AssetKey(["rides", "dpqt_kmeans"])
KJIG = "k_anonymous/kjig"
PARTITION = "dagster/partition"


def verdicts(project: Project, spec: DatasetSpec, key: dg.AssetKey) -> dict[str, Any]:
    """Check → its status, its metadata, and whether it is of the newest materialization."""
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
def released(rides: Project) -> DatasetSpec:
    declared = rides.declare("rides", RIDES)
    assert rides.launch(declared, "dpqt_kmeans", partition="0.5").success
    return declared


@pytest.mark.parametrize(
    ("options", "expected"),
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
def test_refused_run_leaves_checks_and_metadata(options, expected, rides, released):
    spent, before = rides.spent(released), verdicts(rides, released, MODEL)
    materialized = materializations(rides, released)
    assert "SUCCEEDED" in {status for status, *_ in before.values()}
    for _ in range(2):
        assert expected in refusal(rides.launch(released, "dpqt_kmeans", **options))
    assert verdicts(rides, released, MODEL) == before
    assert materializations(rides, released) == materialized
    assert rides.spent(released) == spent


def test_run_beyond_ceiling_or_over_new_columns_leaves_them_too(rides, released):
    rides.spend("2.2")
    # The newest is of another partition than the one that is refused.
    assert rides.launch(released, "dpqt_kmeans", partition="0.1").success
    before = verdicts(rides, released, MODEL)
    states = {(status, verdict) for status, _, verdict in before.values()}
    assert states == {("SUCCEEDED", True), ("FAILED", True)}
    result = rides.launch(released, "dpqt_kmeans", partition="0.5", config={"new_draw": True})
    assert "requested ε=0.55, spent 2.9, left 0.1" in refusal(result)
    assert verdicts(rides, released, MODEL) == before
    wider = rides.declare("rides", RIDES, attributes=ONE_COLUMN_MORE)
    result = rides.launch(wider, "dpqt_kmeans", partition="0.1")
    assert "is not validated as rides is declared now" in refusal(result)
    assert verdicts(rides, wider, MODEL) == before


def test_a_k_anonymous_release_keeps_its_verdicts_too(project: Project):
    spec = ready(project, WARD)
    assert project.launch(spec, KJIG, partition="2").success
    key = dg.AssetKey([spec.name, *KJIG.split("/")])
    before = verdicts(project, spec, key)
    assert "SUCCEEDED" in {status for status, *_ in before.values()}
    for tags in ({PARTITION: "3"}, {}):
        assert "must have one K partition" in refusal(project.launch(spec, KJIG, tags=tags))
        assert verdicts(project, spec, key) == before
