"""SIGKILL of any process of Dagster at random moments of a backfill: paid once, never broken."""

import random
from pathlib import Path

import pytest

from dp_pipeline_tests.orchestration.projects import Project
from dp_pipeline_tests.stack.accounts import (
    reading,
    replay_everything,
    require_nothing_uncounted,
    require_paid_once,
)
from dp_pipeline_tests.stack.city import declare_city, prepare
from dp_pipeline_tests.stack.dagster_stack import running_stack
from dp_pipeline_tests.stack.steward import VICTIMS, Kill, Killer, Steward

pytestmark = pytest.mark.stack


def kill_backfills(project: Project, *, kills: int, seed: int) -> list[Kill]:
    """Backfill snapshot after snapshot, with kills; check at every kill and at every end."""
    spec = declare_city(project)
    rounds = 0
    with reading(project.home.released) as reader, running_stack(project) as stack:
        steward = Steward(stack, spec)
        killer = Killer(steward, random.Random(seed))
        while len(killer.kills) < kills:
            rounds += 1
            prepare(project, spec, f"round-{rounds}")
            steward.begin(spec.partition_keys)
            while len(killer.kills) < kills and killer.kill_next():
                require_nothing_uncounted(project, spec)
            steward.finish()
            require_paid_once(project, spec, snapshots=rounds)
            replay_everything(project, spec)
    verified = project.cli("budget", "verify")
    assert verified.code == 0, verified.err
    assert not reader.broken
    assert len(reader.texts) == rounds * len(spec.models) * len(spec.partitions)
    return killer.kills


def test_backfill_killed_twenty_times_is_paid_once_and_whole(tmp_path: Path):
    project = Project(tmp_path)
    kills = kill_backfills(project, kills=20, seed=20)
    assert {kill.victim for kill in kills} == set(VICTIMS)
    # Kills that met nothing would prove nothing.
    resumed = {e.key for e in project.ledger.entries() if e.event == "interrupted"}
    assert len(resumed) >= 3, kills
