"""`dp-pipeline doctor`: is everything in order here, and what would a run do with what is released?

It looks at what is stored, who may read it, what was left behind, and what this version of the
program would make of it. It reads declarations, the ledger, answers that were released and names of
files; never a row. But for sweeping, when that is asked, it writes nothing.

Finding: one line of the doctor, and how one object's error stays that object's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from dp_pipeline.cli.options import READER, Reader
from dp_pipeline.config.errors import PipelineError

if TYPE_CHECKING:
    from dp_pipeline.releases.home import Home


@click.command()
@READER
@click.option("--sweep", is_flag=True, help="Delete what killed runs left behind.")
@click.option(
    "--remake", is_flag=True, help="Make every release again from its answers, and compare."
)
@click.pass_context
def doctor(context: click.Context, reader: Reader, sweep: bool, remake: bool) -> None:
    """Look at formats, ledger, permissions, leftovers, and at what this program
    would do with the releases that there are.

    Reads no row, shows no exact number and, without --sweep, writes nothing. Exit code 1 where
    somebody has to do something.
    """
    from dp_pipeline.cli.doctor.homes import sweep_all
    from dp_pipeline.releases.home import find_home

    home = find_home()
    swept = [str(path) for path in sweep_all(home)] if sweep else []
    found = findings(home, remake=remake)
    reader.answer(
        lambda: {"findings": [one.texts() for one in found], "swept": swept},
        lambda: _print(home, found, swept),
    )
    if any(one.state == "fault" for one in found):
        context.exit(1)


def findings(home: Home, *, remake: bool = False) -> list[Finding]:
    """Everything that there is to say, topic by topic."""
    from dp_pipeline.cli.doctor.homes import (
        dataset_formats,
        ledger_and_head,
        left_behind,
        private_places,
        stored_formats,
    )
    from dp_pipeline.cli.doctor.releases import releases

    return [
        *examined("formats", partial(stored_formats, home)),
        *examined("formats", dataset_formats),
        *examined("ledger", partial(ledger_and_head, home)),
        *examined("permissions", partial(private_places, home)),
        *examined("leftovers", partial(left_behind, home)),
        *examined("releases", partial(releases, home, remake=remake)),
    ]


def _print(home: Home, found: list[Finding], swept: list[str]) -> None:
    from dp_pipeline.reporting.text import print_table

    for path in swept:
        click.echo(f"deleted: {path}")
    rows = [[one.topic, one.state, one.text, one.remedy] for one in found]
    print_table(f"Doctor of {home.root}", ["about", "state", "found", "what to do"], rows)
    faults = sum(one.state == "fault" for one in found)
    click.echo("all is well" if not faults else f"{faults} need a hand")


State = Literal["ok", "note", "fault"]


@dataclass(frozen=True)
class Finding:
    """What was found about one object.

    state   ``ok``; ``note``: good to know; ``fault``: somebody has to do something
    remedy  what to do; empty where nothing is to be done
    """

    topic: str
    state: State
    text: str
    remedy: str = ""

    def texts(self) -> dict[str, str]:
        """For machines."""
        return dict(vars(self))


Examine = Callable[[], Iterator[Finding]]


def examined(topic: str, examine: Examine) -> list[Finding]:
    """What an examination finds; what it failed at is found as well, and ends nothing else."""
    found: list[Finding] = []
    try:
        found += examine()
    except PipelineError as error:
        found.append(Finding(topic, "fault", " ".join(str(error).split())))
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        found.append(Finding(topic, "fault", f"cannot read{where}: {error.strerror}"))
    return found


@contextmanager
def collected(found: list[Finding], topic: str, of: str) -> Iterator[None]:
    """An error in the block becomes a finding about one object."""
    try:
        yield
    except PipelineError as error:
        found.append(Finding(topic, "fault", " ".join(str(error).split())))
    except (OSError, ValueError, LookupError, TypeError) as error:
        # Of what is stored only the kind of the error is said: its words may quote the content.
        reason = getattr(error, "strerror", None) or type(error).__name__
        found.append(Finding(topic, "fault", f"{of}: cannot be read: {reason}"))
