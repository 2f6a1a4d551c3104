"""What stands as a run would leave it is not run again; anything else is."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration import runner
from dp_pipeline.releases import outcome
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.outcome import is_level_complete, is_report_current
from dp_pipeline_tests.orchestration.projects import RIDES, Project


@pytest.fixture
def spec(released_rides: Project) -> DatasetSpec:
    return released_rides.declare("rides", RIDES)


def asks(project: Project, spec: DatasetSpec, **options: object) -> bool:
    request = project.request(spec, epsilons=["0.5"], **options)
    return not (is_level_complete(request, "0.5") and is_report_current(request))


def test_whole_partition_starts_no_run(released_rides: Project, spec: DatasetSpec, monkeypatch):
    def started(*_: object) -> None:
        raise AssertionError("a run was started")

    monkeypatch.setattr(runner, "_run_levels", started)
    (again,) = released_rides.run(spec, epsilons=["0.5"])
    assert (again.state, again.cost) == ("replayed", 0)
    assert "nicv" in {row.metric for row in again.quality}


FILES = (
    "internal/rides/evaluation/0.5.json",
    "released/rides/dpqt_kmeans/partition-0.5.json",
    "released/rides/dpqt_kmeans/*/transcript.jsonl",
    "released/rides/dpqt_kmeans/*/bundle-*/centres.parquet",
    "reports/rides.html",
)


@pytest.mark.parametrize("path", FILES)
def test_file_that_is_lost_starts_a_run(path: str, released_rides: Project, spec: DatasetSpec):
    assert not asks(released_rides, spec)
    (file,) = released_rides.home.root.glob(path)
    file.unlink()
    assert asks(released_rides, spec)


CHANGES: tuple[Callable[[dict[str, Any]], object], ...] = (
    lambda value: value["pointers"]["dpqt_kmeans"].update(folder="x"),
    lambda value: value.update(by="f" * 64),
)


@pytest.mark.parametrize("change", CHANGES, ids=["another bundle", "other code"])
def test_evaluation_of_another_bundle_or_code_starts_a_run(change, released_rides, spec):
    path = released_rides.home.root / FILES[0]
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document["value"])
    path.write_text(json.dumps(document), encoding="utf-8")
    # By itself, whatever the report says: it is a digest of evaluations too.
    assert not is_level_complete(released_rides.request(spec, epsilons=["0.5"]), "0.5")


def test_other_code_title_or_draw_starts_a_run(released_rides, spec, monkeypatch):
    assert asks(released_rides, spec, new_draw=True)
    assert asks(released_rides, spec, snapshot="tuesday")
    assert asks(released_rides, released_rides.declare("rides", RIDES, title="Otherwise"))
    assert not asks(released_rides, spec)
    for owner, name in ((EpsilonRelease, "version"), (outcome, "program_version")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, staticmethod(lambda: "dp_pipeline 0"))
            assert asks(released_rides, spec)
    released_rides.publish(spec, epsilon="0.1")
    assert asks(released_rides, spec), "the report says nothing of another release"
    request = released_rides.request(spec, epsilons=["0.5"])
    assert is_level_complete(request, "0.5")
    centres = released_rides.publish(spec).folder / "centres.parquet"
    centres.write_bytes(centres.read_bytes() + b" ")
    assert not is_level_complete(request, "0.5")
