"""The weekly schedule of one data set: off until somebody turns it on."""

# Dagster reads the annotations of these functions when they are defined, so they are not deferred.

from datetime import datetime

import dagster as dg

from dp_pipeline.orchestration.jobs import (
    new_snapshot_job_name,
    publication_text,
    sweep_job_name,
)
from dp_pipeline.orchestration.resources import PipelineResource
from dp_pipeline.orchestration.ticks import Answer, publish_current, publish_new_snapshot
from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.spec import DatasetSpec, Publication

MONDAY_MORNING = "0 6 * * 1"
_ONCE = "A refused or failed week is not tried again before the next."


def schedules_of(spec: DatasetSpec) -> list[dg.ScheduleDefinition]:
    """The one that publishes what is declared, where something is."""
    if spec.publish is None:
        return []
    make = _refresh if spec.refresh == "weekly" else _replay
    return [make(spec, spec.publish)]


def _replay(spec: DatasetSpec, publication: Publication) -> dg.ScheduleDefinition:
    """Publish from the current snapshot: the same one is replayed at no cost."""

    @dg.schedule(
        name=f"{spec.name}_weekly",
        cron_schedule=MONDAY_MORNING,
        job_name=sweep_job_name(spec),
        description=f"Publish {publication_text(spec, publication)} every Monday at 06:00 UTC, "
        f"from the current snapshot: at no cost once it was published from there. {_ONCE}",
        execution_timezone="UTC",
    )
    def weekly(context: dg.ScheduleEvaluationContext, pipeline: PipelineResource) -> Answer:
        key = _run_key(context.scheduled_execution_time, publication)
        return publish_current(spec, publication, pipeline, run_key=key)

    return weekly


def _refresh(spec: DatasetSpec, publication: Publication) -> dg.ScheduleDefinition:
    """Publish from a new snapshot of each ISO week, whether or not any row changed: what is done
    must not tell. Its name is not the other schedule's: who turned on what is free pays for
    nothing.
    """

    @dg.schedule(
        name=f"{spec.name}_weekly_refresh",
        cron_schedule=MONDAY_MORNING,
        job_name=new_snapshot_job_name(spec),
        description=f"Open a new snapshot every Monday at 06:00 UTC, changed or not, and publish "
        f"{publication_text(spec, publication)} from it: every week is charged. A week that the "
        f"ceiling does not allow is skipped before anything is read. {_ONCE}",
        execution_timezone="UTC",
    )
    def refresh(context: dg.ScheduleEvaluationContext, pipeline: PipelineResource) -> Answer:
        time = context.scheduled_execution_time
        key = _run_key(time, publication)
        return publish_new_snapshot(
            spec, publication, pipeline, snapshot=iso_week(time), run_key=key
        )

    return refresh


def iso_week(time: datetime) -> str:
    """The name of the week's snapshot.

    >>> iso_week(datetime(2027, 1, 1))
    '2026-W53'
    """
    year, week, _ = time.isocalendar()
    return f"{year}-W{week:02d}"


def _run_key(time: datetime, publication: Publication) -> str:
    return f"{iso_week(time)}-{epsilon_text(publication.epsilon)}"
