"""Backfills over ε: shown and refused beforehand, continued without paying twice."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any
from unittest.mock import Mock

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.orchestration import jobs
from dp_pipeline.orchestration.jobs import MAX_SILENCE, backfill_job_name, require_daemon
from dp_pipeline.raw import prepare
from dp_pipeline.raw.snapshot import forget_preparation
from dp_pipeline.releases.noisy_release import NoisyDrawing
from dp_pipeline_tests.orchestration.projects import RIDES, Project

pytestmark = pytest.mark.chain

EPSILONS = ("0.1", "0.2", "0.3", "0.4")
MODELS = {"dpqt_kmeans": {"k": "3", "nominal_rows": "40"}, "eug_kmeans": {"k": "3"}}
SWEPT = {"partitions": list(EPSILONS), "publish": None, "models": MODELS}
PRICE = 2 * (Fraction("1.0") + 4 * Fraction("0.05"))
"""Two models at four ε, each with its evaluation."""


def swept(project: Project, spec: DatasetSpec) -> list[bool]:
    job = backfill_job_name(spec)
    return [project.run_job(spec, job, epsilon).success for epsilon in EPSILONS]


def reserved(project: Project) -> Counter[str]:
    entries = project.ledger.entries("riders")
    return Counter(entry.what for entry in entries if entry.event == "reserve")


@pytest.fixture
def spec(rides: Project) -> DatasetSpec:
    return rides.declare("rides", RIDES, **SWEPT)


def failing(monkeypatch, *, draws: tuple[int, ...], after: bool) -> None:
    """Some of the next draws end in an error, before or after their noise was drawn."""
    real, done = NoisyDrawing.draw, iter(range(100))

    def draw(*arguments: Any, **named: Any) -> object:
        is_lost = next(done) in draws
        bundle = real(*arguments, **named) if after or not is_lost else None
        if is_lost:
            raise RuntimeError("injected")
        return bundle

    monkeypatch.setattr(NoisyDrawing, "draw", draw)


@pytest.mark.parametrize("after", [False, True], ids=["before the noise", "after the noise"])
def test_half_failed_backfill_pays_what_is_left(after, rides, spec, monkeypatch):
    with monkeypatch.context() as patch:
        failing(patch, draws=(1, 4), after=after)
        first = swept(rides, spec)
    assert first.count(False) == 2
    paid = rides.spent(spec)
    assert paid <= PRICE
    assert swept(rides, spec) == [True] * 4
    assert rides.spent(spec) == PRICE
    assert set(reserved(rides).values()) == {1}
    assert len(reserved(rides)) == 8
    assert swept(rides, spec) == [True] * 4
    assert rides.spent(spec) == PRICE, "the third launch replays"


def test_backfill_that_ends_at_ceiling_goes_on_where_it_stopped(rides: Project):
    tight = rides.declare("rides", RIDES, **SWEPT)
    rides.spend("1.5")
    # 0.3, 0.5, 0.7 and 0.9 into 1.5 that is left: the fourth fits with neither of its models.
    assert swept(rides, tight) == [True, True, True, False]
    assert rides.spent(tight) == 3
    rides.ledger.raise_ceiling("riders", total=Fraction(4), per_month=None, reason="more", by="ana")
    raised = rides.declare("rides", RIDES, **SWEPT, ceiling={"total": "4"})
    assert swept(rides, raised) == [True] * 4
    assert rides.spent(raised) == Fraction("1.5") + PRICE
    assert set(reserved(rides).values()) == {1}


def test_a_backfill_needs_a_daemon_that_was_heard_of_lately():
    now, instance = 1_000_000.0, Mock()
    beats = instance.get_daemon_heartbeats
    beats.return_value = {jobs.QUEUE_DAEMON: Mock(timestamp=now - MAX_SILENCE)}
    require_daemon(instance, now=now)
    for silent in ({}, {jobs.QUEUE_DAEMON: Mock(timestamp=now - MAX_SILENCE - 1)}):
        beats.return_value = silent
        with pytest.raises(PipelineError, match="The backfill needs a running Dagster daemon"):
            require_daemon(instance, now=now)


def test_a_backfill_before_rows_are_prepared_prepares_them_once(project: Project):
    spec = project.declare("rides", RIDES, **SWEPT)
    assert swept(project, spec) == [True] * 4
    assert project.spent(spec) == PRICE
    stored = project.files("raw")
    project.write_rows("rides.csv", ["rider,x,y", "zoe,8,4"])
    assert swept(project, spec) == [True] * 4
    assert project.files("raw") == stored, "prepared rows stay as they are"
    assert project.cli_here("data", "retire", "rides", "--yes").code == 0
    assert swept(project, spec) == [True] * 4
    assert project.spent(spec) == PRICE


def test_runs_that_prepare_the_same_rows_at_once_store_them_once(rides: Project, monkeypatch):
    spec, storing = rides.declare("rides", RIDES), Mock(side_effect=prepare.store_parts)
    forget_preparation(rides.snapshot(spec))
    monkeypatch.setattr(prepare, "store_parts", storing)

    def normalize(_: int) -> None:
        prepare.prepare_stage(spec, rides.snapshot(spec), "normalized", again=False)

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(normalize, range(4))) == [None] * 4
    stages = [call.args[1] for call in storing.call_args_list]
    assert stages == ["normalized", "left_out"]
    prepare.mark_prepared(spec, rides.snapshot(spec))


def test_command_refuses_what_does_not_fit_without_a_daemon(rides: Project):
    rides.declare("rides", RIDES)
    rides.spend("2.5")
    result = rides.cli_here("backfill", "rides", "--epsilon", "0.5")
    assert result.code == 3
    assert "requested ε=0.55, spent 2.5, left 0.5, ceiling 3" in result.err
