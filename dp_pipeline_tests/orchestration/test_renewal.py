"""The report of a data set follows its releases, whoever started the runs."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
import pytest
from dagster import DagsterRunStatus

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.dagster import dataset_definitions
from dp_pipeline.orchestration import renewal
from dp_pipeline.orchestration.common import Pipeline
from dp_pipeline.orchestration.dataset import pipeline_definitions
from dp_pipeline.orchestration.jobs import backfill_job_name, jobs_of
from dp_pipeline.orchestration.renewal import SENSOR
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.outcome import report_path
from dp_pipeline_tests.orchestration.patients import WARD, declare
from dp_pipeline_tests.orchestration.projects import PLANTS, RIDES, Project, definitions_of

pytestmark = pytest.mark.chain


def look(project: Project, definitions: dg.Definitions, name: str = SENSOR) -> list[dg.RunRequest]:
    repository = definitions.get_repository_def()
    with dg.build_sensor_context(instance=project.instance, repository_def=repository) as context:
        return list(definitions.resolve_sensor_def(name).evaluate_tick(context).run_requests)


def tick(project: Project, spec: DatasetSpec) -> list[dg.RunRequest]:
    return look(project, definitions_of(spec, project.home))


def assets_of(request: dg.RunRequest) -> list[str]:
    return ["/".join(key.path[1:]) for key in request.asset_selection or []]


def requested_assets(project: Project, spec: DatasetSpec) -> list[list[str]]:
    return [assets_of(request) for request in tick(project, spec)]


def released(project: Project, spec: DatasetSpec, epsilon: str) -> None:
    assert project.run_job(spec, backfill_job_name(spec), epsilon).success


@contextmanager
def waiting(project: Project, spec: DatasetSpec) -> Iterator[None]:
    job = definitions_of(spec, project.home).resolve_job_def(backfill_job_name(spec))
    run = project.instance.create_run_for_job(job, status=DagsterRunStatus.STARTED)
    yield
    project.instance.delete_run(run.run_id)


def test_backfill_renews_report_once_when_its_last_run_is_over(rides: Project, spec: DatasetSpec):
    assert requested_assets(rides, spec) == []
    released(rides, spec, "0.1")
    with waiting(rides, spec):
        assert requested_assets(rides, spec) == []
    released(rides, spec, "0.5")
    assert requested_assets(rides, spec) == [["comparison", "budget"]]
    (request,) = tick(rides, spec)
    rides.launch(spec, *requested_assets(rides, spec)[0])
    assert "ε=0.5" in report_path(rides.request(spec)).read_text(encoding="utf-8")
    assert requested_assets(rides, spec) == []
    rides.launch(spec, "dpqt_kmeans", partition="0.1")
    (again,) = tick(rides, spec)
    assert again.run_key != request.run_key


def test_reports_follow_in_another_project_by_their_own_job(rides: Project, spec: DatasetSpec):
    definitions = dataset_definitions(rides.datasets / "rides.yaml", home=rides.home.root)
    name = f"rides_{SENSOR}"
    sensor = definitions.resolve_sensor_def(name)
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    assert [target.job_name for target in sensor.targets] == ["rides_report"]
    assert look(rides, definitions, name) == []
    released(rides, spec, "0.5")
    (request,) = look(rides, definitions, name)
    assert assets_of(request) == ["comparison", "published", "budget"]
    job, chosen = definitions.resolve_job_def("rides_report"), list(request.asset_selection or [])
    assert job.execute_in_process(instance=rides.instance, asset_selection=chosen).success
    assert look(rides, definitions, name) == []
    assert (rides.home.root / "published" / "rides" / "dpqt_kmeans" / "current.json").is_file()


def test_failed_report_waits_for_another_release(rides: Project, spec: DatasetSpec):
    released(rides, spec, "0.1")
    first, second = tick(rides, spec), tick(rides, spec)
    assert [request.run_key for request in first] == [request.run_key for request in second]
    released(rides, spec, "0.5")
    (later,) = tick(rides, spec)
    assert later.run_key != first[0].run_key


def test_long_backfill_renews_report_once_an_hour(rides: Project, spec: DatasetSpec, monkeypatch):
    released(rides, spec, "0.1")
    rides.launch(spec, "comparison", "budget")
    released(rides, spec, "0.5")
    with waiting(rides, spec):
        assert requested_assets(rides, spec) == []
        monkeypatch.setattr(renewal, "MAX_REPORT_AGE", 0.0)
        assert requested_assets(rides, spec) == [["comparison", "budget"]]


def test_runs_of_another_data_set_are_not_waited_for(rides: Project, spec: DatasetSpec):
    released(rides, spec, "0.1")
    with waiting(rides, rides.declare("walks", RIDES)):
        assert requested_assets(rides, spec) == [["comparison", "budget"]]
    # What the command runs leaves nothing to renew.
    rides.run(spec)
    assert requested_assets(rides, spec) == []


def test_report_with_epsilon_reports_of_k_anonymous_releases_too(project: Project):
    spec = declare(project)
    pages = {"/".join(page.key.path[1:]): page for page in renewal.report_pages(spec)}
    k_anonymous = dg.AssetKey(["patients", "k_anonymous", "kjig"])
    assert set(pages) == {"comparison", "k_anonymous/comparison"}
    assert all(k_anonymous in page.sources for page in pages.values())
    own = dg.AssetKey(["patients", "evaluation"])
    assert [own in page.sources for page in pages.values()] == [True, False]
    public, _ = renewal.report_pages(declare(project, WARD))
    assert k_anonymous not in public.sources, "a page of public rows says nothing of them"


def test_renewal_sensor_alone_is_on_and_starts_reports_alone(project: Project):
    specs = (project.declare("plants", PLANTS), project.declare("rides", RIDES))
    definitions = pipeline_definitions(specs, Pipeline(Home(project.folder)))
    states = {sensor.name: sensor.default_status for sensor in definitions.sensors or []}
    on = [name for name, state in states.items() if state == dg.DefaultSensorStatus.RUNNING]
    assert on == [SENSOR]
    sensor = definitions.resolve_sensor_def(SENSOR)
    selected = sensor.asset_selection.resolve(definitions.resolve_asset_graph())
    assert {key.path[-1] for key in selected} == {"comparison", "budget"}
    assert {key.path[0] for key in selected} == {"plants", "rides"}
    assert len(jobs_of(specs[0])) > 1, "a run is known by any of its jobs"
