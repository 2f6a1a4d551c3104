"""What is not ready is refused, whoever starts it and in whatever order; nothing is charged."""

import re
from collections.abc import Callable
from fractions import Fraction

import pyarrow as pa
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import NotPrepared
from dp_pipeline.raw.stages import read_stage, store_parts
from dp_pipeline_tests.orchestration.events import failures, refusal
from dp_pipeline_tests.orchestration.projects import RIDES, Project

pytestmark = pytest.mark.chain

WIDER = {"x": {"bounds": ["0", "9"]}, "y": {"bounds": ["0", "4"]}}
ONE_COLUMN_MORE = {**RIDES["attributes"], "z": {"bounds": ["0", "1"]}}
PUBLIC = {"purpose": "benchmark", "ceiling": None, "evaluation": None}
RANGE = {"dagster/asset_partition_range_start": "0.1", "dagster/asset_partition_range_end": "0.5"}


def collect_refusal(project: Project, spec: DatasetSpec, expected: str) -> None:
    """The model by itself, as another run would start it: refused, and nothing is charged."""
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
    ("broken", "checks"),
    [(missing_column, {"column__z", "type__z"}), (wrong_type, {"type__x"})],
)
def test_after_validation_failed_the_model_alone_is_refused(
    broken: Callable[[Project], DatasetSpec], checks: set[str], rides: Project
):
    fail_validation(rides, broken(rides), checks)


def test_rows_that_break_a_benchmark_refuse_its_model_too(project: Project):
    spec = project.declare("rides", RIDES, **PUBLIC)
    project.write_rows("rides.csv", ["rider,x,y", "ann,1,1", "bob,900,1"])
    assert project.launch(spec, "ingested").success
    fail_validation(project, spec, {"bounds__x"})


def test_rows_that_break_release_are_warned_of_and_stop_nothing(project: Project):
    spec = project.declare("rides", RIDES)
    project.write_rows("rides.csv", ["rider,x,y", "ann,1,1", ",900,word"])
    result = project.launch(spec, "ingested", "validated", "normalized")
    assert result.success
    failed = {
        check.check_name: check
        for check in result.get_asset_check_evaluations()
        if not check.passed
    }
    assert set(failed) == {"bounds__x", "present__y", "present_person_id"}
    assert {check.severity.value for check in failed.values()} == {"WARN"}
    assert all(not check.metadata for check in failed.values())


def test_expectation_of_user_is_asset_check_like_others(project: Project):
    declared = {
        "type": "expect_column_values_to_match_regex",
        "column": "rider",
        "regex": "^[a-z]+$",
    }
    spec = project.declare("rides", RIDES, expectations=[declared])
    project.write_rows("rides.csv", ["rider,x,y", "ann,1,1", "007,2,2"])
    result = project.launch(spec, "ingested", "validated", "normalized")
    assert result.success
    name = "expect_column_values_to_match_regex_person_id"
    checks = {check.check_name: check for check in result.get_asset_check_evaluations()}
    assert not checks[name].passed
    assert checks[name].severity.value == "WARN"
    assert not checks[name].metadata


def test_before_the_first_snapshot_the_model_is_refused(project: Project):
    spec = project.declare("rides", RIDES)
    collect_refusal(project, spec, "rides: no snapshot is prepared")


def test_snapshot_that_was_validated_and_not_prepared_is_refused(project: Project):
    spec = project.declare("rides", RIDES)
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


def test_a_snapshot_that_is_only_a_name_is_refused(rides: Project):
    spec = rides.declare("rides", RIDES)
    (rides.home.raw / "rides" / "current").write_text("elsewhere")
    with pytest.raises(NotPrepared):
        rides.publish(spec)
    assert rides.spent(spec) == 0


@pytest.mark.parametrize(
    "names", [("dpqt_kmeans",), ("dpqt_kmeans", "evaluation"), ("evaluation",)]
)
def test_a_run_over_a_range_of_partitions_is_refused_in_one_line(
    names: tuple[str, ...], rides: Project
):
    spec = rides.declare("rides", RIDES)
    line = refusal(rides.launch(spec, *names, tags=RANGE))
    assert line == (
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
    assert re.search(
        f"noise .*must be .*, not (by )?'{noise[:60]}'.*: .*DP_PIPELINE_NOISE", result.err
    )
    assert result.err.count("\n") == 1
    assert not project.home.root.exists()


def test_dagster_refuses_seeded_noise_on_release_data(rides: Project):
    spec = rides.declare("rides", RIDES)
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
