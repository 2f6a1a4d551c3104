"""`dp-pipeline budget`: what every population has spent."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("dataset", required=False)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable, exact text amounts.")
def budget(dataset: str | None, as_json: bool) -> None:
    """Show what every lineage, or DATASET's, has spent over all runs."""
    from dp_pipeline.ledger.home import find_home
    from dp_pipeline.orchestration.budgets import budgets

    accounts = budgets(find_home().ledger, dataset)
    if as_json:
        click.echo(json.dumps([one.texts() for one in accounts], indent=1))
        return
    from dp_pipeline.reporting.terminal import print_table

    columns = ["lineage", "releases", "not-dp", "spent", "left", "ceiling"]
    print_table("Privacy budgets (ε)", columns, [one.cells() for one in accounts])
