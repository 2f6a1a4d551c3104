"""Executing a run again never pays for what it has paid for, not even where it was to draw anew."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dp_pipeline_tests.orchestration.projects import RIDES, Project

COST = Fraction("0.55")


@pytest.mark.parametrize("tag", ["dagster/parent_run_id", "dagster/parent_backfill_id"])
def test_a_new_draw_that_is_executed_again_replays_its_own_draw(tag: str, rides: Project):
    spec = rides.declare("rides", RIDES)
    rides.publish(spec)
    asked = {"partition": "0.5", "config": {"new_draw": True}}
    assert rides.launch(spec, "dpqt_kmeans", **asked).success
    assert rides.spent(spec) == 2 * COST
    assert rides.launch(spec, "dpqt_kmeans", **asked, tags={tag: "a" * 8}).success
    assert rides.spent(spec) == 2 * COST


def test_a_new_draw_of_its_own_draws_and_pays_once_more(rides: Project):
    spec = rides.declare("rides", RIDES)
    rides.publish(spec)
    assert rides.launch(spec, "dpqt_kmeans", partition="0.5", config={"new_draw": True}).success
    assert rides.spent(spec) == 2 * COST
