"""What a run has released, read back for a person: quality, centres, ε spent, report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dp_pipeline.orchestration.documents import from_documents
from dp_pipeline.orchestration.io import pointed_bundle, read_json
from dp_pipeline.orchestration.release import Release
from dp_pipeline.orchestration.request import RunRequest
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.centre_table import centre_table
from dp_pipeline.reporting.plausibility import bundle_warnings
from dp_pipeline.reporting.rows import QualityRow
from dp_pipeline.schema.epsilon import NANO, epsilon_text

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
            self.release.claim.marked(self.state),
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
