"""`dp-pipeline`: run, anonymize, plan, backfill, budget, data, ui, demo, study, doctor. Heavy
packages are imported by the command that needs them: ``--help`` and ``budget`` start at once.

Exit codes: 0 done, 1 failed, 2 wrong use, 3 budget refused.
"""

from __future__ import annotations

import click

from dp_pipeline import __version__
from dp_pipeline.cli.anonymize import anonymize
from dp_pipeline.cli.budget import budget, give_up_command, move, quarantine, restate, upgrade
from dp_pipeline.cli.data import data
from dp_pipeline.cli.doctor.command import doctor
from dp_pipeline.cli.errors import OneLineErrors
from dp_pipeline.cli.run import backfill, demo, plan, run
from dp_pipeline.cli.ui import ui
from dp_pipeline.cli.web_guard import dagster_dev, webserver
from dp_pipeline.studies.commands import study


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dp-pipeline")
def main() -> None:
    """Publish sensitive tables and locations with differential privacy."""


for command in (
    run,
    demo,
    plan,
    backfill,
    budget,
    data,
    anonymize,
    study,
    ui,
    doctor,
    webserver,
    dagster_dev,
):
    main.add_command(command)
for command in (move, quarantine, restate, upgrade, give_up_command):
    budget.add_command(command)
