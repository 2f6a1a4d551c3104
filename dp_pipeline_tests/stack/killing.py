"""Kills at random moments: whom, when, and what lay open at that moment."""

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

from dp_pipeline_tests.stack.dagster_stack import CODE, DAEMON, WEB, DagsterStack
from dp_pipeline_tests.stack.processes import POLL_SECONDS
from dp_pipeline_tests.stack.steward import Steward

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
