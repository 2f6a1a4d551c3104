"""Schedules and sensors in a real daemon: all that spend are off until somebody turns them on."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dp_pipeline.orchestration.renewal import SENSOR
from dp_pipeline_tests.stack.dagster_stack import DagsterStack

pytestmark = pytest.mark.stack

MONDAY = datetime(2026, 11, 23, 6, tzinfo=UTC)


def test_everything_but_the_report_sensor_is_off_at_the_start(stack: DagsterStack):
    schedules, sensors = stack.client.schedules(), stack.client.sensors()
    assert "rides_weekly" in schedules
    assert sensors.pop(SENSOR) == "RUNNING"
    assert set(schedules.values()) | set(sensors.values()) == {"STOPPED"}


def test_a_schedule_is_turned_on_and_off_by_hand(stack: DagsterStack):
    stack.client.start_schedule("rides_weekly")
    assert stack.client.schedules()["rides_weekly"] == "RUNNING"
    stack.client.stop_schedule("rides_weekly")
    assert stack.client.schedules()["rides_weekly"] == "STOPPED"


def test_tick_requests_the_published_model_at_its_epsilon(stack: DagsterStack):
    (request,) = stack.client.dry_run("rides_weekly", MONDAY.timestamp())
    assert request["runKey"] == "2026-W48-0.5"
    assert request["tags"]["dagster/partition"] == "0.5"
    selected = [one["path"] for one in request["assetSelection"]]
    assert selected == [["rides", "dpqt_kmeans"], ["rides", "evaluation"]]


def test_a_dry_run_starts_nothing(stack: DagsterStack):
    runs = stack.client.runs()
    stack.client.dry_run("rides_weekly", MONDAY.timestamp())
    assert stack.client.runs() == runs
