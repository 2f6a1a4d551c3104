"""`dp-pipeline budget`: what every population has spent; ceilings, the ledger's health, exports."""

from __future__ import annotations

import csv
import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from dp_pipeline.cli.operator_name import operator_name

if TYPE_CHECKING:
    from dp_pipeline.ledger.account import Account
    from dp_pipeline.ledger.export import Line


class ShowsByDefault(click.Group):
    """A group that takes what is no command of its own as arguments of `show`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """``budget``, ``budget trips`` and ``budget --json`` are `budget show …`."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=ShowsByDefault)
def budget() -> None:
    """What every population has spent, over all runs; `budget DATASET` shows one."""


@budget.command()
@click.argument("dataset", required=False)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable, exact text amounts.")
def show(dataset: str | None, as_json: bool) -> None:
    """Show what every lineage, or DATASET's, has spent over all runs."""
    from dp_pipeline.ledger.home import find_home
    from dp_pipeline.orchestration.budgets import budgets

    accounts = budgets(find_home().ledger, dataset)
    if as_json:
        click.echo(json.dumps([one.texts() for one in accounts], indent=1))
        return
    from dp_pipeline.reporting.terminal import print_table

    columns = ["lineage", "releases", "not-dp", "spent", "left", "ceiling", "a month", "its rest"]
    print_table("Privacy budgets (ε)", columns, [one.cells() for one in accounts])


@budget.command("raise")
@click.argument("dataset")
@click.option("--total", required=True, help="The new ceiling, for ever.")
@click.option("--per-month", help="The new limit of a calendar month, or none; else as it is.")
@click.option("--reason", required=True, help="Why; kept in the ledger, and exported.")
def raise_(dataset: str, total: str, per_month: str | None, reason: str) -> None:
    """Let the population of DATASET spend more, for ever. A row of the ledger says so."""
    from dp_pipeline.ledger.home import find_home
    from dp_pipeline.orchestration.budgets import lineage_of
    from dp_pipeline.schema.epsilon import parse_epsilon

    ledger, lineage = find_home().ledger, lineage_of(dataset)
    opened = ledger.account(lineage)
    now = opened.per_month if opened else None
    raised = ledger.raise_ceiling(
        lineage,
        total=parse_epsilon(total, of="--total"),
        per_month=now if per_month is None else _month(per_month),
        reason=reason,
        by=operator_name(),
    )
    click.echo(f"lineage {lineage}: {_limits(opened)} → {_limits(raised)}")
    click.echo(f"the account rules from now on; its files may say so: {_declared(raised)}")


@budget.command()
def verify() -> None:
    """Check every row, sum, limit, index and trigger of the ledger, its chain, and its head.

    Lock files that nobody holds are removed.
    """
    from dp_pipeline.ledger.home import find_home

    ledger = find_home().ledger
    tip = ledger.verify()
    click.echo(f"{tip.sequence} rows; chain, sums, limits and head agree; newest {tip.hash[:16]}")
    swept = ledger.sweep_locks()
    if swept:
        click.echo(f"{swept} lock files of ended runs removed")


@budget.command()
@click.argument("dataset", required=False)
@click.option("--format", "as_", type=click.Choice(["csv", "json"]), default="csv")
@click.option("--out", type=click.Path(path_type=Path), help="A file; else to the screen.")
def export(dataset: str | None, as_: str, out: Path | None) -> None:
    """Write accounts and releases for readers: no fingerprints, sources, runs or run times.

    As CSV one line an event; as JSON with every spend of a release.
    """
    from dp_pipeline.ledger.export import exported
    from dp_pipeline.ledger.home import find_home
    from dp_pipeline.orchestration.budgets import lineage_of

    ledger = find_home().ledger
    ledger.verify()
    wanted = None if dataset is None else lineage_of(dataset)
    write = _write_csv if as_ == "csv" else _write_json
    lines = exported(ledger.entries(wanted))
    if out is None:
        write(lines, sys.stdout)
        return
    from dp_pipeline.ledger.files import file_errors

    with file_errors(out), out.open("w", encoding="utf-8", newline="") as file:
        write(lines, file)


def _write_csv(lines: list[tuple[Line, list[Line]]], file: TextIO) -> None:
    from dp_pipeline.ledger.export import COLUMNS
    from dp_pipeline.schema.csv_cells import plain_cells

    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain_cells(line) for line, _ in lines)


def _write_json(lines: list[tuple[Line, list[Line]]], file: TextIO) -> None:
    told: list[dict[str, Any]] = [{**_values(line), "spends": spends} for line, spends in lines]
    json.dump(told, file, indent=1, ensure_ascii=False)
    file.write("\n")


def _values(line: Line) -> dict[str, Any]:
    """A line without its empty columns, and with parameters as an object."""
    from dp_pipeline.schema.parameter_facts import fact_values

    told: dict[str, Any] = {name: text for name, text in line.items() if text}
    values = fact_values(line["parameters"])
    return told if values is None else {**told, "parameters": values}


def _month(text: str) -> Fraction | None:
    from dp_pipeline.schema.epsilon import parse_epsilon

    return None if text == "none" else parse_epsilon(text, of="--per-month")


def _limits(account: Account | None) -> str:
    return "no account" if account is None else f"ceiling {_declared(account)}"


def _declared(account: Account) -> str:
    """The limits as a data set file says them."""
    from dp_pipeline.schema.epsilon import epsilon_text

    named = {"total": account.ceiling, "per_month": account.per_month}
    texts = [f"{name}: {epsilon_text(one)}" for name, one in named.items() if one is not None]
    return f"{{{', '.join(texts)}}}"
