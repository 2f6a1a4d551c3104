"""What a run has released, read back for a person: quality, centres, ε spent, report.

What a run has released k-anonymously, read back for a person.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dp_pipeline.publish.anonymize import CARD
from dp_pipeline.publish.cards import TableFacts
from dp_pipeline.publish.k_anonymous_evaluation import AUC
from dp_pipeline.publish.k_anonymous_release import FOLDER, SyntacticRelease
from dp_pipeline.publish.release import Release
from dp_pipeline.publish.replay import from_documents, pointed_bundle, read_json
from dp_pipeline.publish.report import page_path
from dp_pipeline.publish.request import AnonymizeRequest, RunRequest
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.figures.cluster_view import centre_table
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.reporting.plausibility import bundle_warnings
from dp_pipeline.reporting.text import number_text
from dp_pipeline.spec.amounts import NANO, epsilon_text

MOST_COLUMNS = 7


@dataclass(frozen=True)
class Outcome:
    """One release of a run.

    state     ``charged``, ``resumed`` or ``replayed``
    charged   nano-ε, or nano-ρ, that this run added to the ledger
    """

    release: Release
    bundle: Bundle
    state: str
    charged: int
    quality: tuple[QualityRow, ...]

    def cells(self, metrics: Sequence[str]) -> list[str]:
        """One line of a table: model, ε, one number a metric, ε spent, charged now, state."""
        numbers = {row.metric: row.text for row in self.quality}
        return [
            self.bundle.model,
            epsilon_text(self.release.epsilon),
            *(numbers.get(metric, "–") for metric in metrics),
            self.bundle.spent_text,
            epsilon_text(Fraction(self.charged, NANO)),
            self.release.guarantee.marked(self.state),
        ]

    @property
    def warnings(self) -> list[str]:
        """What the noisy counts say against it, a line each, with its name."""
        name = f"{self.bundle.model} at ε={epsilon_text(self.release.epsilon)}"
        return [f"{name}: {text}" for text in bundle_warnings(self.release.spec, self.bundle)]

    @property
    def has_centres(self) -> bool:
        """Whether the model releases any."""
        return "centres" in self.bundle.tables

    def centre_table(self) -> tuple[list[str], list[list[str]]]:
        """Names and lines of the first centres, with the noisy rows of each."""
        return centre_table(self.bundle.tables, most_columns=MOST_COLUMNS)


def outcomes(request: RunRequest) -> Iterator[Outcome]:
    """Every release of a request, as the last run left it."""
    for release in request.releases:
        text = epsilon_text(release.epsilon)
        folder = release.store.root / release.spec.name
        pointer = read_json(folder / release.name / f"partition-{text}.json")
        evaluated = read_json(_evaluation(request, text)) or {"rows": []}
        bundle = pointed_bundle(
            release.spec, release.home, pointer, model=release.name, epsilon=text
        )
        rows = [row for row in from_documents(evaluated["rows"]) if row.model == bundle.model]
        yield Outcome(release, bundle, pointer["state"], int(pointer["nano"]), tuple(rows))


def _evaluation(request: RunRequest, epsilon: str) -> Path:
    return request.home.internal / request.spec.name / "evaluation" / f"{epsilon}.json"


def report_path(request: RunRequest) -> Path:
    """The HTML report of a data set."""
    return request.home.reports / f"{request.spec.name}.html"


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
