"""`dp-pipeline budget quarantine | restate | upgrade`: a ledger that would not go on, goes on."""

from __future__ import annotations

import click

from dp_pipeline.cli.operator_name import operator_name

_WHY = "Why; kept in the ledger, and exported."
_REASON = click.option("--reason", required=True, help=_WHY)
_ROW = "A row that the ledger did not write, as a refusal names it; several times for several."


@click.command()
@click.option("--row", "rows", required=True, multiple=True, metavar="NUMBER:DIGEST", help=_ROW)
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
@click.option("--row", "rows", multiple=True, metavar="NUMBER:DIGEST", help=_ROW)
@click.option("--reason", default="", help=f"{_WHY} Asked for beside --row.")
@click.option(
    "--with-unfinished",
    is_flag=True,
    help="Although releases are unfinished: this program cannot finish them, and the one before "
    "does not open the ledger any more.",
)
def upgrade(rows: tuple[str, ...], reason: str, with_unfinished: bool) -> None:
    """Bring a ledger of the format before to the one of this program. Back it up first.

    Its rows stay as they are. On a server the owner of the tables does this. Refused while charged
    releases are unfinished: finish them with the version that began them.
    """
    from dp_pipeline.ledger.home import find_home

    named = dict(_row(text) for text in rows)
    ledger = find_home().ledger
    tip = ledger.upgrade(
        by=operator_name(), with_unfinished=with_unfinished, named=named, reason=reason
    )
    before = tip.sequence - 1 - len(named)
    click.echo(f"upgraded; {before} rows stay as they were, row {before + 1} says so")


def _row(text: str) -> tuple[int, str]:
    number, _, digest = text.partition(":")
    if not number.lstrip("-").isdecimal() or not digest:
        raise click.UsageError(f"--row: expected NUMBER:DIGEST, got {text[:80]!r}")
    return int(number), digest
