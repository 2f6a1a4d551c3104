"""Releases week by week, by clicks: a backfill over windows, a tick of the schedule, the strip."""

from fractions import Fraction

import pytest

from dp_pipeline_tests.ui.conftest import Tab
from dp_pipeline_tests.ui.dagster_ui import DagsterUi
from dp_pipeline_tests.ui.pictures import keep_picture

pytestmark = pytest.mark.ui

EACH = Fraction(55, 100)


@pytest.fixture(scope="module", autouse=True)
def weeks(tab: Tab) -> None:
    """The first two weeks, by the dialog of the job; then the reports."""
    with tab() as ui:
        ui.wait_for_runs()
        ui.open_job("weeks_windows")
        ui.materialize_windows("2026-W01-1", "2026-W02-1")
        ui.follow("100% completed")
        ui.wait_for_runs()
        ui.open_job("weeks_report")
        ui.materialize()
        ui.follow("Success")


def test_a_backfill_over_windows_charges_each_of_them_once(ui: DagsterUi):
    spent = ui.stack.project.ledger.blocks("weekly_riders")
    assert spent == {"2026-W01": EACH, "2026-W02": EACH}


def test_windows_are_the_partitions_of_a_model(ui: DagsterUi):
    ui.open_asset("weeks/htree_kmeans", view="partitions", partition="2026-W02-1")
    assert ui.metadata("privacy/planned from").inner_text().count("weeks/htree_kmeans/") == 1
    card = ui.opened(ui.metadata("release card")).inner_text()
    assert "one week of one person" in card
    assert "A person in every week of a year" in card
    keep_picture(ui.page, "window")


def test_the_budget_shows_a_strip_of_windows(ui: DagsterUi):
    ui.open_asset("weeks/budget")
    ui.metadata("privacy/windows").wait_for()
