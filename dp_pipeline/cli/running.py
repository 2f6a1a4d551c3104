"""`dp-pipeline run` and `demo`."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.cli.asked import request_options, requested
from dp_pipeline.orchestration.anonymize_command import anonymize, print_failed_checks

if TYPE_CHECKING:
    from dp_pipeline.orchestration.request import RunRequest

DEMO = ("wdbc", "census", "trips")
DEMO_ANONYMOUS = {"wdbc": "5"}
"""Data set → K of the k-anonymous table that the demo makes of it."""


@click.command()
@request_options
def run(dataset: str, **options: Any) -> None:
    """Run the chain of DATASET: rows, models, evaluation, report."""
    _run([requested(dataset, **options)])


@click.command()
@click.pass_context
def demo(context: click.Context) -> None:
    """Run three example data sets, one k-anonymously too, and print what was released."""
    _run([requested(name) for name in DEMO])
    for name, k in DEMO_ANONYMOUS.items():
        context.invoke(anonymize, dataset=name, ks=(k,))


def _run(requests: list[RunRequest]) -> None:
    """Run every request with a progress bar on a terminal, then print what came of it."""
    from dp_pipeline.orchestration.runner import run_dataset, step_count
    from dp_pipeline.reporting.terminal import progress

    with progress(sum(step_count(request) for request in requests)) as on_step:
        failed = [run_dataset(request, on_step) for request in requests]
    for request, checks in zip(requests, failed, strict=True):
        _print_outcome(request)
        print_failed_checks(request.spec, checks)


def _print_outcome(request: RunRequest) -> None:
    from dp_pipeline.orchestration.lineage import limits_word
    from dp_pipeline.orchestration.outcome import outcomes, report_path
    from dp_pipeline.reporting.metric import metric_named
    from dp_pipeline.reporting.rows import MOST_METRICS, metrics_of
    from dp_pipeline.reporting.terminal import print_table
    from dp_pipeline.schema.epsilon import NANO

    found = list(outcomes(request))
    metrics = metrics_of(row for one in found for row in one.quality)[:MOST_METRICS]
    shorts = [metric_named(metric).short for metric in metrics]
    currency = request.spec.currency
    charge = "charged now" if currency.delta is None else f"charged now ({currency.symbol})"
    columns = ["model", "ε", *shorts, "ε spent", charge, "state"]
    print_table(request.spec.title, columns, [one.cells(metrics) for one in found])
    # Of the model that is declared first, at the largest ε: the report shows the others.
    first = next((one for one in found[-len(request.models) :] if one.has_centres), None)
    if first is not None:
        title = f"Centres of {first.bundle.model} at ε={first.bundle.facts['epsilon']}"
        print_table(title, *first.centre_table())
    for line in (text for one in found for text in one.warnings):
        click.echo(f"warning: {line}")
    charged = Fraction(sum(one.charged for one in found), NANO)
    click.echo(f"charged by this run: {currency.text(charged)}")
    word = limits_word(request.spec, request.home)
    if word:
        click.echo(word)
    click.echo(f"report: {report_path(request)}")
