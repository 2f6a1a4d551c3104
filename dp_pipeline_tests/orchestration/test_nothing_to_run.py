"""What stands as a run would leave it is not run again; anything else is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration import runner
from dp_pipeline.releases import outcome
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.outcome import is_level_complete, is_report_current, report_path
from dp_pipeline_tests.orchestration.projects import RIDES, Project

Change = Callable[[Project, DatasetSpec], None]


@pytest.fixture
def spec(released_rides: Project) -> DatasetSpec:
    return released_rides.declare("rides", RIDES)


def asks(project: Project, spec: DatasetSpec, **options: object) -> bool:
    """Whether a run at ε = 0.5 would start anything."""
    request = project.request(spec, epsilons=["0.5"], **options)
    return not (is_level_complete(request, "0.5") and is_report_current(request))


def test_a_whole_partition_and_its_report_start_no_run(
    released_rides: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
):
    def started(*_: object) -> None:
        raise AssertionError("a run was started")

    monkeypatch.setattr(runner, "_run_levels", started)
    (again,) = released_rides.run(spec, epsilons=["0.5"])
    assert (again.state, again.cost) == ("replayed", 0)
    assert "nicv" in {row.metric for row in again.quality}


def lost_bundle(project: Project, spec: DatasetSpec) -> None:
    shutil.rmtree(project.publish(spec).folder)


def edited_table(project: Project, spec: DatasetSpec) -> None:
    path = project.publish(spec).folder / "centres.parquet"
    path.write_bytes(path.read_bytes() + b" ")


def lost_pointer(project: Project, _: DatasetSpec) -> None:
    (project.home.released / "rides" / "dpqt_kmeans" / "partition-0.5.json").unlink()


def lost_evaluation(project: Project, _: DatasetSpec) -> None:
    (project.home.internal / "rides" / "evaluation" / "0.5.json").unlink()


def evaluation_of_another_bundle(project: Project, _: DatasetSpec) -> None:
    path = project.home.internal / "rides" / "evaluation" / "0.5.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["value"]["pointers"]["dpqt_kmeans"]["folder"] += "x"
    path.write_text(json.dumps(document), encoding="utf-8")


def lost_transcript(project: Project, spec: DatasetSpec) -> None:
    (project.publish(spec).folder.parent / "transcript.jsonl").unlink()


def lost_report(project: Project, spec: DatasetSpec) -> None:
    report_path(project.request(spec)).unlink()


def another_release_of_the_population(project: Project, spec: DatasetSpec) -> None:
    project.publish(spec, epsilon="0.1")


@pytest.mark.parametrize(
    "change",
    [
        lost_bundle,
        edited_table,
        lost_pointer,
        lost_evaluation,
        evaluation_of_another_bundle,
        lost_transcript,
        lost_report,
        another_release_of_the_population,
    ],
)
def test_whatever_is_lost_or_changed_starts_a_run(
    change: Change, released_rides: Project, spec: DatasetSpec
):
    assert not asks(released_rides, spec)
    change(released_rides, spec)
    assert asks(released_rides, spec)


def test_other_code_title_draw_or_snapshot_starts_a_run(
    released_rides: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
):
    assert asks(released_rides, spec, new_draw=True)
    assert asks(released_rides, spec, snapshot="tuesday")
    assert asks(released_rides, released_rides.declare("rides", RIDES, title="Otherwise"))
    assert not asks(released_rides, spec)
    with monkeypatch.context() as patch:
        patch.setattr(EpsilonRelease, "version", staticmethod(lambda: "dp_pipeline 0"))
        assert asks(released_rides, spec)
    with monkeypatch.context() as patch:
        patch.setattr(outcome, "program_code", lambda: "dp_pipeline 0")
        assert asks(released_rides, spec)


def evaluated_by_other_code(project: Project, _: DatasetSpec) -> None:
    path = project.home.internal / "rides" / "evaluation" / "0.5.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["value"]["by"] = "f" * 64
    path.write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize("change", [evaluation_of_another_bundle, evaluated_by_other_code])
def test_evaluation_of_another_bundle_does_not_stand(
    released_rides: Project, spec: DatasetSpec, change: Change
):
    # By itself, whatever the report says: it is a digest of evaluations too.
    request = released_rides.request(spec, epsilons=["0.5"])
    assert is_level_complete(request, "0.5")
    change(released_rides, spec)
    assert not is_level_complete(request, "0.5")
