"""The result of a run: its releases, their cost, and their files."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dp_pipeline.config.amounts import NANO, Currency, epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import NotPrepared
from dp_pipeline.config.windows import range_text
from dp_pipeline.releases.outcome import released_bundle, report_path
from dp_pipeline.releases.release import Release
from dp_pipeline.releases.replay import evaluation_path, pointer_path, read_document
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline.releases.run_plan import COLUMNS
from dp_pipeline.reporting.metrics import QualityRow, from_documents
from dp_pipeline.reporting.plausibility import bundle_warnings, missing_shares
from dp_pipeline.reporting.text import table_text
from dp_pipeline.results.bundle import Bundle

if TYPE_CHECKING:
    import pandas as pd

MAIN_TABLES = ("synthetic", "centres", "classes")
"""Tables of a bundle, of which each release has one as its main table."""


@dataclass(frozen=True, repr=False)
class ReleaseResult:
    """The result of one release of a run.

    origin    ``charged``, ``resumed`` or ``replayed``
    cost      amount that this run charged for it, in the population's currency
    quality   its quality numbers: private ones, or exact ones of public rows
    folder    the folder of its bundle and its card
    """

    release: Release
    bundle: Bundle
    origin: str
    cost: Fraction
    quality: tuple[QualityRow, ...]
    folder: Path

    @property
    def model(self) -> str:
        """The name of the model or method."""
        return self.release.name

    @property
    def epsilon(self) -> Fraction:
        """The requested ε; of a k-anonymous release its K."""
        return Fraction(self.release.level)

    @property
    def state(self) -> str:
        """How the release was obtained, with a label if the requested ε is not guaranteed."""
        return self.release.label_state(self.origin)

    @property
    def currency(self) -> Currency:
        return self.release.spec.currency

    @property
    def windows(self) -> tuple[str, ...]:
        """The time windows that the release covers; empty for rows without windows."""
        return self.release.windows

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line for each weakness that the release's own noisy counts suggest."""
        name = f"{self.bundle.model} at {self.release.SYMBOL}={self.release.level}"
        return tuple(f"{name}: {text}" for text in bundle_warnings(self.release.spec, self.bundle))

    @property
    def missing(self) -> dict[str, float]:
        """The noisy share of missing values, in 0..1, of each column that may have some."""
        return missing_shares(self.release.spec.domain, self.bundle.tables)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the released tables."""
        return tuple(self.bundle.tables)

    @property
    def table(self) -> "pd.DataFrame":
        """The main table of a noisy release: ``synthetic`` rows, ``centres`` or ``classes``.

        A k-anonymous release has none of them: its table is ``read_table("released")``.
        """
        return self.read_table(next(name for name in MAIN_TABLES if name in self.tables))

    def read_table(self, name: str) -> "pd.DataFrame":
        """Return a released table by its name; KeyError for a name that is not in ``tables``."""
        import pandas as pd

        return pd.DataFrame(dict(self.bundle.tables[name]))

    def __repr__(self) -> str:
        window = f" of {range_text(self.windows)}" if self.windows else ""
        cost = self.currency.text(self.cost)
        return f"{self.model} at ε={epsilon_text(self.epsilon)}{window}: {self.state}, cost {cost}"


@dataclass(frozen=True, repr=False)
class RunResult(Sequence[ReleaseResult]):
    """The results of all releases of a run, as a sequence.

    discovery_charge   the cost of discovering the domain
    failures           time window → names of failed checks on rows that do not stop the run, under
                       an empty name where rows are not partitioned: for the data custodian alone
    """

    options: RunOptions
    releases: tuple[ReleaseResult, ...]
    discovery_charge: Fraction = Fraction(0)
    failures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        options: RunOptions,
        levels: Sequence[Collection[str]],
        *,
        discovery_charge: Fraction = Fraction(0),
        failures: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Self:
        """Return the result of a run, with its releases as they are stored now.

        levels   for each time window, the ε or K that were run now; others were complete before
        """
        with options.home.ledger.consistent_view():
            pairs = zip(options.per_window, levels, strict=True)
            releases = [
                release for window, ran in pairs for release in release_results(window, ran=ran)
            ]
        return cls(options, tuple(releases), discovery_charge, failures or {})

    @property
    def spec(self) -> DatasetSpec:
        """The data set, at its newest time window if the rows have windows."""
        return self.options.per_window[-1].spec

    @property
    def charged(self) -> Fraction:
        """The amount that the run added to the ledger, including the discovery of a domain."""
        return sum((release.cost for release in self.releases), self.discovery_charge)

    @property
    def report(self) -> Path:
        """The path of the HTML report that shows these releases."""
        return report_path(self.options)

    @property
    def failed_checks(self) -> tuple[str, ...]:
        """The names of failed checks on the exact rows, which only the data custodian may see."""
        return tuple(dict.fromkeys(name for names in self.failures.values() for name in names))

    @property
    def failing_spec(self) -> DatasetSpec:
        """The data set at the newest time window with a failed check, or else at the newest."""
        newest_first = (options.spec for options in reversed(self.options.per_window))
        return next((spec for spec in newest_first if self.failures.get(spec.window)), self.spec)

    def __getitem__(self, index: Any) -> Any:
        return self.releases[index]

    def __len__(self) -> int:
        return len(self.releases)

    def __repr__(self) -> str:
        currency = self.spec.currency
        end = f"charged by this run: {currency.text(self.charged)}; report: {self.report}"
        rows = [
            [result.model, result.release.level, result.state, currency.text(result.cost)]
            for result in self.releases
        ]
        return table_text(f"Run of {self.spec.name}", COLUMNS, rows, end)


def release_results(
    options: RunOptions, *, ran: Collection[str] | None = None
) -> Iterator[ReleaseResult]:
    """Yield the result of every release of a run over one time window, as it is stored now.

    ran   ε or K that were run now; others are reported as replayed. None: all were run now

    NotPrepared where the pointer file of a release is missing.
    """
    for release in options.releases:
        pointer = read_document(pointer_path(release))
        if pointer is None:
            raise NotPrepared(
                f"{release.what}: the file {pointer_path(release)} must name the stored release, "
                "but it is missing: make the release again by `dp-pipeline run` or `dp-pipeline "
                "anonymize`, at no cost if it was settled"
            )
        evaluation = read_document(evaluation_path(release)) or {"rows": []}
        bundle = released_bundle(release, pointer)
        rows = [row for row in from_documents(evaluation["rows"]) if row.model == bundle.model]
        is_new = ran is None or release.level in ran
        origin, nano = (pointer["state"], int(pointer["nano"])) if is_new else ("replayed", 0)
        folder = options.home.released / pointer["folder"]
        yield ReleaseResult(release, bundle, origin, Fraction(nano, NANO), tuple(rows), folder)
