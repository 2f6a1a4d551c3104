"""What a run has released k-anonymously, read back for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dp_pipeline.orchestration.anonymity_quality import AUC
from dp_pipeline.orchestration.anonymizing import CARD
from dp_pipeline.orchestration.comparing_anonymous import page_path
from dp_pipeline.orchestration.io import pointed_bundle, read_json
from dp_pipeline.orchestration.request import AnonymizeRequest
from dp_pipeline.orchestration.syntactic_release import FOLDER, SyntacticRelease
from dp_pipeline.orchestration.syntactic_tables import TableFacts
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.number_text import number_text

COLUMNS = ("method", "K", "columns", "classes", "smallest", "one label", "left out", "AUC", "state")
"""Kept columns; classes, and rows of the smallest; rows in classes with one label, and left out."""


@dataclass(frozen=True)
class AnonymousOutcome:
    """One k-anonymous release of a run.

    state     ``recorded``, ``resumed`` or ``replayed``
    figures   of its evaluation; none on release data
    """

    release: SyntacticRelease
    bundle: Bundle
    state: str
    figures: Mapping[str, float]
    card: Path

    def cells(self) -> list[str]:
        """One line of a table under ``COLUMNS``."""
        shown = TableFacts.of(self.bundle)
        return [
            self.release.name,
            str(shown.k),
            str(shown.columns),
            str(shown.classes),
            str(shown.smallest),
            f"{shown.homogeneous:.1%}",
            str(shown.left_out),
            number_text(self.figures[AUC]) if AUC in self.figures else "–",
            self.state if self.state == "replayed" else f"{self.state} {self.bundle.kind}",
        ]


def anonymous_outcomes(request: AnonymizeRequest) -> Iterator[AnonymousOutcome]:
    """Every release of a request, as the last run left it: methods as asked for, K ascending."""
    for release in sorted(request.releases, key=lambda one: request.methods.index(one.name)):
        root = release.store.root
        below = Path(request.spec.name, FOLDER)
        pointer = read_json(root / below / release.name / f"partition-{release.k}.json")
        evaluated = read_json(request.home.internal / below / "evaluation" / f"{release.k}.json")
        folder = root / pointer["folder"]
        yield AnonymousOutcome(
            release,
            pointed_bundle(
                request.spec, request.home, pointer, model=release.name, k=str(release.k)
            ),
            pointer["state"],
            (evaluated or {"figures": {}})["figures"].get(release.name, {}),
            folder / CARD,
        )


def anonymity_page(request: AnonymizeRequest) -> Path:
    """The HTML page of a data set's k-anonymous releases."""
    return page_path(request.spec, request.home)
