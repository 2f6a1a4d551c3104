"""`dp-pipeline`: run, anonymize, plan, backfill, budget, data, ui, demo, study, doctor. Heavy
packages are imported by the command that needs them: ``--help`` and ``budget`` start at once.

Exit codes: 0 done, 1 failed, 2 wrong use, 3 budget refused.
"""

from __future__ import annotations

import click

from dp_pipeline import __version__
from dp_pipeline.cli.backfilling import backfill
from dp_pipeline.cli.budgeting import budget
from dp_pipeline.cli.declaring import data
from dp_pipeline.cli.doctor.command import doctor
from dp_pipeline.cli.giving_up import give_up_command
from dp_pipeline.cli.guarded_dagster import dagster_dev, webserver
from dp_pipeline.cli.mending import quarantine, restate, upgrade
from dp_pipeline.cli.moving import move
from dp_pipeline.cli.one_line_errors import OneLineErrors
from dp_pipeline.cli.planning import plan
from dp_pipeline.cli.running import demo, run
from dp_pipeline.cli.serving import ui
from dp_pipeline.orchestration.anonymize_command import anonymize
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
