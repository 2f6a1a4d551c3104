"""`dp-pipeline budget`: show, raise, verify, export, move and restore the ledger."""

from __future__ import annotations

import csv
import json
import re
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
    from dp_pipeline.releases.budgets import Budget
    from dp_pipeline.releases.home import Home


def _home() -> Home:
    from dp_pipeline.releases.home import find_home

    return find_home()


class ShowsByDefault(OrderedGroup):
    """A group that hands arguments without a command to `show`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read ``budget``, ``budget trips`` and ``budget --json`` as `budget show …`."""
        is_named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        # A shell that completes the first word may get either kind.
        if not is_named and (args or not ctx.resilient_parsing):
            args = ["show", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        datasets = self.commands["show"].params[0].shell_complete(ctx, incomplete)
        return [*super().shell_complete(ctx, incomplete), *datasets]


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
    from dp_pipeline.releases.budgets import budgets

    accounts = budgets(_home().ledger, dataset)
    reader.print_output(
        lambda: {"accounts": [budget.texts() for budget in accounts]},
        lambda: _print_budgets(accounts),
    )


_HOW_TO_READ = (
    "How to read it: spent, left and ceiling are for ever; a month: the limit of each calendar "
    "month (UTC), its rest: what is left of this one; not-dp: releases without ε; none: no limit "
    "is declared."
)


def _print_budgets(accounts: Sequence[Budget]) -> None:
    from dp_pipeline.reporting.text import print_table

    columns = ["population", "releases", "not-dp", "spent", "left", "ceiling"]
    columns += ["a month", "its rest"]
    print_table("Privacy budgets (ε)", columns, [budget.cells() for budget in accounts])
    if accounts:
        click.echo(_HOW_TO_READ)
    for budget in accounts:
        if budget.window_summary:
            click.echo(f"{budget.population}: {budget.window_summary}")
        if summary := budget.balance.delta_summary:
            click.echo(f"{budget.population}: δ of discovered levels: {summary}")


@budget.command("raise")
@DATASET
@click.option("--total", help="The new ceiling, for ever; by default unchanged.")
@click.option("--delta", help="The new ceiling of the δ of discoveries, for ever.")
@click.option("--each-window", help="The new limit of each window.")
@click.option("--per-month", help="The new limit of a calendar month, or none.")
@click.option("--reason", required=True, help="The reason; recorded in the ledger, and exported.")
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
    from dp_pipeline.releases.budgets import population_of

    ledger, population = _home().ledger, population_of(dataset)
    opened, changed = ledger.account(population), dict[str, Fraction | None]()
    if total is not None:
        changed["ceiling"] = parse_epsilon(total, of="--total")
    if each_window is not None:
        changed["each_window"] = parse_epsilon(each_window, of="--each-window")
    if delta is not None:
        changed["delta_ceiling"] = parse_delta(delta, of="--delta")
    if per_month is not None:
        is_none = per_month == "none"
        changed["per_month"] = None if is_none else parse_epsilon(per_month, of="--per-month")
    raised = ledger.raise_ceiling(population, reason=reason, by=operator_name(), **changed)
    click.echo(f"population {population}: {_limits(opened)} → {_limits(raised)}")
    click.echo(f"these limits hold now; data set files may declare them: {_limits_text(raised)}")


@click.command("add-windows")
@DATASET
@click.option("--reason", required=True, help="The reason; recorded in the ledger, and exported.")
def add_windows(dataset: str, reason: str) -> None:
    """Give an account windows, as DATASET declares them, once.

    What was spent before counts against every window, twice where persons have several rows. A row
    of the ledger records it.
    """
    from dp_pipeline.config.catalogue import file_of
    from dp_pipeline.config.parser import load_spec
    from dp_pipeline.releases.account import declared_account

    ledger, spec = _home().ledger, load_spec(file_of(dataset))
    account = ledger.add_windows(declared_account(spec), reason=reason, by=operator_name())
    text = spec.currency.text
    earlier = ledger.balance(spec.population, (spec.time_windows.first,))
    click.echo(f"population {spec.population}: {account.windows}, {_limits(account)}")
    click.echo(
        f"what was spent before, {text(earlier.spent)}, counts as {text(earlier.window_spent)} in "
        "every window; files without windows are refused from now on"
    )


@budget.command()
@READER
def verify(reader: Reader) -> None:
    """Verify rows, sums, limits, triggers and head of the ledger.

    Lock files that nobody holds are removed.
    """
    ledger = _home().ledger
    tip = ledger.verify()
    reader.print_output(
        lambda: {"rows": tip.sequence, "newest": tip.hash},
        lambda: click.echo(
            f"{tip.sequence} rows; chain, sums, limits and head agree; newest {tip.hash[:16]}"
        ),
    )
    if swept := ledger.sweep_locks():
        reader.note(f"{swept} lock files of ended runs removed")


@budget.command()
@click.argument("dataset", required=False, shell_complete=dataset_names)
@click.option("--format", "as_", type=click.Choice(["csv", "json"]), default="csv")
@click.option("--out", type=click.Path(path_type=Path), help="A file; by default the screen.")
def export(dataset: str | None, as_: str, out: Path | None) -> None:
    """Write accounts and releases for readers.

    Fingerprints, sources, runs and run times are left out. CSV has one line an event; JSON is one
    document, with every spend of a release.
    """
    from dp_pipeline.ledger.export import export_lines
    from dp_pipeline.releases.budgets import population_of

    ledger = _home().ledger
    ledger.verify()
    population = None if dataset is None else population_of(dataset)
    write = _write_csv if as_ == "csv" else _write_json
    lines = export_lines(ledger.entries(population))
    if out is None:
        write(lines, sys.stdout)
        return
    from dp_pipeline.ledger.head import file_errors

    with file_errors(out), out.open("w", encoding="utf-8", newline="") as file:
        write(lines, file)


def _write_csv(lines: list[tuple[Line, list[Line]]], file: TextIO) -> None:
    from dp_pipeline.ledger.export import COLUMNS
    from dp_pipeline.spreadsheet import escape_formula

    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for line, _ in lines:
        writer.writerow({name: escape_formula(cell) for name, cell in line.items()})


def _write_json(lines: list[tuple[Line, list[Line]]], file: TextIO) -> None:
    from dp_pipeline.config.parameters import fact_values

    documents = []
    for line, spends in lines:
        document: dict[str, Any] = {name: text for name, text in line.items() if text}
        parameters = fact_values(line["parameters"])
        if parameters is not None:
            document["parameters"] = parameters
        documents.append({**document, "spends": spends})
    json.dump({"format": FORMAT, "lines": documents}, file, indent=1, ensure_ascii=False)
    file.write("\n")


def _limits(account: Account | None) -> str:
    return "no account" if account is None else f"ceiling {_limits_text(account)}"


def _limits_text(account: Account) -> str:
    """Return the limits of an account in the form of a data set file."""
    from dp_pipeline.config.amounts import delta_text, epsilon_text

    limits = {"total": account.ceiling, "each_window": account.each_window}
    limits |= {"per_month": account.per_month}
    texts = [f"{name}: {epsilon_text(each)}" for name, each in limits.items() if each is not None]
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
            f"The variable {LEDGER_VARIABLE} must hold the address of a server, but it is not "
            f"set: `export {LEDGER_VARIABLE}=postgresql://user@host/database`"
        )
    tip = move_to_server(home.ledger_folder, head=home.head, url=home.database)
    click.echo(f"{tip.sequence} rows moved; keep {LEDGER_VARIABLE} set from now on")


_ROW = "A row that the ledger did not write, as a refusal names it; may be repeated."


@click.command()
@click.option("--row", "rows", multiple=True, metavar="NUMBER:DIGEST", help=_ROW)
@click.option("--reason", required=True, help="The reason; recorded in the ledger, and exported.")
def restore(rows: tuple[str, ...], reason: str) -> None:
    """Restore a damaged ledger at the last row that holds.

    Its sums are computed anew from the rows.

    Foreign rows behind it are replaced by rows of the ledger that record it: what looks like a
    charge is charged, and no sum gets smaller. Rows that the head covers are refused. On a server
    the owner of the tables does this.
    """
    digests = {}
    for text in rows:
        number, _, digest = text.partition(":")
        if not re.fullmatch(r"-?[0-9]{1,18}", number) or not digest:
            raise DeclarationError(
                "--row: expected NUMBER:DIGEST, as `dp-pipeline budget verify` prints it, got "
                f"{text[:80]!r}"
            )
        digests[int(number)] = digest
    tip = _home().ledger.restore(digests, reason=reason, by=operator_name())
    out = f"{len(digests)} rows taken out and charged; " if digests else ""
    click.echo(f"{out}sums computed anew; the ledger goes on at row {tip.sequence}")


@click.command("give-up")
@click.argument("key")
@click.option("--reason", required=True, help="The reason; recorded in the ledger.")
def give_up_command(key: str, reason: str) -> None:
    """End the unfinished release KEY for ever.

    What it cost stays spent, and `run --new-draw` may draw anew. `dp-pipeline check` shows keys;
    finishing a release costs nothing and is better.
    """
    from dp_pipeline.releases.publish import give_up

    entry = give_up(_home(), key, reason=reason, by=operator_name())
    click.echo(f"{entry.what}: given up; its charge stays, `run --new-draw` draws anew")


for command in (add_windows, give_up_command, move, restore):
    budget.add_command(command)
