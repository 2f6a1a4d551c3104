"""The result of a run, as a page for a person and as a document for a program."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from dp_pipeline.cli.options import NONE, Document, amount_text, number_or_none
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import discovery_words
from dp_pipeline.config.windows import range_text
from dp_pipeline.releases.account import limits_note
from dp_pipeline.releases.evaluate import AUC
from dp_pipeline.releases.k_anonymous_release import CARD
from dp_pipeline.releases.k_anonymous_tables import table_facts
from dp_pipeline.releases.run_result import ReleaseResult, RunResult
from dp_pipeline.reporting.figures.cluster_view import centre_table, dates_of
from dp_pipeline.reporting.metrics import MOST_METRICS, QualityRow, find_metric, metrics_of
from dp_pipeline.reporting.noisy_answers import NoisyAnswers, missing_line
from dp_pipeline.reporting.plausibility import omitted_rows_line
from dp_pipeline.reporting.text import number_text, print_table
from dp_pipeline.results.bundle import REFINED_FROM

STATES = {
    "charged": "drawn and paid by this run",
    "resumed": "paid earlier, finished by this run at no cost",
    "replayed": "made earlier, shown again at no cost",
}
"""What a run did for a release → in words."""


MAX_COLUMNS = 7
"""Columns of the centres that are printed."""

MAX_CARDS = 6
"""Cards whose paths are printed: those of one method at the K of the papers."""

TABLE_COLUMNS = [*("method", "K", "columns", "classes", "smallest", "one label", "left out")]
TABLE_COLUMNS += ["AUC", "state"]
"""Columns of the list of k-anonymous tables."""


def print_result(result: RunResult, *, is_explained: bool = True) -> None:
    """Print the releases, warnings, costs and the path of the report.

    is_explained   whether a line explains the table of releases with ε
    """
    if result.options.kind.FOLDER:
        _print_tables(result)
        return
    _print_releases(result, is_explained=is_explained)
    _print_centres(result)
    for release in result:
        name = f"{release.model} at ε={release.release.level}"
        if release.missing:
            domain = release.release.spec.domain
            answers = NoisyAnswers.of_bundle(release.bundle, domain)
            missing = missing_line(release.missing, answers, domain)
            click.echo(f"missing cells, {name}: {missing}")
        if "left_out" in release.tables:
            click.echo(f"rows left out, {name}: {omitted_rows_line(release.bundle.tables)}")
    for line in (warning for release in result for warning in release.warnings):
        click.echo(f"warning: {line}")
    if words := _discovery_words(result):
        paid = "charged by this run" if result.discovery_charge else "paid before, nothing charged"
        click.echo(f"discovered: {words}; {paid}")
    click.echo(f"charged by this run: {result.spec.currency.text(result.charged)}")
    if limits := limits_note(result.spec, result.options.home):
        click.echo(limits)
    click.echo(f"report: {result.report}")


def print_results(results: Sequence[RunResult]) -> None:
    for result in results:
        print_result(result, is_explained=result is results[0])


def result_document(result: RunResult) -> Document:
    """Return the result of a run for a program: each release with its quality and folder."""
    spec = result.spec
    if result.options.kind.FOLDER:
        return {
            "dataset": spec.name,
            "guarantee": "not-dp",
            "releases": [
                {
                    "method": table.model,
                    **table_facts(table.bundle),
                    "state": table.origin,
                    "quality": [quality_document(row) for row in table.quality],
                    "key": table.bundle.key,
                    "card": str(table.folder / CARD),
                    "folder": str(table.folder),
                }
                for table in _by_method(result)
            ],
            "page": str(result.report),
        }
    return {
        "dataset": spec.name,
        "currency": spec.currency.name,
        "releases": [_release(release) for release in result],
        "discovered": _discovery_words(result),
        "charged": amount_text(result.charged),
        "limits": limits_note(result.spec, result.options.home),
        "report": str(result.report),
    }


def _discovery_words(result: RunResult) -> str:
    """Return the discovered attributes and their price as text; empty without a discovery."""
    discovery = result.options.discovery
    return "" if discovery is None else discovery_words(result.spec.to_discover, discovery.discover)


def _print_releases(result: RunResult, *, is_explained: bool) -> None:
    spec, currency = result.spec, result.spec.currency
    metrics = metrics_of(row for release in result for row in release.quality)[:MOST_METRICS]
    names = [find_metric(metric).short for metric in metrics]
    charge = "charged now" if currency.delta is None else f"charged now ({currency.symbol})"
    columns = [*(["window"] if spec.window else []), "model", "ε", *names]
    lines = [
        [*([range_text(each.windows)] if each.windows else []), *release_cells(each, metrics)]
        for each in result
    ]
    print_table(spec.title, [*columns, "ε spent", charge, "state"], lines)
    if is_explained:
        click.echo(_explanation(metrics, [release.origin for release in result]))


def release_cells(release: ReleaseResult, metrics: Sequence[str]) -> list[str]:
    """Return the cells of a release: model, ε, each metric, ε spent, charged now and state.

    metrics   keys of metrics; a dash for one that the release lacks
    """
    numbers = {row.metric: row.text for row in release.quality}
    return [
        release.bundle.model,
        release.release.level,
        *(numbers.get(metric, "–") for metric in metrics),
        release.bundle.spent_text,
        amount_text(release.cost),
        release.state,
    ]


def _explanation(metrics: Sequence[str], states: Sequence[str]) -> str:
    names: dict[str, list[str]] = {}
    for metric in map(find_metric, metrics):
        names.setdefault(metric.better, []).append(metric.short)
    parts = [
        "a line is one release",
        *(f"{', '.join(listed)}: {better}" for better, listed in names.items()),
        "ε spent: what it costs for ever, with its evaluation",
        "charged now: what this run added",
        *(f"{state}: {STATES[state]}" for state in dict.fromkeys(states)),
    ]
    return f"How to read it: {'; '.join(parts)}."


def _print_centres(result: RunResult) -> None:
    """Print the centres at the largest ε of the newest window, of the first declared model that has
    some; print nothing if none has."""
    clusterings = [
        release
        for release in result
        if release.windows[-1:] == result[-1].windows[-1:] and "centres" in release.tables
    ]
    first = max(clusterings, key=lambda release: release.epsilon, default=None)
    if first is not None:
        windows = range_text(first.windows)
        title = f"Centres of {first.bundle.model} at ε={first.bundle.facts['epsilon']}"
        title = f"{title}, {windows}" if windows else title
        dates = dates_of(first.release.spec.domain)
        print_table(
            title, *centre_table(first.bundle.tables, most_columns=MAX_COLUMNS, dates=dates)
        )


def _by_method(result: RunResult) -> list[ReleaseResult]:
    names = result.options.names
    return sorted(result, key=lambda release: names.index(release.model))


def _print_tables(result: RunResult) -> None:
    tables = _by_method(result)
    title = f"{result.spec.title}: k-anonymous, not differentially private"
    print_table(title, TABLE_COLUMNS, [_table_cells(table) for table in tables])
    click.echo(
        "columns: released without the label; smallest: rows of the smallest class; one label: "
        "rows in classes whose rows share a label; left out: suppressed rows."
    )
    click.echo(
        "This is not differential privacy: the columns and classes were chosen by looking at the "
        "rows, and two releases of the same rows can be intersected. The ledger has recorded each "
        "as not-dp."
    )
    for table in tables[:MAX_CARDS]:
        click.echo(f"card of {table.model} at K={table.release.level}: {table.folder / CARD}")
    if len(tables) > MAX_CARDS:
        click.echo(f"cards of {len(tables) - MAX_CARDS} more: card.md next to each release")
    click.echo(f"page: {result.report}")


def _table_cells(table: ReleaseResult) -> list[str]:
    facts = table_facts(table.bundle)
    auc = next((row.value for row in table.quality if row.metric == AUC), None)
    return [
        table.model,
        *(str(facts[name]) for name in ("k", "columns", "classes", "smallest")),
        f"{facts['homogeneous']:.1%}",
        str(facts["left_out"]),
        "–" if auc is None else number_text(auc),
        table.state,
    ]


def print_failed_checks(spec: DatasetSpec, names: Sequence[str], *, custodian: bool) -> None:
    """Print one line on stderr with the checks that the rows fail, if there are any.

    The line has names of expectations and columns, no value. It still differs between neighbouring
    tables, and a log may have many readers: checks on sensitive rows are named on a terminal only,
    or where the custodian requests it.
    """
    if not names or (spec.is_release and not custodian and not sys.stderr.isatty()):
        return
    window = f" --window {spec.window}" if spec.window else ""
    click.echo(
        f"{spec.name}: the rows fail {', '.join(names)}; this stopped nothing, and is for the "
        f"custodian alone (`dp-pipeline data docs {spec.name}{window}` writes what is expected)",
        err=True,
    )


def _release(result: ReleaseResult) -> dict[str, Any]:
    release, bundle = result.release, result.bundle
    return {
        "model": bundle.model,
        "epsilon": release.level,
        "windows": list(release.windows),
        "state": result.origin,
        "guarantee": bundle.kind,
        "spent": amount_text(bundle.charged) if bundle.is_dp else NONE,
        "refined_from": bundle.facts.get(REFINED_FROM, NONE),
        "charged": amount_text(result.cost),
        "quality": [quality_document(row) for row in result.quality],
        "missing": result.missing,
        "warnings": list(result.warnings),
        "key": bundle.key,
        "folder": str(result.folder),
    }


def quality_document(row: QualityRow) -> dict[str, Any]:
    """Return one quality number as a document for a program.

    ``deviation`` is that of its noise, None for an exact number of public rows; ``error`` is that
    of a sample of the rows. Numbers that are not finite are None.
    """
    return {
        "metric": row.metric,
        "value": number_or_none(row.value),
        "deviation": number_or_none(row.deviation),
        "error": number_or_none(row.error),
        "unit": row.unit,
    }
