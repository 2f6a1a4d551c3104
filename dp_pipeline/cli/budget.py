"""`dp-pipeline budget`: what every population has spent; ceilings, the ledger's health, exports.

`dp-pipeline budget move`: from the file of a home to a server.

`dp-pipeline budget restore`: a ledger that would not go on, goes on.

`dp-pipeline budget give-up`: end a charged release that this program cannot finish.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from dp_pipeline.cli import OrderedGroup, operator_name
from dp_pipeline.cli.options import DATASET, FORMAT, READER, Reader, dataset_names
from dp_pipeline.config.errors import DeclarationError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from dp_pipeline.ledger.account import Account
    from dp_pipeline.ledger.export import Line
    from dp_pipeline.releases.account import Budget
    from dp_pipeline.releases.home import Home


def _home() -> Home:
    """Whose ledger is meant; the ledger's code is imported when somebody asks."""
    from dp_pipeline.releases.home import find_home

    return find_home()


class ShowsByDefault(OrderedGroup):
    """A group that takes what is no command of its own as arguments of `show`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """``budget``, ``budget trips`` and ``budget --json`` are `budget show …`."""
        is_named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        # A shell that completes the first word may get either kind.
        if not is_named and (args or not ctx.resilient_parsing):
            args = ["show", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Its commands, and what `show` takes."""
        shown = self.commands["show"].params[0].shell_complete(ctx, incomplete)
        return [*super().shell_complete(ctx, incomplete), *shown]


@click.group(cls=ShowsByDefault)
def budget() -> None:
    """Show what each population has spent; raise or verify it.

    `budget DATASET` shows one population.
    """


@budget.command()
@click.argument("dataset", required=False, shell_complete=dataset_names)
@READER
def show(dataset: str | None, reader: Reader) -> None:
    """Show what every population, or that of DATASET, has spent."""
    from dp_pipeline.releases.account import budgets

    accounts = budgets(_home().ledger, dataset)
    reader.answer(
        lambda: {"accounts": [one.texts() for one in accounts]}, lambda: _print_budgets(accounts)
    )


_HOW_TO_READ = (
    "How to read it: spent, left and ceiling are for ever; a month: the limit of each calendar "
    "month (UTC), its rest: what is left of this one; not-dp: releases without ε; none: no limit "
    "is declared."
)


def _print_budgets(accounts: Sequence[Budget]) -> None:
    from dp_pipeline.reporting.text import print_table

    columns = [
        "population",
        "releases",
        "not-dp",
        "spent",
        "left",
        "ceiling",
        "a month",
        "its rest",
    ]
    print_table("Privacy budgets (ε)", columns, [one.cells() for one in accounts])
    if accounts:
        click.echo(_HOW_TO_READ)
    for one in accounts:
        if one.windows_word:
            click.echo(f"{one.population}: {one.windows_word}")
        if one.balance.delta_summary:
            click.echo(f"{one.population}: δ of discovered levels: {one.balance.delta_summary}")


@budget.command("raise")
@DATASET
@click.option("--total", help="The new ceiling, for ever; else as it is.")
@click.option("--delta", help="The new ceiling of the δ of discoveries, for ever; else as it is.")
@click.option("--each-window", help="The new limit of each window; else as it is.")
@click.option("--per-month", help="The new limit of a calendar month, or none; else as it is.")
@click.option("--reason", required=True, help="Why; kept in the ledger, and exported.")
def raise_(
    dataset: str,
    total: str | None,
    delta: str | None,
    each_window: str | None,
    per_month: str | None,
    reason: str,
) -> None:
    """Let the population of DATASET spend more, for ever.

    A row of the ledger records it.
    """
    from dp_pipeline.config.amounts import parse_delta, parse_epsilon
    from dp_pipeline.releases.account import population_of

    ledger, population = _home().ledger, population_of(dataset)
    opened = ledger.account(population)
    now = opened.per_month if opened else None
    as_it_is = opened.ceiling if opened and opened.ceiling else None
    has_windows = opened is not None and bool(opened.windows)
    if total is None and as_it_is is None and not has_windows:
        raise click.UsageError("--total: expected the new ceiling, got none")
    raised = ledger.raise_ceiling(
        population,
        total=as_it_is if total is None else parse_epsilon(total, of="--total"),
        per_month=now if per_month is None else _month(per_month),
        reason=reason,
        by=operator_name(),
        delta_ceiling=None if delta is None else parse_delta(delta, of="--delta"),
        each_window=None if each_window is None else parse_epsilon(each_window, of="--each-window"),
    )
    click.echo(f"population {population}: {_limits(opened)} → {_limits(raised)}")
    click.echo(f"the account rules from now on; its files may say so: {_declared(raised)}")


@budget.command()
@READER
def verify(reader: Reader) -> None:
    """Verify rows, sums, limits, triggers and head of the ledger.

    Lock files that nobody holds are removed.
    """

    ledger = _home().ledger
    tip = ledger.verify()
    reader.answer(
        lambda: {"rows": tip.sequence, "newest": tip.hash},
        lambda: click.echo(
            f"{tip.sequence} rows; chain, sums, limits and head agree; newest {tip.hash[:16]}"
        ),
    )
    swept = ledger.sweep_locks()
    if swept:
        reader.note(f"{swept} lock files of ended runs removed")


@budget.command()
@click.argument("dataset", required=False, shell_complete=dataset_names)
@click.option("--format", "as_", type=click.Choice(["csv", "json"]), default="csv")
@click.option("--out", type=click.Path(path_type=Path), help="A file; else to the screen.")
def export(dataset: str | None, as_: str, out: Path | None) -> None:
    """Write accounts and releases for readers.

    Without fingerprints, sources, runs and run times. As CSV one line an event; as JSON one
    document with every spend of a release.
    """
    from dp_pipeline.ledger.export import exported
    from dp_pipeline.releases.account import population_of

    ledger = _home().ledger
    ledger.verify()
    wanted = None if dataset is None else population_of(dataset)
    write = _write_csv if as_ == "csv" else _write_json
    lines = exported(ledger.entries(wanted))
    if out is None:
        write(lines, sys.stdout)
        return
    from dp_pipeline.ledger.head import file_errors

    with file_errors(out), out.open("w", encoding="utf-8", newline="") as file:
        write(lines, file)


def _write_csv(lines: list[tuple[Line, list[Line]]], file: TextIO) -> None:
    from dp_pipeline.files import escape_formulas
    from dp_pipeline.ledger.export import COLUMNS

    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(escape_formulas(line) for line, _ in lines)


def _write_json(lines: list[tuple[Line, list[Line]]], file: TextIO) -> None:
    told = {
        "format": FORMAT,
        "lines": [{**_values(line), "spends": spends} for line, spends in lines],
    }
    json.dump(told, file, indent=1, ensure_ascii=False)
    file.write("\n")


def _values(line: Line) -> dict[str, Any]:
    """A line without its empty columns, and with parameters as an object."""
    from dp_pipeline.config.parameters import fact_values

    told: dict[str, Any] = {name: text for name, text in line.items() if text}
    values = fact_values(line["parameters"])
    return told if values is None else {**told, "parameters": values}


def _month(text: str) -> Fraction | None:
    from dp_pipeline.config.amounts import parse_epsilon

    return None if text == "none" else parse_epsilon(text, of="--per-month")


def _limits(account: Account | None) -> str:
    return "no account" if account is None else f"ceiling {_declared(account)}"


def _declared(account: Account) -> str:
    """The limits as a data set file says them."""
    from dp_pipeline.config.amounts import delta_text, epsilon_text

    named = {
        "total": account.ceiling,
        "each_window": account.each_window,
        "per_month": account.per_month,
    }
    texts = [f"{name}: {epsilon_text(one)}" for name, one in named.items() if one is not None]
    if account.delta_ceiling is not None:
        texts.append(f"delta: {delta_text(account.delta_ceiling)}")
    return f"{{{', '.join(texts)}}}"


@click.command()
def move() -> None:
    """Move the ledger to the server that DP_PIPELINE_LEDGER names.

    Its database has to be empty. The rows keep their hashes and the ledger its head. Keys and
    locks stay in the home.
    """
    from dp_pipeline.ledger.book import LEDGER_VARIABLE
    from dp_pipeline.ledger.export import move_to_server

    home = _home()
    if home.database is None:
        raise DeclarationError(
            f"{LEDGER_VARIABLE}: expected the address of a server, got nothing: "
            f"`export {LEDGER_VARIABLE}=postgresql://user@host/database`"
        )
    tip = move_to_server(home.ledger_folder, head=home.head, url=home.database)
    click.echo(f"{tip.sequence} rows moved; keep {LEDGER_VARIABLE} set from now on")


_ROW = "A row that the ledger did not write, as a refusal names it; several times for several."


@click.command()
@click.option("--row", "rows", multiple=True, metavar="NUMBER:DIGEST", help=_ROW)
@click.option("--reason", required=True, help="Why; kept in the ledger, and exported.")
def restore(rows: tuple[str, ...], reason: str) -> None:
    """Restore a damaged ledger at the last row that holds.

    Its sums are computed anew from the rows.

    Rows behind it that somebody else wrote are taken out, each in place of a row of the ledger that
    says so: what looks like a charge is charged, and no sum gets smaller. Rows that the head covers
    are refused. On a server the owner of the tables does this.
    """

    named = dict(_row(text) for text in rows)
    tip = _home().ledger.restore(named, reason=reason, by=operator_name())
    out = f"{len(named)} rows taken out and charged; " if named else ""
    click.echo(f"{out}sums computed anew; the ledger goes on at row {tip.sequence}")


def _row(text: str) -> tuple[int, str]:
    number, _, digest = text.partition(":")
    if not number.lstrip("-").isdecimal() or not digest:
        raise click.UsageError(f"--row: expected NUMBER:DIGEST, got {text[:80]!r}")
    return int(number), digest


@click.command("give-up")
@click.argument("key")
@click.option("--reason", required=True, help="Why; kept in the ledger.")
def give_up_command(key: str, reason: str) -> None:
    """End the unfinished release KEY for ever.

    What it cost stays spent, and `run --new-draw` may draw anew. `dp-pipeline check` shows keys;
    finishing a release costs nothing and is better.
    """
    from dp_pipeline.releases.publish import give_up

    begun = give_up(_home(), key, reason=reason, by=operator_name())
    click.echo(f"{begun.what}: given up; its charge stays, `run --new-draw` draws anew")


for command in (give_up_command, move, restore):
    budget.add_command(command)
