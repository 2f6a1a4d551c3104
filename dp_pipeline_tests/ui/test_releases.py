"""What a steward does by clicks: one partition, a backfill; what is checked of them."""

from fractions import Fraction

import pytest

from dp_pipeline_tests.ui.dagster_ui import DagsterUi

pytestmark = pytest.mark.ui

CHECKS = 5
"""On every release with an ε."""


@pytest.mark.usefixtures("released")
def test_click_on_one_partition_ends_green_and_is_charged(ui: DagsterUi):
    assert ui.spent == Fraction("0.55")
    ui.open_asset("rides/eug_kmeans", view="partitions", partition="0.5")
    ui.sees("Materialized")
    assert "charged" in ui.metadata("privacy/state").inner_text()
    assert "0.55" in ui.metadata("privacy/epsilon").inner_text()


@pytest.mark.usefixtures("released")
def test_every_check_of_a_release_is_green(ui: DagsterUi):
    ui.open_asset("rides/eug_kmeans", view="checks")
    ui.page.get_by_text("Succeeded", exact=True).nth(CHECKS - 1).wait_for()
    assert ui.page.get_by_text("Failed", exact=True).count() == 0


@pytest.mark.usefixtures("swept")
def test_backfill_from_the_dialog_pays_what_is_missing(ui: DagsterUi):
    assert ui.spent == Fraction("1.75")
    assert all(run.status == "SUCCESS" for run in ui.stack.client.runs())
    ui.open_asset("rides/eug_kmeans", view="partitions", partition="0.5")
    ui.sees("Materialized (3)")
    assert "replayed" in ui.metadata("privacy/state").inner_text()


@pytest.mark.usefixtures("swept")
def test_a_check_warns_when_80_percent_are_spent(ui: DagsterUi):
    ui.open_asset("rides/eug_kmeans", view="checks")
    ui.page.get_by_text("Succeeded", exact=True).nth(CHECKS - 2).wait_for()
    ui.sees("Warns when 80 % of the ceiling")
    ui.sees("Failed")
