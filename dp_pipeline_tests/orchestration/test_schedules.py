"""The weekly schedules: by the calendar alone, off by default, refused before anything is read."""

import re
from datetime import UTC, datetime
from fractions import Fraction

import dagster as dg
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.ledger import Account
from dp_pipeline.orchestration.dataset import chain_definitions
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.streams import ticked

pytestmark = pytest.mark.chain

MONDAY = datetime(2026, 11, 16, 6, tzinfo=UTC)
WEEK = "2026-W47"
REFRESHED = {"refresh": "weekly"}


def answer(
    project: Project, spec: DatasetSpec, time: datetime = MONDAY
) -> dg.RunRequest | dg.SkipReason:
    """What the schedule of a data set says at a tick."""
    (schedule,) = chain_definitions(spec).schedules or []
    tick = ticked(project, spec, time.isoformat(), schedule.name)
    return tick.run_requests[0] if tick.run_requests else dg.SkipReason(tick.skip_message)


def launched(project: Project, spec: DatasetSpec, request: dg.RunRequest, job: str) -> bool:
    """Whether the run that was asked for ends well."""
    assets = list(request.asset_selection or []) or None
    options = {"run_config": request.run_config, "asset_selection": assets}
    return project.run_job(spec, job, request.partition_key, **options).success


def test_refreshed_data_set_has_one_schedule_which_is_off(project: Project):
    plain = chain_definitions(project.declare("rides", RIDES)).schedules or []
    fresh = chain_definitions(project.declare("rides", RIDES, **REFRESHED)).schedules or []
    assert [schedule.name for schedule in plain] == ["rides_weekly"]
    assert [schedule.name for schedule in fresh] == ["rides_weekly_refresh"]
    assert {schedule.default_status for schedule in (*plain, *fresh)} == {
        dg.DefaultScheduleStatus.STOPPED
    }


def test_a_refresh_requests_one_run_on_the_snapshot_of_its_week(project: Project):
    spec = project.declare("rides", RIDES, **REFRESHED)
    request = answer(project, spec)
    assert isinstance(request, dg.RunRequest)
    assert (request.run_key, request.partition_key) == (f"{WEEK}-0.5", "0.5")
    assert request.run_config == {"ops": {"rides__ingested": {"config": {"snapshot": WEEK}}}}
    first = answer(project, spec, datetime(2027, 1, 1, 6, tzinfo=UTC))
    assert first.run_config["ops"]["rides__ingested"]["config"]["snapshot"] == "2026-W53"


def test_week_is_charged_once_changed_or_not_and_next_one_again(project: Project):
    spec = project.declare("rides", RIDES, **REFRESHED)
    for week, (day, spent) in {"2026-W47": (16, "0.55"), "2026-W48": (23, "1.1")}.items():
        request = answer(project, spec, MONDAY.replace(day=day))
        assert isinstance(request, dg.RunRequest)
        assert launched(project, spec, request, "rides_new_snapshot")
        assert project.snapshot(spec).id == week
        assert project.spent(spec) == Fraction(spent)
    # The same week once more, as by hand: its snapshot and its release are there.
    again = answer(project, spec, MONDAY.replace(day=23))
    assert isinstance(again, dg.RunRequest)
    assert launched(project, spec, again, "rides_new_snapshot")
    assert project.spent(spec) == Fraction("1.1")


def test_ticks_do_not_depend_on_rows(rides: Project):
    spec = rides.declare("rides", RIDES, **REFRESHED)
    before = answer(rides, spec)
    rides.write_rows("rides.csv", ["rider,x,y", "zoe,8,4"])
    assert answer(rides, spec) == before
    (rides.datasets / "rides.csv").unlink()
    assert answer(rides, spec) == before


@pytest.mark.parametrize("changes", [{}, REFRESHED], ids=["published", "refreshed"])
def test_week_beyond_the_total_is_one_line_and_writes_nothing(
    changes: dict[str, str], rides: Project
):
    spec = rides.declare("rides", RIDES, **changes)
    rides.spend("2.5")
    before = rides.files()
    tick = answer(rides, spec)
    assert isinstance(tick, dg.SkipReason)
    assert str(tick.skip_message).startswith(
        "rides refused by population riders: requested ε=0.55, spent 2.5, left 0.5, ceiling 3; "
    )
    assert rides.files() == before


def test_week_beyond_the_month_is_one_line_and_writes_nothing(project: Project):
    spec = project.declare("rides", RIDES, **REFRESHED, ceiling={"total": "3", "per_month": "0.6"})
    request = answer(project, spec)
    assert isinstance(request, dg.RunRequest)
    assert launched(project, spec, request, "rides_new_snapshot")
    before = project.files()
    tick = answer(project, spec, MONDAY.replace(day=23))
    assert isinstance(tick, dg.SkipReason)
    line = r"requested ε=0\.55, spent in \d{4}-\d\d 0\.55, left 0\.05, per_month 0\.6; "
    assert re.search(line, tick.skip_message or "")
    assert project.files() == before


def test_publication_paid_is_replayed_however_little_is_left(released_rides: Project):
    project = released_rides
    spec = project.declare("rides", RIDES)
    project.spend("2.4")
    request = answer(project, spec)
    assert isinstance(request, dg.RunRequest)
    assert launched(project, spec, request, "rides_epsilon_backfill")
    assert project.spent(spec) == Fraction("2.95")


def test_file_that_disagrees_with_its_account_turns_tick_red(rides: Project):
    spec = rides.declare("rides", RIDES, population="walkers")
    rides.ledger.open_account(Account("walkers", "one row", "add_remove", "release", Fraction(9)))
    with pytest.raises(dg.DagsterError) as red:
        answer(rides, spec)
    assert isinstance(red.value.__cause__, DeclarationError)
    assert "population walkers: the account was opened with" in str(red.value.__cause__)
