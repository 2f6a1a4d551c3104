"""`dp-pipeline backfill`: every model at several ε, as runs of the Dagster that is running."""

from __future__ import annotations

import time

import click

from dp_pipeline.cli.asked import requested
from dp_pipeline.cli.planning import print_plan


@click.command()
@click.argument("dataset")
@click.option("--epsilon", "epsilons", multiple=True, help="Only this ε; may be repeated.")
def backfill(dataset: str, epsilons: tuple[str, ...]) -> None:
    """Let the running Dagster release DATASET with every model at every ε, one run an ε. Shows
    what it costs first, and refuses what does not fit.
    """
    from dp_pipeline.orchestration.backfill import require_daemon, submit_backfill
    from dp_pipeline.orchestration.instance import dagster_instance
    from dp_pipeline.orchestration.plan import plan_request
    from dp_pipeline.schema.epsilon import epsilon_text

    request = requested(dataset, epsilons=epsilons)
    planned = plan_request(request)
    print_plan(planned)
    planned.require_budget()
    with dagster_instance(request.home) as instance:
        require_daemon(instance, now=time.time())
    click.echo("Dagster reads the definitions once more, which takes a while …")
    submit_backfill(request.spec, request.home, [epsilon_text(one) for one in request.epsilons])
    click.echo(
        f"{len(request.epsilons)} runs wait in Dagster: its page Runs shows them. A run that "
        "fails is begun again by the same command; what is released by then costs nothing."
    )
