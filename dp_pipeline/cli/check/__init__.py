"""`dp-pipeline check`: check a home, and whether its releases can be replayed or finished.

It reads declarations, the ledger, released answers and names of files, never a row, and writes
nothing but with ``--sweep``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from dp_pipeline.cli.check.findings import Finding, run_check
from dp_pipeline.cli.options import READER, Reader

if TYPE_CHECKING:
    from dp_pipeline.releases.home import Home


@click.command()
@READER
@click.option("--sweep", is_flag=True, help="Delete the temporary files of killed runs.")
@click.option(
    "--replay",
    is_flag=True,
    help="Rebuild every settled noisy release that a file still declares, and compare.",
)
@click.pass_context
def check(context: click.Context, reader: Reader, sweep: bool, replay: bool) -> None:
    """Check formats, ledger, permissions, leftovers and releases.

    Reads no row, shows no exact number and, without --sweep, writes nothing. Exit code 1 where
    somebody has to do something.
    """
    from dp_pipeline.cli.check.homes import sweep_all
    from dp_pipeline.releases.home import find_home

    home = find_home()
    swept = [str(path) for path in sweep_all(home)] if sweep else []
    findings = list(check_home(home, replay=replay))
    reader.print_output(
        lambda: {"findings": [asdict(finding) for finding in findings], "swept": swept},
        lambda: _print(home, findings, swept),
    )
    if any(finding.state == "fault" for finding in findings):
        context.exit(1)


def check_home(home: Home, *, replay: bool = False) -> Iterator[Finding]:
    """Yield the findings about a home, topic by topic.

    replay   as for ``check_releases``
    """
    from dp_pipeline.cli.check import homes, releases

    yield from run_check("formats", homes.check_formats(home))
    yield from run_check("formats", homes.check_dataset_files())
    yield from run_check("ledger", homes.check_ledger(home))
    yield from run_check("permissions", homes.check_permissions(home))
    yield from run_check("leftovers", homes.check_leftovers(home))
    yield from run_check("releases", releases.check_releases(home, replay=replay))


def _print(home: Home, findings: Sequence[Finding], swept: Sequence[str]) -> None:
    from dp_pipeline.reporting.text import print_table

    for path in swept:
        click.echo(f"deleted: {path}")
    rows = [[each.topic, each.state, each.text, each.remedy] for each in findings]
    print_table(f"Check of {home.root}", ["about", "state", "finding", "what to do"], rows)
    faults = sum(finding.state == "fault" for finding in findings)
    click.echo(f"faults: {faults}" if faults else "no fault")
