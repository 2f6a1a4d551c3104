"""`dp-pipeline doctor`: is everything in order here, and what would an upgrade do?"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dp_pipeline.cli.doctor.finding import Finding
    from dp_pipeline.ledger.home import Home


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.option("--sweep", is_flag=True, help="Delete what killed runs left behind.")
@click.pass_context
def doctor(context: click.Context, as_json: bool, sweep: bool) -> None:
    """Look at formats, ledger, permissions, leftovers, Dagster's history, and at what this version
    would do with the releases that there are.

    Reads no row, shows no exact number and, without --sweep, writes nothing. Exit code 1 where
    somebody has to do something.
    """
    from dp_pipeline.cli.doctor.leftovers import sweep_all
    from dp_pipeline.ledger.home import find_home

    home = find_home()
    swept = [str(path) for path in sweep_all(home)] if sweep else []
    found = findings(home)
    if as_json:
        told = {"findings": [one.texts() for one in found], "swept": swept}
        click.echo(json.dumps(told, indent=1, ensure_ascii=False))
    else:
        _print(home, found, swept)
    if any(one.state == "fault" for one in found):
        context.exit(1)


def findings(home: Home) -> list[Finding]:
    """Everything that there is to say, topic by topic."""
    from dp_pipeline.cli.doctor.finding import examined
    from dp_pipeline.cli.doctor.formats import dataset_formats, stored_formats
    from dp_pipeline.cli.doctor.history import run_history
    from dp_pipeline.cli.doctor.ledgers import ledger_and_head
    from dp_pipeline.cli.doctor.leftovers import left_behind
    from dp_pipeline.cli.doctor.permissions import private_places
    from dp_pipeline.cli.doctor.upgrade import releases

    return [
        *examined("formats", partial(stored_formats, home)),
        *examined("formats", dataset_formats),
        *examined("ledger", partial(ledger_and_head, home)),
        *examined("permissions", partial(private_places, home)),
        *examined("leftovers", partial(left_behind, home)),
        *examined("dagster", partial(run_history, home)),
        *examined("releases", partial(releases, home)),
    ]


def _print(home: Home, found: list[Finding], swept: list[str]) -> None:
    from dp_pipeline.reporting.terminal import print_table

    for path in swept:
        click.echo(f"deleted: {path}")
    rows = [[one.topic, one.state, one.text, one.remedy] for one in found]
    print_table(f"Doctor of {home.root}", ["about", "state", "found", "what to do"], rows)
    faults = sum(one.state == "fault" for one in found)
    click.echo("all is well" if not faults else f"{faults} need a hand")
