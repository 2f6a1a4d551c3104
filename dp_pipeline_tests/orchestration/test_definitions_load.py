"""Many data set files: what Dagster waits for when it loads them."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dp_pipeline.config.parser import load_spec
from dp_pipeline.orchestration.common import Pipeline
from dp_pipeline.orchestration.dataset import chain_definitions, pipeline_definitions
from dp_pipeline.releases.home import Home
from dp_pipeline_tests.orchestration.projects import HOMES, PLANTS, RIDES, Project

BOUND = 10.0
"""Seconds for 200 files of 6 models on an idle machine."""

SLACK = 3.0
"""Several people's work on the machine that the tests run on."""

WIDE: Mapping[str, Any] = {
    **HOMES,
    "ceiling": {"total": "100"},
    "attributes": {
        **{name: {"bounds": ["0", "8"], "bins": "8"} for name in ("x", "y", "z")},
        "job": {"levels": ["a", "b", "c", "d", "e"], "other": "e"},
        "sex": {"levels": ["f", "m"]},
    },
    "one_hot": "true",
    "nominal_rows": "10000",
    "partitions": ["0.1", "0.5", "1", "2"],
    "models": {
        name: {} for name in ("independent", "privbayes", "jtree", "priview", "privhd", "one_shot")
    },
}
"""Six models of a table at four ε."""


def _declared(project: Project, number: int) -> Path:
    bins = {"bounds": ["0", "100"], "bins": str(number % 50 + 2)}
    attributes = {**WIDE["attributes"], "age": bins}
    name = f"set{number}"
    return project.write_declaration(name, WIDE, population=name, attributes=attributes)


def _load(project: Project, paths: list[Path]) -> dg.Definitions:
    specs = tuple(load_spec(path) for path in paths)
    definitions = pipeline_definitions(specs, Pipeline(project.home))
    dg.Definitions.validate_loadable(definitions)
    return definitions


@pytest.mark.stack
def test_two_hundred_files_of_six_models_load_in_time(project: Project):
    """Processor time from the files to every job that Dagster shows, without any import."""
    paths = [_declared(project, number) for number in range(200)]
    # Whatever is imported late is imported by the first.
    _load(project, paths[:1])
    before = time.process_time()
    jobs = _load(project, paths).resolve_all_job_defs()
    seconds = time.process_time() - before
    assert len(jobs) == 3 * len(paths) + 1
    assert seconds < SLACK * BOUND, f"{seconds:.1f} s"


def test_a_job_knows_the_assets_of_its_own_data_set_alone(project: Project):
    specs = (project.declare("plants", PLANTS), project.declare("rides", RIDES))
    definitions = pipeline_definitions(specs, Pipeline(Home(Path("nowhere"))))
    for job in definitions.resolve_all_job_defs():
        if job.name.startswith("__"):
            continue
        graph = job.asset_layer.asset_graph
        datasets = {key.path[0] for key in graph.source_asset_graph.get_all_asset_keys()}
        assert datasets == {job.name.split("_")[0]}, job.name


def test_every_job_schedule_and_sensor_says_what_it_costs(project: Project):
    specs = [
        project.declare("rides", RIDES, updates="public"),
        project.declare("walks", RIDES, refresh="weekly"),
        project.declare("plants", PLANTS),
        project.declare("weeds", PLANTS, publish=None),
    ]
    chains = [chain_definitions(spec) for spec in specs]
    sensors = [sensor for chain in chains for sensor in chain.sensors or []]
    automatic = [schedule for chain in chains for schedule in chain.schedules or []] + sensors
    jobs = [job for chain in chains for job in chain.jobs or []]
    described = {definition.name: definition.description or "" for definition in jobs + automatic}
    assert len(described) == 4 * 3 + 3 + 3 + 3
    assert {"rides_weekly", "walks_weekly_refresh", "plants_new_rows"} <= set(described)
    assert {definition.default_status.value for definition in automatic} == {"STOPPED"}
    assert all((sensor.minimum_interval_seconds or 0) >= 60 for sensor in sensors)
    for name, text in described.items():
        assert "pends nothing" in text or "0.55" in text or "ε=" in text, (name, text)


def test_backfill_says_its_limits_and_where_to_see_what_is_left(project: Project):
    limited = project.declare("rides", RIDES, ceiling={"total": "3", "per_month": "1"})
    jobs = {job.name: job.description or "" for job in chain_definitions(limited).jobs or []}
    description = jobs["rides_epsilon_backfill"]
    assert "cost ε=0.7 of 3, at most 1 a month" in description
    assert "`dp-pipeline plan rides`" in description
