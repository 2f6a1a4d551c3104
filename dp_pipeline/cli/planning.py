"""`dp-pipeline plan`: what a run would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.cli.asked import request_options, requested
from dp_pipeline.orchestration.anonymize_command import anonymity_line

if TYPE_CHECKING:
    from dp_pipeline.orchestration.plan import Plan, PlannedRelease


@click.command()
@request_options
def plan(dataset: str, **options: Any) -> None:
    """Show what `run` would cost: asked, spent, left, ceiling. Nothing is read or charged."""
    from dp_pipeline.orchestration.plan import plan_request

    planned = plan_request(requested(dataset, **options))
    print_plan(planned)
    if planned.spec.k_anonymity is not None:
        click.echo(anonymity_line(planned.spec))
    planned.require_budget()


def print_plan(planned: Plan) -> None:
    """A line a release, and what the account has."""
    from dp_pipeline.reporting.terminal import print_table
    from dp_pipeline.schema.epsilon import epsilon_text

    rows = [
        [one.model, epsilon_text(one.epsilon), one.state, epsilon_text(one.cost), *_size(one)]
        for one in planned.releases
    ]
    currency = planned.spec.currency
    cost = "cost" if currency.delta is None else f"cost ({currency.symbol})"
    columns = ["model", "ε", "state", cost, "cells at most", "MB at most"]
    if not planned.has_tables:
        columns, rows = columns[:-2], [row[:-2] for row in rows]
    print_table(f"Plan of {planned.spec.name}", columns, rows)
    texts = {
        name: "no limit" if amount is None else currency.text(amount)
        for name, amount in planned.amounts.items()
    }
    click.echo(", ".join(f"{name} {text}" for name, text in texts.items()))
    if planned.word:
        click.echo(planned.word)


def _size(planned: PlannedRelease) -> tuple[str, str]:
    """Cells and memory of a table, as text; dashes where the model releases none."""
    from dp_pipeline.reporting.number_text import number_text

    cells, megabytes = planned.cells, planned.megabytes
    if cells is None or megabytes is None:
        return "–", "–"
    return f"{cells:,}", number_text(megabytes)
