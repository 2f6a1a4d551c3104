"""`dp-pipeline`: run, anonymize, plan, backfill, budget, data, ui, demo, study, doctor. Heavy
packages are imported by the command that needs them: ``--help`` and ``budget`` start at once.

Exit codes: 0 done, 1 failed, 2 wrong use, 3 budget refused.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from dp_pipeline import __version__
from dp_pipeline.cli.errors import OneLineErrors

COMMANDS = {
    "anonymize": "cli.anonymize:anonymize",
    "backfill": "cli.run:backfill",
    "budget": "cli.budget:budget",
    "dagster-dev": "cli.web_guard:dagster_dev",
    "data": "cli.data:data",
    "demo": "cli.run:demo",
    "doctor": "cli.doctor.command:doctor",
    "plan": "cli.run:plan",
    "run": "cli.run:run",
    "study": "studies.commands:study",
    "ui": "cli.ui:ui",
    "webserver": "cli.web_guard:webserver",
}
"""Command → where it is; imported when it is asked for."""


class Commands(OneLineErrors):
    """The commands of the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Their names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """One of them, None for a name that is none."""
        module, _, name = COMMANDS.get(cmd_name, "").partition(":")
        if not module:
            return None
        command: Any = getattr(import_module(f"dp_pipeline.{module}"), name)
        return command  # type: ignore[no-any-return]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dp-pipeline")
def main() -> None:
    """Publish sensitive tables and locations with differential privacy."""
