"""What a steward does in the UI when a backfill was interrupted, through the same GraphQL.

A run whose process was killed is marked as failed by its code server, one that never started by
the daemon. A run whose process ended together with its code server is said to go on for ever: it
is terminated by hand. Then the partitions that are not green are launched once more; whatever was
paid before is gone on with, or replayed.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline_tests.stack.dagster_client import Run
from dp_pipeline_tests.stack.dagster_stack import ENDED, DagsterStack
from dp_pipeline_tests.stack.processes import wait_for

LOST_SECONDS = 10.0
"""A run is canceled after so long without a process. Its code server looks for killed runs every
half second; a cancellation before it has seen one waits for ever for the killed process, and every
start of a run waits with it (``multiprocessing.Event.set``)."""

LAUNCHES = 4
"""Attempts after which a steward would call for help."""


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
