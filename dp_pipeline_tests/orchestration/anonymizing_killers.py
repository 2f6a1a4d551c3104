"""Children that make a k-anonymous release and end themselves by SIGKILL at a chosen point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from dp_pipeline.config.parser import load_spec
from dp_pipeline.ledger import Ledger, Reservation
from dp_pipeline.releases import k_anonymous_release, publish
from dp_pipeline_tests.orchestration.killers import POINTS as OF_PUBLISHING
from dp_pipeline_tests.orchestration.killers import die
from dp_pipeline_tests.orchestration.patients import anonymized
from dp_pipeline_tests.orchestration.projects import Project


def anonymize_and_die(folder: Path, point: str) -> None:
    """Release PATIENTS at K = 2 in the project in ``folder``, up to a point of POINTS."""
    project = Project(folder)
    POINTS[point]()
    anonymized(project, load_spec(project.datasets / "patients.yaml"))


def _before_the_row() -> None:
    Ledger.reserve = die  # type: ignore[method-assign, assignment]


def _before_the_look() -> None:
    k_anonymous_release.coded_rows = die  # type: ignore[assignment]


def _not_settled() -> None:
    Reservation.settle = die  # type: ignore[method-assign, assignment]


def _settled() -> None:
    publish.Published = die  # type: ignore[misc, assignment]


POINTS: Mapping[str, Callable[[], None]] = {
    "before the row": _before_the_row,
    "before the look": _before_the_look,
    "half a bundle": OF_PUBLISHING["half a bundle"],
    "bundle not settled": _not_settled,
    "settled": _settled,
}
