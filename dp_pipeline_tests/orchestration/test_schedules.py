"""Schedules and renewed reports: by the calendar, refused before anything is read."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction

import dagster as dg
import pytest
from dagster import DagsterRunStatus

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.dagster import dataset_definitions
from dp_pipeline.gate.noise import OpenDPNoise, SeededNoise
from dp_pipeline.ledger import Account
from dp_pipeline.orchestration import renewal
from dp_pipeline.orchestration.automation import MAX_WINDOWS_PER_TICK, due_windows
from dp_pipeline.orchestration.common import Pipeline
from dp_pipeline.orchestration.dataset import chain_definitions, pipeline_definitions
from dp_pipeline.orchestration.jobs import backfill_job_name, jobs_of
from dp_pipeline.orchestration.renewal import SENSOR
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.outcome import published_windows, report_path
from dp_pipeline_tests.orchestration import streams
from dp_pipeline_tests.orchestration.patients import WARD, declare
from dp_pipeline_tests.orchestration.projects import PLANTS, RIDES, Project, definitions_of
from dp_pipeline_tests.orchestration.streams import WEEKS, run_weeks, stream, ticked

TICK = datetime(2026, 11, 16, 6, tzinfo=UTC)
WEEK = "2026-W47"
REFRESHED = {"refresh": "weekly"}


def answer(
    project: Project, spec: DatasetSpec, time: datetime = TICK
) -> dg.RunRequest | dg.SkipReason:
    (schedule,) = chain_definitions(spec).schedules or []
    tick = ticked(project, spec, time.isoformat(), schedule.name)
    return tick.run_requests[0] if tick.run_requests else dg.SkipReason(tick.skip_message)


def launched(project: Project, spec: DatasetSpec, request: dg.RunRequest, job: str) -> bool:
    assets = list(request.asset_selection or []) or None
    options = {"run_config": request.run_config, "asset_selection": assets}
    return project.run_job(spec, job, request.partition_key, **options).success


def test_refresh_charges_its_week_once_and_the_next_one_again(project: Project):
    spec = project.declare("rides", RIDES, **REFRESHED)
    # The last week once more, as by hand: its snapshot and its release are there.
    for week, day, spent in ((WEEK, 16, "0.55"), ("2026-W48", 23, "1.1"), ("2026-W48", 23, "1.1")):
        request = answer(project, spec, TICK.replace(day=day))
        assert (request.run_key, request.partition_key) == (f"{week}-0.5", "0.5")
        assert request.run_config == {"ops": {"rides__ingested": {"config": {"snapshot": week}}}}
        assert launched(project, spec, request, "rides_new_snapshot")
        assert project.snapshot(spec).id == week
        assert project.spent(spec) == Fraction(spent)
    first = answer(project, spec, datetime(2027, 1, 1, 6, tzinfo=UTC))
    assert first.run_config["ops"]["rides__ingested"]["config"]["snapshot"] == "2026-W53"


def test_ticks_do_not_depend_on_rows(rides: Project):
    spec = rides.declare("rides", RIDES, **REFRESHED)
    before = answer(rides, spec)
    rides.write_rows("rides.csv", ["rider,x,y", "zoe,8,4"])
    assert answer(rides, spec) == before
    (rides.datasets / "rides.csv").unlink()
    assert answer(rides, spec) == before


TOTAL = r"spent 2\.5, left 0\.5, ceiling 3; "
MONTHLY = {"ceiling": {"total": "3", "per_month": "0.6"}, **REFRESHED}


@pytest.mark.parametrize(
    ("changes", "spent", "words"),
    [
        ({}, "2.5", TOTAL),
        (REFRESHED, "2.5", TOTAL),
        (MONTHLY, "0.55", r"spent in \d{4}-\d\d 0\.55, left 0\.05, per_month 0\.6; "),
    ],
    ids=["published", "refreshed", "in a month"],
)
def test_week_beyond_a_limit_is_one_line_and_writes_nothing(changes, spent, words, project):
    spec = project.declare("rides", RIDES, **changes)
    project.prepare(spec)
    project.spend(spent)
    before = project.files()
    line = r"rides refused by population riders: requested ε=0\.55, "
    assert re.match(line + words, answer(project, spec).skip_message or "")
    assert project.files() == before


def test_publication_paid_is_replayed_however_little_is_left(released_rides: Project):
    spec = released_rides.declare("rides", RIDES)
    released_rides.spend("2.4")
    request = answer(released_rides, spec)
    assert launched(released_rides, spec, request, "rides_epsilon_backfill")
    assert released_rides.spent(spec) == Fraction("2.95")


def test_file_that_disagrees_with_its_account_turns_tick_red(rides: Project):
    spec = rides.declare("rides", RIDES, population="walkers")
    rides.ledger.open_account(Account("walkers", "one row", "add_remove", "release", Fraction(9)))
    with pytest.raises(dg.DagsterError) as red:
        answer(rides, spec)
    assert isinstance(red.value.__cause__, DeclarationError)
    assert "population walkers: the account was opened with" in str(red.value.__cause__)


def mark_published(project: Project, *weeks: str) -> None:
    for model, epsilon in (("htree_kmeans", "0.5"), ("independent", "0.1")):
        folder = project.home.released / "stream" / model
        folder.mkdir(parents=True, exist_ok=True)
        for week in weeks:
            (folder / f"partition-{week}.{epsilon}.json").touch()


@pytest.mark.parametrize(
    ("published", "closed", "due"),
    [
        (["2026-W01", "2026-W03"], "2026-W04", ("2026-W02", "2026-W04")),
        # Nothing says that later ones have rows, so three are requested at a time.
        (["2026-W01", "2026-W03"], "2027-W30", ("2026-W02", "2026-W04", "2026-W05", "2026-W06")),
        # Those before the first are public and charged only when somebody publishes them.
        (["2026-W03"], "2026-W04", ("2026-W04",)),
    ],
)
def test_windows_missing_behind_the_first_published_are_due(published, closed, due, project):
    spec = stream(project)
    mark_published(project, *published)
    assert due_windows(spec, project.home, spec.time_windows.closing_time(closed)) == due


def test_a_gap_of_long_ago_is_not_due_for_ever(project: Project):
    ends = stream(project, windows={**streams.STREAM["windows"], "last": "2027-W30"})
    mark_published(project, "2026-W01", "2026-W03")
    due = due_windows(ends, project.home, ends.time_windows.closing_time("2027-W30"))
    assert (due[0], due[-1], len(due)) == ("2026-W04", "2027-W10", MAX_WINDOWS_PER_TICK)
    spec = stream(project)
    mark_published(project, "2028-W01")
    due = due_windows(spec, project.home, spec.time_windows.closing_time("2028-W02"))
    assert (due[0], due[-1]) == ("2026-W47", "2028-W02")
    assert "2028-W01" not in due
    assert len(due) == MAX_WINDOWS_PER_TICK
    later = due_windows(spec, project.home, spec.time_windows.closing_time("2028-W30"))
    assert (later[0], later[56], later[57]) == ("2026-W49", "2027-W52", "2028-W02")


def test_sweep_over_epsilon_publishes_no_window_of_another_name(project: Project):
    """The ε of 0.5 ends like one of 5."""
    publication = {"publish": [{"model": "independent", "epsilon": "5"}]}
    limits = {"partitions": ["0.5", "5"], "ceiling": {"each_window": "9"}}
    spec = stream(project, **publication, **limits)
    run_weeks(project, spec, "2026-W01", epsilon="0.5")
    assert published_windows(spec, project.home) == ()
    assert due_windows(spec, project.home, spec.time_windows.closing_time("2026-W02")) == (
        "2026-W02",
    )


PUBLISHED = "every closed window that may have rows is published"


def keys_of(tick: dg.SensorResult) -> list[str | None]:
    return [request.partition_key for request in tick.run_requests or []]


def test_tick_requests_windows_that_are_over_and_behind_newest(project: Project):
    spec = stream(project)
    assert keys_of(ticked(project, spec, "2026-01-07T06:00")) == ["2026-W01-1"]
    # Of several that are over, and none published, the newest.
    assert keys_of(ticked(project, spec, "2026-01-29T06:00")) == ["2026-W04-1"]
    run_weeks(project, spec, "2026-W01")
    assert published_windows(spec, project.home) == ("2026-W01",)
    quiet = ticked(project, spec, "2026-01-13T06:00")
    assert not quiet.run_requests
    assert PUBLISHED in (quiet.skip_message or "")
    missed = ["2026-W02-1", "2026-W03-1", "2026-W04-1"]
    assert keys_of(ticked(project, spec, "2026-01-29T06:00")) == missed
    assert due_windows(spec, project.home, spec.time_windows.closing_time("2026-W02")) == (
        "2026-W02",
    )


def test_a_tick_requests_nothing_behind_the_last_window(project: Project):
    spec = stream(project, windows={**streams.STREAM["windows"], "last": "2026-W03"})
    moment = "2026-11-23T06:00"
    assert keys_of(ticked(project, spec, moment)) == ["2026-W03-1"]
    run_weeks(project, spec)
    tick = ticked(project, spec, moment)
    assert not tick.run_requests
    assert PUBLISHED in (tick.skip_message or "")
    graph = definitions_of(spec, project.home).resolve_asset_graph()
    partitions = graph.get(dg.AssetKey(["stream", "ingested"])).partitions_def
    assert list(partitions.get_partition_keys()) == ["2026-W01-1", "2026-W02-1", "2026-W03-1"]
    with pytest.raises(DeclarationError, match="the last, or an earlier one, got 2026-W04"):
        streams.week_options(project, spec, "2026-W04")


@pytest.mark.parametrize("path", ["weeks/{window}.csv", "weeks/week={window}"])
def test_a_tick_requests_windows_alone_that_have_a_file(path: str, project: Project):
    kind = "csv" if path.endswith("csv") else "parquet"
    spec = stream(project, source={"kind": kind, "path": path})

    def written(week: str) -> None:
        file = project.datasets / path.replace("{window}", week)
        file = file if kind == "csv" else file / "part.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    def requested_keys() -> list[str | None]:
        return keys_of(ticked(project, spec, "2026-02-24T06:00"))

    assert requested_keys() == []
    written("2026-W02")
    assert requested_keys() == ["2026-W02-1"]
    mark_published(project, "2026-W02")
    assert requested_keys() == []
    written("2026-W04")
    written("2026-W06")
    assert requested_keys() == ["2026-W04-1", "2026-W06-1"]


def copy_pointers(project: Project, week: str, other: str) -> None:
    """Leave the traces of a published week for another one: a tick reads no more."""
    for path in project.home.root.rglob(f"*{week}*.json"):
        path.with_name(path.name.replace(week, other)).write_bytes(path.read_bytes())


def test_tick_requests_no_more_of_file_that_has_come_to_its_end(project: Project):
    """By noisy counts alone: 4,000 rows of 2,000 persons, then none."""
    lines = [
        f"r{n % 2000},{streams.MONDAY[week]}T12:{n % 60:02d}:00Z,{n % 80 / 10},{n % 40 / 10},car"
        for week in WEEKS[:2]
        for n in range(4000)
    ]
    project.datasets.mkdir(parents=True)
    project.write_rows("stream.csv", [streams.HEAD, *lines])
    spec = stream(project)
    run_weeks(project, spec, *WEEKS[:2])

    def tick() -> dg.SensorResult:
        return ticked(project, spec, "2026-02-24T06:00")

    assert keys_of(tick()) == ["2026-W03-1", "2026-W04-1", "2026-W05-1"]
    with pytest.MonkeyPatch.context() as patch:
        # By its own noise one of 6,000 empty weeks looks as if it had rows.
        seeded = SeededNoise(1)
        patch.setattr(OpenDPNoise, "discrete_laplace", lambda _, *of: seeded.discrete_laplace(*of))
        table, _ = run_weeks(project, spec, "2026-W03")
    assert ["No rows to be seen" in line for line in table.warnings] == [True]
    # One may be a holiday; three in a row are the end.
    for week in ("2026-W04", "2026-W05"):
        assert keys_of(tick())[0] == f"{week}-1"
        copy_pointers(project, "2026-W03", week)
    assert not tick().run_requests
    words = "the 3 windows up to 2026-W05 have next to no rows by their noisy counts"
    assert words in (tick().skip_message or "")
    # What is published by hand behind it is taken up again.
    copy_pointers(project, "2026-W02", "2026-W06")
    assert keys_of(tick()) == ["2026-W07-1"]


def test_a_tick_beyond_the_total_is_one_line(project: Project):
    spec = stream(project, ceiling={"each_window": "1", "total": "1"})
    run_weeks(project, spec, "2026-W01")
    tick = ticked(project, spec, "2026-01-14T06:00")
    assert not tick.run_requests
    assert "left 0.3, ceiling 1" in (tick.skip_message or "")


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
