"""dataset_assets: one data set file → its chain of assets, checks, jobs and schedule."""

from __future__ import annotations

import dagster as dg

from dp_pipeline.orchestration.io import JsonIOManager, PointerIOManager
from dp_pipeline.orchestration.resources import Pipeline
from dp_pipeline.orchestration.schedules import (
    anonymize_job,
    compare_job,
    prepare_job,
    sweep_job,
    weekly_schedule,
)
from dp_pipeline.orchestration.stages.internal import internal_assets
from dp_pipeline.orchestration.stages.raw import raw_assets
from dp_pipeline.orchestration.stages.released import model_assets
from dp_pipeline.orchestration.stages.syntactic import syntactic_assets
from dp_pipeline.schema.spec import DatasetSpec


def dataset_assets(spec: DatasetSpec) -> dg.Definitions:
    """Everything of one data set but the resources.

    Raises DeclarationError when the data set names a model or a k-anonymous method that does not
    exist, or parameters that do not fit.
    """
    assets = [*raw_assets(spec), *model_assets(spec), *internal_assets(spec)]
    jobs = [prepare_job(spec), sweep_job(spec), compare_job(spec)]
    return dg.Definitions(
        assets=[*assets, *syntactic_assets(spec)],
        jobs=[*jobs, anonymize_job(spec)] if spec.k_anonymity else jobs,
        schedules=[weekly_schedule(spec, spec.publish)] if spec.publish else [],
    )


def pipeline_definitions(specs: tuple[DatasetSpec, ...], pipeline: Pipeline) -> dg.Definitions:
    """All data sets with their resources; runs are executed in one process each."""
    home = pipeline.home
    shared = dg.Definitions(
        resources={
            "pipeline": dg.ResourceDefinition.hardcoded_resource(pipeline),
            "pointers": PointerIOManager(home.released),
            "documents": JsonIOManager(home.internal),
        },
        executor=dg.in_process_executor,
    )
    return dg.Definitions.merge(shared, *(dataset_assets(spec) for spec in specs))
