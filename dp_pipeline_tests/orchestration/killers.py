"""Children that publish a release and end themselves by SIGKILL at a chosen point."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.parser import load_spec
from dp_pipeline.gate.noise import NoiseSource, OpenDPNoise
from dp_pipeline.ledger import Ledger, Reservation
from dp_pipeline.releases import store
from dp_pipeline.releases.publish import publish
from dp_pipeline.results.transcript import AnswerCount
from dp_pipeline_tests.orchestration.projects import Project


def die(*_: object, **__: object) -> None:
    """No handler runs, nothing is flushed, no lock is given back politely."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class KillingNoise:
    """Draws ``answers`` noisy answers; at the next one there is no process any more."""

    answers: int
    source: NoiseSource = field(default_factory=OpenDPNoise)
    name: str = "opendp"
    is_releasable: bool = True

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        if self.answers == 0:
            die()
        self.answers -= 1
        return self.source.discrete_laplace(counts, scale)

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        raise NotImplementedError


def publish_and_die(folder: Path, point: str) -> None:
    """Publish RIDES at ε = 0.5 in the project in ``folder``, up to ``point``.

    point   a number of answers that are stored first, or a name of POINTS
    """
    project = Project(folder)
    release = project.release(load_spec(project.datasets / "rides.yaml"))
    if point.isdigit():
        vars(release)["noise"] = KillingNoise(int(point))
    else:
        POINTS[point]()
    publish(release)


def _before_the_charge() -> None:
    Ledger.reserve = die  # type: ignore[method-assign, assignment]


def _half_a_bundle() -> None:
    write, written = store._write_table, list[str]()

    def write_one(path: Path, table: Mapping[str, np.ndarray]) -> None:
        if written:
            die()
        written.append(path.name)
        write(path, table)

    store._write_table = write_one


def _bundle_not_settled() -> None:
    Reservation.settle = die  # type: ignore[method-assign, assignment]


def _settled() -> None:
    AnswerCount.end = die  # type: ignore[method-assign, assignment]


POINTS: Mapping[str, Callable[[], None]] = {
    "before the charge": _before_the_charge,
    "half a bundle": _half_a_bundle,
    "bundle not settled": _bundle_not_settled,
    "settled": _settled,
}
