"""What a newcomer finds: every group, columns before any run, all that runs by itself stopped
until it is switched on."""

import re

import pytest

from dp_pipeline.orchestration.renewal import SENSOR
from dp_pipeline_tests.stack.processes import wait_for
from dp_pipeline_tests.ui.browser import PATIENCE
from dp_pipeline_tests.ui.dagster_ui import DagsterUi

pytestmark = pytest.mark.ui

GROUPS = "query { assetNodes { groupName } }"


def test_the_lineage_page_shows_every_group(ui: DagsterUi):
    groups = {node["groupName"] for node in ui.stack.client.ask(GROUPS)["assetNodes"]}
    assert {name for name in groups if re.match(r"rides_\d", name)} == {
        "rides_1_raw",
        "rides_2_release",
        "rides_3_monitoring",
    }
    # The list holds what fits on the screen, and shortens names in the middle.
    ui.resize(1400, 40 * len(groups) + 400)
    ui.open_lineage()
    for group in groups:
        ui.page.get_by_role("button", name=re.compile(f" {group}$")).wait_for()


def test_the_columns_of_a_release_are_reported_before_any_run(ui: DagsterUi):
    ui.open_asset("homes/one_shot")
    ui.sees("Never materialized")
    for column, told in (("rooms", "1 to 9"), ("rent", "0 to 3000"), ("tenure", "owner")):
        assert told in ui.metadata(column).inner_text()


def test_everything_but_the_report_sensor_is_stopped(ui: DagsterUi):
    from playwright.sync_api import expect

    states = ui.stack.client.schedules() | ui.stack.client.sensors()
    assert "rides_weekly" in states
    assert {name for name, state in states.items() if state != "STOPPED"} == {SENSOR}
    ui.resize(1400, 70 * len(states) + 400)
    ui.open("automation")
    for name in states:
        ui.sees(name)
    # One box to choose each, one switch each, one box to choose all. The page first draws all
    # switches off, and turns those on whose state it then fetches.
    boxes = ui.page.locator("input[type=checkbox]")
    expect(boxes.nth(2 * len(states))).to_be_attached(timeout=PATIENCE)
    switched = ui.page.locator("input[type=checkbox]:checked")
    expect(switched).to_have_count(1, timeout=PATIENCE)


def test_a_schedule_is_switched_on_and_off_on_its_page(ui: DagsterUi):
    name, states = "rides_weekly", ui.stack.client.schedules
    ui.open_schedule(name)
    for state in ("RUNNING", "STOPPED"):
        # A switch is drawn for the box, which itself is not to be seen.
        ui.page.locator("label:has(input[type=checkbox])").first.click()
        wait_for(lambda state=state: states()[name] == state, what=f"{name} is {state}")
