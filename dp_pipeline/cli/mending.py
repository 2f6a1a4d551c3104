"""`dp-pipeline budget quarantine | restate | upgrade`: a ledger that would not go on, goes on."""

from __future__ import annotations

import click

from dp_pipeline.cli.operator_name import operator_name

_REASON = click.option("--reason", required=True, help="Why; kept in the ledger, and exported.")


@click.command()
@click.option(
    "--row",
    "rows",
    required=True,
    multiple=True,
    metavar="NUMBER:DIGEST",
    help="A row that the ledger did not write, as `budget verify` names it; several times for "
    "several.",
)
@_REASON
def quarantine(rows: tuple[str, ...], reason: str) -> None:
    """Go on beside rows that somebody else wrote into the ledger's database.

    A row of the ledger names each with the digest of its bytes. What looks like a charge is
    charged: no sum gets smaller. Rows that the head covers are refused.
    """
    from dp_pipeline.ledger.home import find_home

    named = dict(_row(text) for text in rows)
    tip = find_home().ledger.quarantine(named, reason=reason, by=operator_name())
    numbers = ", ".join(str(number) for number in sorted(named))
    click.echo(f"quarantined: row {numbers}; the ledger goes on at row {tip.sequence}")


@click.command()
@_REASON
def restate(reason: str) -> None:
    """Compute the ledger's sums anew from its rows, all of which have to hold."""
    from dp_pipeline.ledger.home import find_home

    tip = find_home().ledger.restate(reason=reason, by=operator_name())
    click.echo(f"sums computed anew from {tip.sequence - 1} rows; row {tip.sequence} says so")


@click.command()
def upgrade() -> None:
    """Bring a ledger of the format before to the one of this program. Back it up first.

    Its rows stay as they are. On a server the owner of the tables does this.
    """
    from dp_pipeline.ledger.home import find_home

    tip = find_home().ledger.upgrade(by=operator_name())
    click.echo(f"upgraded; {tip.sequence - 1} rows stay as they were, row {tip.sequence} says so")


def _row(text: str) -> tuple[int, str]:
    number, _, digest = text.partition(":")
    if not number.lstrip("-").isdecimal() or not digest:
        raise click.UsageError(f"--row: expected NUMBER:DIGEST, got {text[:80]!r}")
    return int(number), digest
