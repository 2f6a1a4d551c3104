"""Releases of two weeks together, by clicks: the dialog of the backfill, the grid of partitions,
and the ticks of the schedule.

The weeks are the last four before today: a tick asks for the newest one that is over.
"""

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from dp_pipeline_tests.ui.conftest import Tab
from dp_pipeline_tests.ui.dagster_ui import DagsterUi
from dp_pipeline_tests.ui.pictures import keep_picture
from dp_pipeline_tests.ui.town import PAIR_WEEKS, monday_before

NOW = datetime.now(UTC)
IS_LATE = NOW.isoweekday() == 7 and NOW.hour >= 22
pytestmark = [pytest.mark.ui, pytest.mark.skipif(IS_LATE, reason="one more week ends meanwhile")]

EACH = Fraction(55, 100)
"""What a release costs each of the two weeks that it is of."""
FIRST, SECOND, THIRD, NEWEST = PAIR_WEEKS
KEYS = [f"{week}-1" for week in PAIR_WEEKS]
SCHEDULE = "pairs_each_window"
OF_A_TENTH = "ops: {pairs__htree_kmeans: {config: {epsilon: '0.1'}}}"
TUESDAY, WEDNESDAY = (monday_before(0) + timedelta(days=day) for day in (1, 2))
"""Days of this week: its tick asks for all weeks before, whatever the day is today."""


@pytest.fixture(scope="module", autouse=True)
def pairs(tab: Tab) -> None:
    """The rows of the first week, which is free; then the second and the third by the dialog."""
    with tab() as ui:
        ui.wait_for_runs()
        ui.open_job("pairs_prepare")
        ui.materialize_windows(KEYS[0], KEYS[0])
        ui.sees(re.compile("Launched run|Created backfill"))
        ui.wait_for_runs()
        ui.open_job("pairs_windows")
        ui.materialize_windows(KEYS[1], KEYS[2])
        ui.follow("100% completed")
        ui.wait_for_runs()


@pytest.fixture(scope="module")
def ticked(tab: Tab, pairs: None) -> None:  # noqa: ARG001
    """The tick of Tuesday, launched from its preview; what it asks for has run."""
    with tab() as ui:
        ui.preview_tick(SCHEDULE, TUESDAY)
        ui.page.get_by_role("button", name="Launch all & commit tick result").click()
        ui.page.get_by_role("dialog").last.wait_for(state="hidden")
        ui.wait_for_runs()


def spent(ui: DagsterUi) -> dict[str, Fraction]:
    return ui.stack.project.ledger.blocks("pair_riders")


def test_backfill_over_pairs_of_weeks_charges_both_weeks_of_each(ui: DagsterUi):
    assert {week: spent(ui)[week] for week in PAIR_WEEKS[:2]} == {FIRST: EACH, SECOND: 2 * EACH}


def test_the_dialog_offers_weeks_and_says_what_each_of_them_pays(ui: DagsterUi):
    ui.open_job("pairs_windows")
    ui.sees("of 2 weeks that end with it, for ε=0.55 of each")
    ui.page.get_by_role("button", name=re.compile("Materialize all")).click()
    dialog = ui.page.get_by_role("dialog").first
    dialog.get_by_text(KEYS[0], exact=True).wait_for()
    dialog.get_by_text(KEYS[-1], exact=True).wait_for()
    keep_picture(ui.page, "two_weeks_backfill")
    dialog.get_by_role("button", name="Cancel").click()


def test_the_grid_shows_a_pair_of_weeks_at_the_last_of_them(ui: DagsterUi):
    ui.open_asset("pairs/htree_kmeans", view="partitions", partition=KEYS[1])
    card = ui.opened(ui.metadata("release card")).inner_text()
    assert f"of the rows of 2 weeks together, {FIRST}..{SECOND}" in " ".join(card.split())
    ui.page.keyboard.press("Escape")
    for key in KEYS:
        ui.sees(key)
    # The first week has no other before it: nothing ends with it.
    ui.sees(re.compile(r"Missing \([12]\)"))
    keep_picture(ui.page, "two_weeks")


@pytest.mark.usefixtures("ticked")
def test_a_tick_runs_the_newest_week_and_its_partition_is_there(ui: DagsterUi):
    assert spent(ui) == {FIRST: EACH, SECOND: 2 * EACH, THIRD: 2 * EACH, NEWEST: EACH}
    (run,) = [run for run in ui.stack.client.runs() if run.partition == KEYS[-1]]
    assert run.tags["dagster/schedule_name"] == SCHEDULE
    ui.open("runs")
    ui.sees(f"partition: {KEYS[-1]}")
    keep_picture(ui.page, "tick")
    ui.open(f"runs/{run.id}")
    ui.sees(f"partition: {KEYS[-1]}")
    ui.ends("Success")
    ui.open_asset("pairs/htree_kmeans", view="partitions", partition=KEYS[-1])
    ui.sees("Missing (1)")
    ui.sees("Materialized (3)")
    card = ui.opened(ui.metadata("release card")).inner_text()
    assert f"of the rows of 2 weeks together, {THIRD}..{NEWEST}" in " ".join(card.split())


@pytest.mark.usefixtures("ticked")
def test_a_second_tick_finds_every_week_published(ui: DagsterUi):
    ui.preview_tick(SCHEDULE, WEDNESDAY)
    ui.sees("pairs: every closed window that may have rows is published")
    assert ui.page.get_by_role("button", name=re.compile("^Launch all")).count() == 0


@pytest.mark.usefixtures("ticked")
def test_another_epsilon_of_a_week_publishes_nothing(ui: DagsterUi):
    """The sweep over ε is a field of the dialog, and no partition."""
    before, tenth = spent(ui), Fraction(15, 100)
    ui.open_asset("pairs/htree_kmeans")
    ui.materialize_windows(KEYS[3], KEYS[3], config=OF_A_TENTH)
    ui.follow()
    ui.wait_for_runs()
    assert spent(ui) == before | {THIRD: before[THIRD] + tenth, NEWEST: before[NEWEST] + tenth}
    ui.open_asset("pairs/htree_kmeans", view="partitions", partition=KEYS[3])
    assert ui.metadata("privacy/epsilon").get_by_text("0.15", exact=True).count() == 1
