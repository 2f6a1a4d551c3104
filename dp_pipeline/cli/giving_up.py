"""`dp-pipeline budget give-up`: end a charged release that this program cannot finish."""

from __future__ import annotations

import click

from dp_pipeline.cli.operator_name import operator_name


@click.command("give-up")
@click.argument("key")
@click.option("--reason", required=True, help="Why; kept in the ledger.")
def give_up_command(key: str, reason: str) -> None:
    """End the unfinished release KEY for ever: what it cost stays spent, and `run --fresh` may draw
    anew. `dp-pipeline doctor` shows keys; finishing a release costs nothing and is better.
    """
    from dp_pipeline.ledger.home import find_home
    from dp_pipeline.orchestration.giving_up import give_up

    begun = give_up(find_home(), key, reason=reason, by=operator_name())
    click.echo(f"{begun.what}: given up; its charge stays, `run --fresh` draws anew")
