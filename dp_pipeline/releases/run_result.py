"""RunResult: what a run has released, what it cost, and where it lies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_pipeline.config.amounts import NANO, Currency, epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.windows import range_text
from dp_pipeline.releases.outcome import released_bundle, report_path
from dp_pipeline.releases.release import Release
from dp_pipeline.releases.replay import evaluation_path, pointer_path, read_document
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline.releases.run_plan import COLUMNS
from dp_pipeline.reporting.metrics import QualityRow, from_documents
from dp_pipeline.reporting.plausibility import bundle_warnings
from dp_pipeline.reporting.text import table_text
from dp_pipeline.results.bundle import Bundle

if TYPE_CHECKING:
    import pandas as pd

MAIN_TABLES = ("synthetic", "centres", "classes")
"""What a reader of a release takes first, by its name in the bundle."""


@dataclass(frozen=True, repr=False)
class ReleaseResult:
    """One release of a run.

    origin    ``charged``, ``resumed`` or ``replayed``
    cost      what this run added to the ledger for it, in the population's currency
    quality   its quality numbers: private ones, or exact ones of a benchmark
    folder    where its bundle and its card lie
    """

    release: Release
    bundle: Bundle
    origin: str
    cost: Fraction
    quality: tuple[QualityRow, ...]
    folder: Path

    @property
    def model(self) -> str:
        """The name of its model, or of its method."""
        return self.release.name

    @property
    def epsilon(self) -> Fraction:
        """That was asked."""
        return Fraction(self.release.level)

    @property
    def state(self) -> str:
        """Its origin; with ``, not-dp`` or ``, composed`` where the model does not promise that
        ε.
        """
        return self.release.label_state(self.origin)

    @property
    def currency(self) -> Currency:
        """What its population pays in."""
        return self.release.spec.currency

    @property
    def windows(self) -> tuple[str, ...]:
        """Those that it is of, where rows are cut."""
        return self.release.windows

    @property
    def warnings(self) -> tuple[str, ...]:
        """What its own noisy counts say against it, a line each, with its name."""
        name = f"{self.bundle.model} at {self.release.SYMBOL}={self.release.level}"
        return tuple(f"{name}: {text}" for text in bundle_warnings(self.release.spec, self.bundle))

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of all that was released as a table."""
        return tuple(self.bundle.tables)

    @property
    def table(self) -> pd.DataFrame:
        """The synthetic table, the centres of clusters with their noisy sizes, or the classes."""
        return self.table_named(next(one for one in MAIN_TABLES if one in self.tables))

    def table_named(self, name: str) -> pd.DataFrame:
        """One of ``tables``; KeyError for another name."""
        import pandas as pd

        return pd.DataFrame(dict(self.bundle.tables[name]))

    def __repr__(self) -> str:
        window = f" of {range_text(self.windows)}" if self.windows else ""
        cost = self.currency.text(self.cost)
        return f"{self.model} at ε={epsilon_text(self.epsilon)}{window}: {self.state}, cost {cost}"


@dataclass(frozen=True, repr=False)
class RunResult(Sequence[ReleaseResult]):
    """The releases of a run.

    discovery   what discovering the domain has cost
    failures    window → names of the checks on rows that did not pass and stop nothing, under an
                empty name where rows are not cut: for the custodian of the rows alone
    """

    options: RunOptions
    releases: tuple[ReleaseResult, ...]
    discovery: Fraction = Fraction(0)
    failures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        options: RunOptions,
        levels: Sequence[Collection[str]],
        *,
        discovery: Fraction = Fraction(0),
        failures: Mapping[str, tuple[str, ...]] | None = None,
    ) -> RunResult:
        """What lies there now of a run.

        levels   of each window, those that were run just now: any other was whole before
        """
        with options.home.ledger.consistent_view():
            pairs = zip(options.per_window, levels, strict=True)
            releases = [one for own, ran in pairs for one in release_results(own, ran=ran)]
        return cls(options, tuple(releases), discovery, failures or {})

    @property
    def spec(self) -> DatasetSpec:
        """The data set, at its newest window where rows are cut."""
        return self.options.per_window[-1].spec

    @property
    def charged(self) -> Fraction:
        """What the run added to the ledger in all, with the discovery of a domain."""
        return sum((one.cost for one in self.releases), self.discovery)

    @property
    def report(self) -> Path:
        """The page with all of them."""
        return report_path(self.options)

    @property
    def failed_checks(self) -> tuple[str, ...]:
        """Names of the checks on rows that did not pass, each once; for the custodian alone."""
        return tuple(dict.fromkeys(name for one in self.failures.values() for name in one))

    @property
    def failing(self) -> DatasetSpec:
        """The data set, at the newest window with a check that did not pass where rows are cut."""
        newest_first = (one.spec for one in reversed(self.options.per_window))
        return next((one for one in newest_first if self.failures.get(one.window)), self.spec)

    def __getitem__(self, at: Any) -> Any:
        return self.releases[at]

    def __len__(self) -> int:
        return len(self.releases)

    def __repr__(self) -> str:
        currency = self.spec.currency
        end = f"charged by this run: {currency.text(self.charged)}; report: {self.report}"
        rows = [
            [one.model, epsilon_text(one.epsilon), one.state, currency.text(one.cost)]
            for one in self.releases
        ]
        return table_text(f"Run of {self.spec.name}", COLUMNS, rows, end)


def release_results(
    options: RunOptions, *, ran: Collection[str] | None = None
) -> Iterator[ReleaseResult]:
    """Every release of a run over one window, or of rows that are not cut, as the last run left it.

    ran   levels that were run just now: any other was whole before. None: all of them
    """
    for release in options.releases:
        pointer = read_document(pointer_path(release))
        evaluated = read_document(evaluation_path(release)) or {"rows": []}
        bundle = released_bundle(release, pointer)
        rows = [row for row in from_documents(evaluated["rows"]) if row.model == bundle.model]
        is_new = ran is None or release.level in ran
        origin, nano = (pointer["state"], int(pointer["nano"])) if is_new else ("replayed", 0)
        folder = options.home.released / pointer["folder"]
        yield ReleaseResult(release, bundle, origin, Fraction(nano, NANO), tuple(rows), folder)
