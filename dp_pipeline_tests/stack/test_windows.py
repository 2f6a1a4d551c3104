"""Windows in a real Dagster: a killed backfill, and runs of the daemon: every window once."""

import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.dataset import WINDOW, DatasetSpec
from dp_pipeline.config.windows import range_text
from dp_pipeline.ledger import Entry
from dp_pipeline.orchestration.jobs import epsilon_run_assets, raw_stages
from dp_pipeline.orchestration.partitions import partition_key, window_of_key
from dp_pipeline.releases.outcome import published_windows
from dp_pipeline.results.bundle import LEARNED
from dp_pipeline_tests.orchestration.projects import Project
from dp_pipeline_tests.orchestration.streams import EACH, STREAM, TABLES, TREES, ticked
from dp_pipeline_tests.stack.accounts import charges, drawn_keys, unfinished
from dp_pipeline_tests.stack.dagster_stack import CODE, DagsterStack, running_stack
from dp_pipeline_tests.stack.processes import wait_for
from dp_pipeline_tests.stack.steward import Steward, is_at_a_release

pytestmark = pytest.mark.stack

SCHEDULE, SCHEDULE_TAG = "stream_each_window", "dagster/schedule_name"

# Weeks that are over on whatever day the servers run.
WEEKS = tuple(f"2024-W0{n}" for n in range(1, 6))
CHANGES: dict[str, Any] = {
    "windows": {"column": "ended", "every": "week", "first": WEEKS[0]},
    "ceiling": {"each_window": "0.85"},
    "publish": [TREES, {**TABLES, "span": "2"}],
}


def rides(monday: date = date(2024, 1, 1), many: int = 300) -> list[str]:
    """So many rides of 90 riders in every of five weeks."""
    rng, lines = np.random.default_rng(5), ["rider,ended,x,y,kind"]
    for week in range(len(WEEKS)):
        for number in range(many):
            day = monday + timedelta(7 * week + number % 7)
            x, y = rng.uniform(0, 8), rng.uniform(0, 4)
            kind = "car" if number % 3 else "bike"
            lines.append(f"r{number % 90},{day}T12:00:00Z,{x:.2f},{y:.2f},{kind}")
    return lines


class WeeklySteward(Steward):
    """Backfills by the command that a person would type, over all weeks that are missing."""

    def _launch(self, partitions: Sequence[str]) -> None:
        weeks = [str(window_of_key(self.spec.time_windows, epsilon)) for epsilon in partitions]
        known = set(self.stack.client.backfills())
        words = ("-m", "dp_pipeline.cli", "backfill", self.spec.name, "--window", range_text(weeks))
        options = {"env": self.stack.shell, "cwd": self.stack.project.folder, "timeout": 300}
        subprocess.run([sys.executable, *words], check=True, **options)
        self.backfills += set(self.stack.client.backfills()) - known
        self.launches += 1


def killed_in_the_middle(stack: DagsterStack, steward: Steward) -> set[str]:
    """End the code server and its runs amid a release; gives the keys that it left unfinished."""

    def is_in_the_middle() -> bool:
        published = published_windows(steward.spec, stack.project.home)
        at_work = any(map(is_at_a_release, stack.workers()))
        return bool(published) and at_work and bool(unfinished(stack.project, steward.spec))

    wait_for(is_in_the_middle, what="a release of a later week that is not finished")
    stack.kill_with_children(CODE)
    assert 0 < len(published_windows(steward.spec, stack.project.home)) < len(WEEKS) - 1
    return unfinished(stack.project, steward.spec)


def test_killed_backfill_over_weeks_pays_for_every_week_once(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("dp_pipeline_tests.stack.processes.POLL_SECONDS", 0.02)
    project = Project(tmp_path)
    project.datasets.mkdir(parents=True)
    project.write_rows("stream.csv", rides())
    spec = project.declare("stream", STREAM, **CHANGES)
    keys = [partition_key(spec.time_windows, week) for week in WEEKS]
    # The first week is read, for the release of two weeks that ends with the second.
    assert project.launch(spec, *raw_stages(spec), partition=keys[0]).success
    with running_stack(project) as stack:
        steward = WeeklySteward(stack, spec)
        steward.begin(keys[1:])
        left = killed_in_the_middle(stack, steward)
        before = charges(project.ledger, spec.population)
        assert left, "a kill that met nothing would prove nothing"
        stack.restart(CODE)
        steward.finish()
    assert steward.launches == 2
    require_every_week_once(project, spec)
    after = project.ledger.entries(spec.population)
    assert {one.key for one in after if one.event == "interrupted"} >= left
    assert before.items() <= charges(project.ledger, spec.population).items()


def settled_of(project: Project, spec: DatasetSpec) -> list[Entry]:
    return [entry for entry in project.ledger.entries(spec.population) if entry.event == "settled"]


def require_every_week_once(project: Project, spec: DatasetSpec) -> None:
    """Of every week one snapshot, one settled release of each model, and what they cost."""
    paid = charges(project.ledger, spec.population)
    settled = settled_of(project, spec)
    assert sorted(str(entry.key) for entry in settled) == sorted(paid), "each is settled, once"
    assert drawn_keys(project, spec.name) == set(paid)
    begun = [project.ledger.history(str(entry.key))[0].facts for entry in settled]
    pairs = [f"{first}..{last}" for first, last in itertools.pairwise(WEEKS)]
    assert Counter(one[WINDOW] for one in begun) == Counter((*WEEKS[1:], *pairs))
    blocks = {week: float(spent) for week, spent in project.ledger.blocks(spec.population).items()}
    # A week pays for itself, and for each of the two releases that read it; an end for one.
    both, first, last = 0.55 + 2 * 0.15, 0.15, 0.55 + 0.15
    assert blocks == pytest.approx(dict(zip(WEEKS, (first, *[both] * 3, last), strict=True)))
    folders = {path.name for path in (project.home.raw / spec.name).iterdir() if path.is_dir()}
    assert folders == set(WEEKS), "a week is read once"
    learned = {one[WINDOW] for one in begun if LEARNED in one}
    assert learned <= set(WEEKS[2:])
    assert published_windows(spec, project.home) == WEEKS[1:]
    project.ledger.verify()


def last_mondays(many: int) -> list[date]:
    """Those of so many weeks that are over, oldest first. Nothing is asked on the morning on which
    one more week ends.
    """
    today = datetime.now(UTC).date()
    this_week = today - timedelta(today.weekday() + (7 if today.weekday() == 0 else 0))
    return [this_week - timedelta(7 * back) for back in range(many, 0, -1)]


def test_daemon_by_itself_starts_run_for_every_week_missed(tmp_path: Path):
    """Of three weeks that are over one is published: its schedule is turned on, and that is all."""
    mondays, project = last_mondays(3), Project(tmp_path)
    first, *missed = weeks = [f"{monday:%G-W%V}" for monday in mondays]
    project.datasets.mkdir(parents=True)
    project.write_rows("stream.csv", rides(mondays[0], many=60))
    windows = {"column": "ended", "every": "week", "first": first}
    spec = project.declare("stream", STREAM, windows=windows)
    assert project.launch(spec, *epsilon_run_assets(spec), partition=f"{first}-1").success
    with running_stack(project) as stack:
        stack.client.start_schedule(SCHEDULE)
        assert stack.tick_as_after_a_pause(SCHEDULE) == "SUCCESS"
        for run in stack.client.runs():
            stack.wait_run(run.id)
        runs = [run for run in stack.client.runs() if SCHEDULE_TAG in run.tags]
        assert {run.tags[SCHEDULE_TAG] for run in runs} == {SCHEDULE}
        assert {run.status for run in runs} == {"SUCCESS"}
        assert sorted(str(run.partition) for run in runs) == [f"{week}-1" for week in missed]
    assert not ticked(project, spec, datetime.now(UTC).isoformat(), SCHEDULE).run_requests
    assert published_windows(spec, project.home) == tuple(weeks)
    assert project.ledger.blocks(spec.population) == dict.fromkeys(weeks, EACH)
    settled = settled_of(project, spec)
    assert len({entry.key for entry in settled}) == len(settled) == 2 * len(weeks)
    project.ledger.verify()
