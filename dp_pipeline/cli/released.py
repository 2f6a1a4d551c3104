"""What a run has released, as a page for a person and as a document for a program."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.cli.options import NONE, Document, amount_text, number_or_none
from dp_pipeline.spec.amounts import NANO

if TYPE_CHECKING:
    from dp_pipeline.orchestration.runner import Ran
    from dp_pipeline.publish.outcome import Outcome
    from dp_pipeline.publish.request import RunRequest
    from dp_pipeline.reporting.metrics import QualityRow
    from dp_pipeline.spec.dataset import DatasetSpec

STATES = {
    "charged": "drawn and paid by this run",
    "resumed": "paid earlier, finished by this run at no cost",
    "replayed": "made earlier, shown again at no cost",
}
"""What a run did for a release → in words."""


@dataclass(frozen=True)
class ReleasedRun:
    """The requests of one data set, one or one a window, and what each came to."""

    requests: Sequence[RunRequest]
    results: Sequence[Ran]

    @property
    def spec(self) -> DatasetSpec:
        """The data set, at its newest window where rows are cut."""
        return self._request.spec

    @property
    def failed_checks(self) -> tuple[str, ...]:
        """Names of checks on rows that did not pass, each once; for the custodian alone."""
        return tuple(dict.fromkeys(name for one in self.results for name in one.failed_checks))

    @property
    def failing(self) -> DatasetSpec:
        """The data set, at the newest window with a check that did not pass where rows are cut."""
        pairs = zip(reversed(self.requests), reversed(self.results), strict=True)
        return next((request.spec for request, ran in pairs if ran.failed_checks), self.spec)

    def page(self, *, explained: bool = True) -> None:
        """Print the releases, the first centres, warnings, costs and where the report is.

        explained   whether a line says how to read the table
        """
        from dp_pipeline.publish.outcome import report_path

        self._print_releases(explained=explained)
        self._print_centres()
        for line in (text for one in self._found for text in one.warnings):
            click.echo(f"warning: {line}")
        if self._discovery_words:
            paid = "charged by this run" if self._discovery else "paid before, nothing charged"
            click.echo(f"discovered: {self._discovery_words}; {paid}")
        click.echo(f"charged by this run: {self._request.spec.currency.text(self._charged)}")
        if self._limits:
            click.echo(self._limits)
        click.echo(f"report: {report_path(self._request)}")

    def document(self) -> Document:
        """The same for a program: every quality number, and the folder of each release."""
        from dp_pipeline.publish.outcome import report_path

        spec = self._request.spec
        return {
            "dataset": spec.name,
            "currency": spec.currency.name,
            "releases": [_release(one) for one in self._found],
            "discovered": self._discovery_words,
            "charged": amount_text(self._charged),
            "limits": self._limits,
            "report": str(report_path(self._request)),
        }

    @property
    def _request(self) -> RunRequest:
        """The one of the newest window."""
        return self.requests[-1]

    @cached_property
    def _found(self) -> list[Outcome]:
        from dp_pipeline.publish.outcome import outcomes

        pairs = zip(self.requests, self.results, strict=True)
        with self._request.home.ledger.one_look():
            return [one for request, ran in pairs for one in outcomes(request, ran=ran.levels)]

    @property
    def _discovery(self) -> int:
        return sum(one.discovery for one in self.results)

    @property
    def _charged(self) -> Fraction:
        return Fraction(sum(one.charged for one in self._found) + self._discovery, NANO)

    @property
    def _discovery_words(self) -> str:
        """What was discovered, in words; empty where nothing is left to be."""
        from dp_pipeline.spec.discovered import discovery_words

        request = self._request
        if request.discovery is None:
            return ""
        return discovery_words(request.spec.to_discover, request.discovery.asked)

    @cached_property
    def _limits(self) -> str:
        from dp_pipeline.publish.account import limits_word

        return limits_word(self._request.spec, self._request.home)

    def _print_releases(self, *, explained: bool) -> None:
        from dp_pipeline.reporting.metrics import MOST_METRICS, metric_named, metrics_of
        from dp_pipeline.reporting.text import print_table
        from dp_pipeline.spec.windows import range_text

        found, currency = self._found, self._request.spec.currency
        metrics = metrics_of(row for one in found for row in one.quality)[:MOST_METRICS]
        shorts = [metric_named(metric).short for metric in metrics]
        charge = "charged now" if currency.delta is None else f"charged now ({currency.symbol})"
        columns = ["model", "ε", *shorts, "ε spent", charge, "state"]
        named = [[range_text(one.release.windows)] if one.release.windows else [] for one in found]
        cells = [[*name, *one.cells(metrics)] for name, one in zip(named, found, strict=True)]
        columns = [*(["window"] if self._request.spec.window else []), *columns]
        print_table(self._request.spec.title, columns, cells)
        if explained:
            click.echo(_how_to_read(metrics, (one.state for one in found)))

    def _print_centres(self) -> None:
        """Of the model that is declared first, at the largest ε: the report shows the others."""
        from dp_pipeline.reporting.text import print_table
        from dp_pipeline.spec.windows import range_text

        newest = self._found[-len(self._request.names) :]
        first = next((one for one in newest if one.has_centres), None)
        if first is not None:
            windows = range_text(first.release.windows)
            title = f"Centres of {first.bundle.model} at ε={first.bundle.facts['epsilon']}"
            title = f"{title}, {windows}" if windows else title
            print_table(title, *first.centre_table())


def print_failed_checks(spec: DatasetSpec, names: Sequence[str], *, custodian: bool) -> None:
    """Name the checks that the rows fail, on stderr in one line; print nothing where all passed.

    The line holds names of expectations and columns: no value and no number of rows. Even so it
    tells neighbouring tables apart, and a log or the mail of a scheduler may have many readers. So
    checks on sensitive rows are named on a terminal, or where the custodian asks for it.
    """
    if not names or (spec.is_release and not custodian and not sys.stderr.isatty()):
        return
    window = f" --window {spec.window}" if spec.window else ""
    click.echo(
        f"{spec.name}: the rows fail {', '.join(names)}; this stopped nothing, and is for the "
        f"custodian alone (`dp-pipeline data docs {spec.name}{window}` writes what is expected)",
        err=True,
    )


def _how_to_read(metrics: Sequence[str], states: Iterable[str]) -> str:
    """One line below the first table: what a line is, which numbers are good, what was paid."""
    from dp_pipeline.reporting.metrics import metric_named

    shorts: dict[str, list[str]] = {}
    for one in map(metric_named, metrics):
        shorts.setdefault(one.better, []).append(one.short)
    parts = [
        "a line is one release",
        *(f"{', '.join(names)}: {better}" for better, names in shorts.items()),
        "ε spent: what it costs for ever, with its evaluation",
        "charged now: what this run added",
        *(f"{state}: {STATES[state]}" for state in dict.fromkeys(states)),
    ]
    return f"How to read it: {'; '.join(parts)}."


def _release(outcome: Outcome) -> dict[str, Any]:
    from dp_pipeline.release.bundle import REFINED_FROM

    release, bundle = outcome.release, outcome.bundle
    return {
        "model": bundle.model,
        "epsilon": release.level,
        "windows": list(release.windows),
        "state": outcome.state,
        "guarantee": bundle.kind,
        "spent": amount_text(bundle.charged) if bundle.is_dp else NONE,
        "refined_from": bundle.facts.get(REFINED_FROM, NONE),
        "charged": amount_text(Fraction(outcome.charged, NANO)),
        "quality": [quality_document(row) for row in outcome.quality],
        "warnings": outcome.warnings,
        "key": bundle.key,
        "folder": str(outcome.folder),
    }


def quality_document(row: QualityRow) -> dict[str, Any]:
    """One quality number. ``deviation`` is that of its noise, none of an exact number of public
    rows; ``error`` how far that of a sample of them is off.
    """
    return {
        "metric": row.metric,
        "value": number_or_none(row.value),
        "deviation": number_or_none(row.deviation),
        "error": number_or_none(row.error),
        "unit": row.unit,
    }
