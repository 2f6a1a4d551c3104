"""What a run has released, as a page for a person and as a document for a program."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.cli.options import NONE, Document, amount_text, number_or_none

if TYPE_CHECKING:
    from dp_pipeline.config.dataset import DatasetSpec
    from dp_pipeline.releases.run_result import ReleaseResult, RunResult
    from dp_pipeline.reporting.metrics import QualityRow

STATES = {
    "charged": "drawn and paid by this run",
    "resumed": "paid earlier, finished by this run at no cost",
    "replayed": "made earlier, shown again at no cost",
}
"""What a run did for a release → in words."""


MOST_COLUMNS = 7
"""Of centres that are printed."""

MOST_CARDS = 6
"""Whose paths are printed: those of one method at the K of the papers."""

TABLE_COLUMNS = (
    *("method", "K", "columns", "classes", "smallest", "one label", "left out", "AUC", "state"),
)
"""Of a k-anonymous table: kept columns; classes, and rows of the smallest; rows in classes with one
label, and left out.
"""


def print_result(result: RunResult, *, is_explained: bool = True) -> None:
    """Print the releases, warnings, costs and where the report is.

    is_explained   whether a line says how to read the table
    """
    if result.options.kind.FOLDER:
        _print_tables(result)
        return
    _print_releases(result, is_explained=is_explained)
    _print_centres(result)
    for line in (text for one in result for text in one.warnings):
        click.echo(f"warning: {line}")
    if words := _discovery_words(result):
        paid = "charged by this run" if result.discovery else "paid before, nothing charged"
        click.echo(f"discovered: {words}; {paid}")
    click.echo(f"charged by this run: {result.spec.currency.text(result.charged)}")
    if limits := _limits(result):
        click.echo(limits)
    click.echo(f"report: {result.report}")


def result_document(result: RunResult) -> Document:
    """The same for a program: every quality number, and the folder of each release."""
    spec = result.spec
    if result.options.kind.FOLDER:
        return {
            "dataset": spec.name,
            "guarantee": "not-dp",
            "releases": [_table(one) for one in _by_method(result)],
            "page": str(result.report),
        }
    return {
        "dataset": spec.name,
        "currency": spec.currency.name,
        "releases": [_release(one) for one in result],
        "discovered": _discovery_words(result),
        "charged": amount_text(result.charged),
        "limits": _limits(result),
        "report": str(result.report),
    }


def _discovery_words(result: RunResult) -> str:
    """What was discovered, in words; empty where nothing is left to be."""
    from dp_pipeline.config.discovered_domain import discovery_words

    discovery = result.options.discovery
    return "" if discovery is None else discovery_words(result.spec.to_discover, discovery.asked)


def _limits(result: RunResult) -> str:
    from dp_pipeline.releases.account import limits_word

    return limits_word(result.spec, result.options.home)


def _print_releases(result: RunResult, *, is_explained: bool) -> None:
    from dp_pipeline.config.windows import range_text
    from dp_pipeline.reporting.metrics import MOST_METRICS, metric_named, metrics_of
    from dp_pipeline.reporting.text import print_table

    spec, currency = result.spec, result.spec.currency
    metrics = metrics_of(row for one in result for row in one.quality)[:MOST_METRICS]
    shorts = [metric_named(metric).short for metric in metrics]
    charge = "charged now" if currency.delta is None else f"charged now ({currency.symbol})"
    columns = [*(["window"] if spec.window else []), "model", "ε", *shorts]
    lines = [
        [*([range_text(one.windows)] if one.windows else []), *release_cells(one, metrics)]
        for one in result
    ]
    print_table(spec.title, [*columns, "ε spent", charge, "state"], lines)
    if is_explained:
        click.echo(_how_to_read(metrics, (one.origin for one in result)))


def release_cells(one: ReleaseResult, metrics: Sequence[str]) -> list[str]:
    """Model, ε, one number a metric, ε spent, charged now, state."""
    numbers = {row.metric: row.text for row in one.quality}
    return [
        one.bundle.model,
        one.release.level,
        *(numbers.get(metric, "–") for metric in metrics),
        one.bundle.spent_text,
        amount_text(one.cost),
        one.state,
    ]


def _print_centres(result: RunResult) -> None:
    """Of the model that is declared first, at the largest ε: the report shows the others."""
    from dp_pipeline.config.windows import range_text
    from dp_pipeline.reporting.text import print_table

    newest = result.releases[-len(result.options.names) :]
    first = next((one for one in newest if "centres" in one.tables), None)
    if first is not None:
        windows = range_text(first.windows)
        title = f"Centres of {first.bundle.model} at ε={first.bundle.facts['epsilon']}"
        title = f"{title}, {windows}" if windows else title
        print_table(title, *centre_lines(first))


def centre_lines(one: ReleaseResult) -> tuple[list[str], list[list[str]]]:
    """Names and lines of the first columns of its centres, with the noisy rows of each."""
    from dp_pipeline.reporting.figures.cluster_view import centre_table, dates_of

    dates = dates_of(one.release.spec.domain)
    return centre_table(one.bundle.tables, most_columns=MOST_COLUMNS, dates=dates)


def _by_method(result: RunResult) -> list[ReleaseResult]:
    names = result.options.names
    return sorted(result, key=lambda one: names.index(one.model))


def _print_tables(result: RunResult) -> None:
    """Print k-anonymous tables, what they do not promise, and where their cards are."""
    from dp_pipeline.reporting.text import print_table

    tables = _by_method(result)
    title = f"{result.spec.title}: k-anonymous, not differentially private"
    print_table(title, TABLE_COLUMNS, [_table_cells(one) for one in tables])
    click.echo(
        "columns: kept beside the label; smallest: rows of the smallest class; one label: rows "
        "in classes that tell their label; left out: rows."
    )
    click.echo(
        "This is no differential privacy: what is kept was chosen by looking at the rows, and "
        "two releases of the same rows can be intersected. The ledger has recorded each as "
        "not-dp."
    )
    for one in tables[:MOST_CARDS]:
        click.echo(f"card of {one.model} at K={one.release.level}: {_card(one)}")
    if len(tables) > MOST_CARDS:
        click.echo(f"cards of {len(tables) - MOST_CARDS} more: card.md beside each release")
    click.echo(f"page: {result.report}")


def _table_cells(one: ReleaseResult) -> list[str]:
    """One line of a table under ``TABLE_COLUMNS``."""
    from dp_pipeline.releases.evaluate import AUC
    from dp_pipeline.releases.k_anonymous_tables import TableFacts
    from dp_pipeline.reporting.text import number_text

    facts = TableFacts.of(one.bundle)
    auc = next((row.value for row in one.quality if row.metric == AUC), None)
    return [
        one.model,
        str(facts.k),
        str(facts.columns),
        str(facts.classes),
        str(facts.smallest),
        f"{facts.homogeneous:.1%}",
        str(facts.left_out),
        "–" if auc is None else number_text(auc),
        one.state,
    ]


def _card(one: ReleaseResult) -> str:
    from dp_pipeline.releases.k_anonymous_release import CARD

    return str(one.folder / CARD)


def _table(one: ReleaseResult) -> dict[str, Any]:
    from dp_pipeline.releases.k_anonymous_tables import TableFacts

    return {
        "method": one.model,
        **vars(TableFacts.of(one.bundle)),
        "state": one.origin,
        "quality": [quality_document(row) for row in one.quality],
        "key": one.bundle.key,
        "card": _card(one),
        "folder": str(one.folder),
    }


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


def _release(one: ReleaseResult) -> dict[str, Any]:
    from dp_pipeline.results.bundle import REFINED_FROM

    release, bundle = one.release, one.bundle
    return {
        "model": bundle.model,
        "epsilon": release.level,
        "windows": list(release.windows),
        "state": one.origin,
        "guarantee": bundle.kind,
        "spent": amount_text(bundle.charged) if bundle.is_dp else NONE,
        "refined_from": bundle.facts.get(REFINED_FROM, NONE),
        "charged": amount_text(one.cost),
        "quality": [quality_document(row) for row in one.quality],
        "warnings": list(one.warnings),
        "key": bundle.key,
        "folder": str(one.folder),
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
