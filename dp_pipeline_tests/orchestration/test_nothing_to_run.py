"""What stands as a run would leave it is not run again; anything else is."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration import runner
from dp_pipeline.releases import outcome
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.outcome import is_level_complete, is_report_current, report_path
from dp_pipeline_tests.orchestration.projects import RIDES, Project


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


EVALUATION, POINTER = (
    "internal/rides/evaluation/0.5.json",
    "released/rides/dpqt_kmeans/partition-0.5.json",
)


def append_a_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


def edit_evaluation(project: Project, change: Callable[[dict[str, Any]], object]) -> None:
    path = project.home.root / EVALUATION
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document["value"])
    path.write_text(json.dumps(document), encoding="utf-8")


CHANGES: dict[str, Callable[[Project, DatasetSpec], object]] = {
    "no bundle": lambda project, spec: shutil.rmtree(project.publish(spec).folder),
    "an edited table": lambda project, spec: append_a_byte(
        project.publish(spec).folder / "centres.parquet"
    ),
    "no pointer": lambda project, _: (project.home.root / POINTER).unlink(),
    "no evaluation": lambda project, _: (project.home.root / EVALUATION).unlink(),
    "no transcript": lambda project, spec: (
        project.publish(spec).folder.parent / "transcript.jsonl"
    ).unlink(),
    "no report": lambda project, spec: report_path(project.request(spec)).unlink(),
    "another release": lambda project, spec: project.publish(spec, epsilon="0.1"),
    "evaluation of another bundle": lambda project, _: edit_evaluation(
        project, lambda value: value["pointers"]["dpqt_kmeans"].update(folder="x")
    ),
    "evaluation by other code": lambda project, _: edit_evaluation(
        project, lambda value: value.update(by="f" * 64)
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_is_lost_or_changed_starts_a_run(
    change: str, released_rides: Project, spec: DatasetSpec
):
    assert not asks(released_rides, spec)
    CHANGES[change](released_rides, spec)
    assert asks(released_rides, spec)
    if change.startswith("evaluation"):
        # By itself, whatever the report says: it is a digest of evaluations too.
        assert not is_level_complete(released_rides.request(spec, epsilons=["0.5"]), "0.5")


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
