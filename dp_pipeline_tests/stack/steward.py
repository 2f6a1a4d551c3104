"""What a steward does in the UI when a backfill was interrupted, and the kills that interrupt it.

A run whose process was killed is marked as failed by its code server, one that never started by
the daemon; one that ended together with its code server is terminated by hand. Then partitions
that are not green are launched once more: what was paid before is gone on with, or replayed.
"""

import itertools
import os
import random
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline_tests.stack.dagster_client import Run
from dp_pipeline_tests.stack.dagster_stack import CODE, DAEMON, ENDED, WEB, DagsterStack
from dp_pipeline_tests.stack.processes import POLL_SECONDS, wait_for

LOST_SECONDS = 10.0
"""A run is canceled after so long without a process. Its code server looks for killed runs every
half second; a cancellation before it has seen one waits for ever for the killed process, and every
start of a run waits with it (``multiprocessing.Event.set``)."""

LAUNCHES = 4


@dataclass
class Steward:
    """Backfills over one data set's models and their evaluation.

    partitions   of the backfill that is to be finished
    backfills    every one that was launched for them, in order
    launches     how many backfills were launched, of all partitions that were ever begun
    lost         runs that were canceled by hand: their process was gone, and nothing said so
    lost_since   run without a process → when that was seen first
    """

    stack: DagsterStack
    spec: DatasetSpec
    partitions: Sequence[str] = ()
    backfills: list[str] = field(default_factory=list)
    launches: int = 0
    lost: list[str] = field(default_factory=list)
    lost_since: dict[str, float] = field(default_factory=dict)

    def begin(self, partitions: Sequence[str]) -> None:
        self.partitions, self.backfills = partitions, []
        self._launch(partitions)
        wait_for(self.runs, what="runs of the backfill")

    def runs(self) -> list[Run]:
        return [run for run in self.stack.client.runs() if run.backfill in self.backfills]

    def is_busy(self) -> bool:
        return any(not run.is_finished for run in self.runs())

    def finish(self) -> None:
        """Launch again the partitions without a green run, until there are none."""
        for _ in range(LAUNCHES):
            self.settle_down()
            green = {run.partition for run in self.runs() if run.status == "SUCCESS"}
            left = [epsilon for epsilon in self.partitions if epsilon not in green]
            if not left:
                return
            self._launch(left)
        raise AssertionError(f"{LAUNCHES} launches, and {left} not green")

    def _launch(self, partitions: Sequence[str]) -> None:
        assets = [[self.spec.name, name] for name in (*self.spec.models, "evaluation")]
        self.backfills.append(self.stack.client.launch_backfill(assets, partitions))
        self.launches += 1

    def settle_down(self) -> None:
        """Until every backfill and every run has ended; a run that has no process is canceled."""
        wait_for(self._is_quiet, what="the end of every run", seconds=900)

    def cancel_lost(self) -> None:
        """Free the places of runs that are said to go on, and have had no process for a while."""
        now, lost = time.monotonic(), [run.id for run in self._without_process()]
        self.lost_since = {run: self.lost_since.get(run, now) for run in lost}
        for run, since in self.lost_since.items():
            if now - since >= LOST_SECONDS:
                self.stack.client.cancel(run)
                self.lost.append(run)

    def _is_quiet(self) -> bool:
        self.cancel_lost()
        statuses = {self.stack.client.backfill(one).status for one in self.backfills}
        return statuses <= ENDED and all(run.is_finished for run in self.runs())

    def _without_process(self) -> list[Run]:
        """Runs that are said to go on while no process of any run is there."""
        said = {run.id for run in self.runs() if run.status == "STARTED"}
        if not said or self.stack.workers():
            return []
        # Asked again: they may have ended between the two questions.
        return [run for run in self.runs() if run.id in said and run.status == "STARTED"]


RUN = "run"
CONTAINER = "code server with its runs"
VICTIMS = (CODE, RUN, DAEMON, WEB, RUN, CONTAINER, DAEMON, WEB)
"""In turn, so each of four as often as the others; every second time a code server takes its runs
with it, as the end of a container does. A run, and the container, come at an odd place once.
"""

LONGEST_SECONDS = 14.0
"""About what a run takes, of which it imports for a third."""

_RELEASE_LOCK = re.compile(r"/locks/[0-9a-f]+\.lock$")
PATIENCE_SECONDS = 90
"""Longer than Dagster takes to start the next run of a backfill."""


@dataclass(frozen=True)
class Kill:
    """One kill that was done.

    workers   how many runs were executed at that moment
    inside    how many of them were at a release: between its charge and its end
    """

    victim: str
    workers: int
    inside: int


@dataclass
class Killer:
    """Kills the servers of a steward's stack and its runs, each after a random time."""

    steward: Steward
    moments: random.Random
    kills: list[Kill] = field(default_factory=list)
    victims: Iterator[str] = field(init=False)

    def __post_init__(self) -> None:
        self.victims = itertools.cycle(VICTIMS)

    @property
    def stack(self) -> DagsterStack:
        return self.steward.stack

    def kill_next(self) -> bool:
        """Wait, kill, look, start again what was killed; False where no run is executed any more,
        and nothing was killed.

        Every second kill waits a little more, for a release that is paid and not finished.
        """
        workers = self._at_a_random_moment()
        if not workers:
            return False
        victim, inside = next(self.victims), [pid for pid in workers if is_at_a_release(pid)]
        if victim == RUN:
            # It may have ended a moment ago.
            with suppress(ProcessLookupError):
                os.kill(self.moments.choice(inside or workers), signal.SIGKILL)
        elif victim == CONTAINER:
            self.stack.kill_with_children(CODE)
        else:
            self.stack.kill(victim)
        self.kills.append(Kill(victim, len(workers), len(inside)))
        if victim != RUN:
            self.stack.restart(CODE if victim == CONTAINER else victim)
        return True

    def _at_a_random_moment(self) -> Sequence[int]:
        """Of some run, whose process is then still there; the processes of all runs."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end and self.steward.is_busy():
            if self.stack.workers():
                time.sleep(self.moments.uniform(0, LONGEST_SECONDS))
                if len(self.kills) % 2:
                    self._await_a_release()
                if workers := self.stack.workers():
                    return workers
            # Two of them would hold both places, and no other run would ever start.
            self.steward.cancel_lost()
            time.sleep(POLL_SECONDS)
        return ()

    def _await_a_release(self) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end and (workers := self.stack.workers()):
            if any(map(is_at_a_release, workers)):
                return
            time.sleep(0.02)


def is_at_a_release(pid: int) -> bool:
    """Whether a process holds the lock of a release, or waits for it."""
    try:
        names = [str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any(_RELEASE_LOCK.search(name) for name in names)
