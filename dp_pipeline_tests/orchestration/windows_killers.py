"""Children that publish weeks by one command and end themselves by SIGKILL in the middle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dp_pipeline.ledger import Ledger, Reservation
from dp_pipeline.raw import ingest
from dp_pipeline.releases.noisy_drawing import NoisyDrawing
from dp_pipeline_tests.orchestration.killers import die
from dp_pipeline_tests.orchestration.projects import Project

POINTS = ("before the row", "before the look", "bundle not settled", "settled")


def publish_weeks_and_die(folder: Path, point: str, week: str, moment: int) -> None:
    """Publish all weeks of the data set ``stream``, up to a point of htree_kmeans in one of them.

    moment   what the clock of the calendar says
    """
    # Late: that file is a test's, and its fixtures are for tests.
    from dp_pipeline_tests.orchestration import test_windows

    ingest.now = lambda: moment  # type: ignore[assignment]
    project = Project(folder)
    reserve, draw, settle = Ledger.reserve, NoisyDrawing.draw, Reservation.settle

    def is_here(what: str) -> bool:
        return f"htree_kmeans of {week}" in what

    def reserved(self: Ledger, charge: Any) -> Any:
        if point == "before the row" and is_here(charge.what):
            die()
        return reserve(self, charge)

    def drawn(self: NoisyDrawing, *others: Any, **named: Any) -> Any:
        if point == "before the look" and is_here(self.spec.what):
            die()
        return draw(self, *others, **named)

    def settled(self: Reservation, *others: Any, **named: Any) -> None:
        if point == "bundle not settled" and is_here(self.charge.what):
            die()
        settle(self, *others, **named)
        if point == "settled" and is_here(self.charge.what):
            die()

    Ledger.reserve, Reservation.settle = reserved, settled  # type: ignore[method-assign]
    NoisyDrawing.draw = drawn  # type: ignore[method-assign]
    spec = test_windows.stream(project)
    test_windows.run(project, test_windows.requests(project, spec))
