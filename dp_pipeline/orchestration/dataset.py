"""dataset_assets: one data set file → its chain of assets, checks, jobs, schedule and sensor."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from dp_pipeline.orchestration.automation import schedules_of, sensors_of
from dp_pipeline.orchestration.common import RESOURCE, Pipeline, resource_of
from dp_pipeline.orchestration.jobs import jobs_of
from dp_pipeline.orchestration.raw_assets import raw_assets
from dp_pipeline.orchestration.release_assets import release_assets
from dp_pipeline.spec.dataset import DatasetSpec


def dataset_assets(spec: DatasetSpec) -> dg.Definitions:
    """Everything of one data set but the resources.

    Raises DeclarationError when the data set names a model or a k-anonymous method that does not
    exist, or parameters that do not fit.
    """
    return dg.Definitions(
        assets=[*raw_assets(spec), *release_assets(spec)],
        jobs=jobs_of(spec),
        schedules=schedules_of(spec),
        sensors=sensors_of(spec),
    )


def pipeline_definitions(specs: tuple[DatasetSpec, ...], pipeline: Pipeline) -> dg.Definitions:
    """All data sets with their resources; runs are executed in one process each."""
    shared = _shared(pipeline)
    with _without_collector():
        chains = [_bound(dataset_assets(spec), shared) for spec in specs]
        return dg.Definitions.merge(dg.Definitions(**shared), *chains)


@contextmanager
def _without_collector() -> Iterator[None]:
    """All of what is built stays: looking for garbage in it, again and again, took a third of the
    time of 200 files.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _bound(chain: dg.Definitions, shared: dict[str, Any]) -> dg.Definitions:
    """A chain whose jobs know their assets. Dagster would look for them among those of all data
    sets, once for every job: the time would grow with the square of the number of files.
    """
    alone = dg.Definitions(assets=chain.assets, jobs=chain.jobs, **shared)
    return dg.Definitions(
        assets=chain.assets,
        jobs=[alone.resolve_job_def(job.name) for job in chain.jobs or []],
        schedules=chain.schedules,
        sensors=chain.sensors,
    )


def _shared(pipeline: Pipeline) -> dict[str, Any]:
    """Resources and executor of every chain."""
    return {"resources": {RESOURCE: resource_of(pipeline)}, "executor": dg.in_process_executor}
