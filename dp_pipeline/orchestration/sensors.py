"""The sensor on new rows of one data set: off until somebody turns it on.

There is none for sensitive rows whose changes are not public: that something was released would
tell that a row changed.
"""

# Dagster reads the annotations of these functions when they are defined, so they are not deferred.

from datetime import UTC, datetime

import dagster as dg

from dp_pipeline.orchestration.jobs import (
    is_watched,
    new_snapshot_job_name,
    prepare_job_name,
    publication_text,
)
from dp_pipeline.orchestration.resources import Pipeline, PipelineResource
from dp_pipeline.orchestration.ticks import Answer, ingest_config, publish_new_snapshot
from dp_pipeline.orchestration.watching import Watched, free_snapshot_name, look
from dp_pipeline.schema.spec import DatasetSpec

SECONDS = 60


def sensors_of(spec: DatasetSpec) -> list[dg.SensorDefinition]:
    """One where the rows' changes are public and can be seen from outside."""
    return [_new_rows(spec)] if is_watched(spec) else []


def _new_rows(spec: DatasetSpec) -> dg.SensorDefinition:
    job_name = prepare_job_name(spec) if spec.publish is None else new_snapshot_job_name(spec)

    @dg.sensor(
        job_name,
        name=f"{spec.name}_new_rows",
        minimum_interval_seconds=SECONDS,
        description=f"Open a new snapshot when the source of {spec.name} has other bytes than "
        f"before, and {_then(spec)}. That it changed may be seen by anyone.",
    )
    def new_rows(context: dg.SensorEvaluationContext, pipeline: PipelineResource) -> Answer:
        seen = look(spec, pipeline.home, Watched.from_cursor(context.cursor))
        if seen is None:
            return dg.SkipReason(f"{spec.name}: its source is not there, or being written")
        context.update_cursor(seen.to_cursor())
        if not seen.is_new:
            return dg.SkipReason(f"{spec.name}: its source has the same bytes as before")
        answer = _answer(spec, pipeline, seen)
        if isinstance(answer, dg.RunRequest):
            context.update_cursor(seen.after_run().to_cursor())
        return answer

    return new_rows


def _then(spec: DatasetSpec) -> str:
    if spec.publish is None:
        return "prepare it; spends nothing"
    return f"publish {publication_text(spec, spec.publish)} from it: every change is charged"


def _answer(spec: DatasetSpec, pipeline: Pipeline, seen: Watched) -> Answer:
    name = free_snapshot_name(spec, pipeline.home, datetime.now(UTC).date())
    if spec.publish is None:
        return dg.RunRequest(run_key=seen.run_key, run_config=ingest_config(spec, name))
    return publish_new_snapshot(spec, spec.publish, pipeline, snapshot=name, run_key=seen.run_key)
