"""STREAM: rides of one town, released week by week; and what runs over some of its weeks."""

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import dagster as dg
import numpy as np

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration.common import RESOURCE, Pipeline
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline_tests.orchestration.projects import Project, definitions_of

HTREE = {"k": "2", "columns": "x y", "plan_from": "previous", "smooth": "true"}
TREES = {"model": "htree_kmeans", "epsilon": "0.5"}
TABLES = {"model": "independent", "epsilon": "0.1"}
STREAM: dict[str, Any] = {
    "description": "Rides of one town, week by week: sensitive.",
    "population": "riders",
    "purpose": "release",
    "protection": {"unit": "rows_of_person", "column": "rider", "at_most": "2", "within": "window"},
    "windows": {"column": "ended", "every": "week", "first": "2026-W01", "grace": "2 days"},
    "ceiling": {"each_window": "1.4"},
    "source": {"kind": "csv", "path": "stream.csv"},
    "attributes": {
        "x": {"bounds": ["0", "8"], "bins": "4"},
        "y": {"bounds": ["0", "4"], "bins": "2"},
        "kind": {"levels": ["bike", "car"]},
    },
    "partitions": ["0.1", "0.5"],
    "models": {"htree_kmeans": HTREE, "independent": {}},
    "publish": [TREES, TABLES],
    "evaluation": {"epsilon": "0.05"},
}
HEAD = "rider,ended,x,y,kind"
WEEKS = ("2026-W01", "2026-W02", "2026-W03")
MONDAY = {"2026-W01": "2025-12-29", "2026-W02": "2026-01-05", "2026-W03": "2026-01-12"}
EACH = Fraction(7, 10)
"""What is published of a week: 0.5 and 0.1, and an evaluation of each."""


def rides(week: str, many: int = 40) -> list[str]:
    """Rows of one week, the last of them in its last second."""
    rng = np.random.default_rng(int(week[-2:]))
    x, y = rng.uniform(0, 8, many), rng.uniform(0, 4, many)
    day = MONDAY[week]
    last = ["2026-01-04", "2026-01-11", "2026-01-18"][WEEKS.index(week)]
    times = [f"{day}T00:00:00Z", *[f"{day}T12:{n % 60:02d}:00Z" for n in range(many - 2)]]
    times.append(f"{last}T23:59:59Z")
    return [
        f"r{n % 15},{time},{x[n]:.2f},{y[n]:.2f},{'car' if n % 3 else 'bike'}"
        for n, time in enumerate(times)
    ]


def stream(project: Project, **changes: Any) -> DatasetSpec:
    project.datasets.mkdir(parents=True, exist_ok=True)
    if not (project.datasets / "stream.csv").exists():
        lines = [HEAD, *(line for week in WEEKS for line in rides(week)), "r99,,1,1,car"]
        project.write_rows("stream.csv", lines)
    return project.declare("stream", STREAM, **changes)


def one_off(project: Project, **changes: Any) -> DatasetSpec:
    """Return STREAM as it is declared before anybody thinks of weeks."""
    stream(project)
    of_person = {name: text for name, text in STREAM["protection"].items() if name != "within"}
    once: dict[str, Any] = {"windows": None, "protection": of_person, "ceiling": {"total": "4"}}
    once |= {"models": {"independent": {}}, "publish": {"model": "independent", "epsilon": "0.5"}}
    return project.declare("stream", STREAM, **{**once, **changes})


def week_options(
    project: Project, spec: DatasetSpec, *weeks: str, epsilon: str = "", **options: Any
) -> list[RunOptions]:
    """Return the options of a run over each week: what is published, or a sweep at one ε."""
    names, levels = EpsilonRelease.names(spec), [epsilon] if epsilon else ["0.1", "0.5"]
    options |= {"noise_name": "opendp", "published": not epsilon}
    options_of_stream = RunOptions(spec, EpsilonRelease, names, levels, project.home, **options)
    return [options_of_stream.of_window(week) for week in weeks or WEEKS]


def all_windows(options: list[RunOptions]) -> RunOptions:
    windows = tuple(week.spec.window for week in options)
    return replace(options[0], spec=options[0].spec.of_all_windows(), windows=windows)


def run_weeks(project: Project, spec: DatasetSpec, *weeks: str, **options: Any) -> list[Any]:
    return project.execute(all_windows(week_options(project, spec, *weeks, **options)))


def ticked(
    project: Project, spec: DatasetSpec, moment: str, name: str = "stream_each_window"
) -> Any:
    """Return what a schedule answers at a moment in UTC."""
    definitions = definitions_of(spec, project.home)
    schedule = definitions.resolve_schedule_def(name)
    time = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    context = dg.build_schedule_context(
        scheduled_execution_time=time,
        repository_def=definitions.get_repository_def(),
        resources={RESOURCE: Pipeline(project.home)},
    )
    return schedule.evaluate_tick(context)
