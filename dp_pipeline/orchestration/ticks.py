"""What a schedule or sensor answers: the run that it asks for, or in one line why there is none.

Decided by the calendar, the declarations and the ledger. Nothing is written here, and no row is
looked at.
"""

from __future__ import annotations

from typing import Any

import dagster as dg

from dp_pipeline.orchestration.jobs import published_assets
from dp_pipeline.orchestration.plan import plan_request
from dp_pipeline.orchestration.request import RunRequest
from dp_pipeline.orchestration.resources import Pipeline
from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.errors import BudgetExceeded
from dp_pipeline.schema.spec import DatasetSpec, Publication

Answer = dg.RunRequest | dg.SkipReason


def publish_current(
    spec: DatasetSpec, publication: Publication, pipeline: Pipeline, *, run_key: str
) -> Answer:
    """Publish from the current snapshot: a replay at no cost once it was published."""
    refusal = _refusal(spec, publication, pipeline, snapshot="")
    if refusal is not None:
        return refusal
    return dg.RunRequest(
        run_key=run_key,
        partition_key=epsilon_text(publication.epsilon),
        asset_selection=list(published_assets(spec, publication)),
    )


def publish_new_snapshot(
    spec: DatasetSpec, publication: Publication, pipeline: Pipeline, *, snapshot: str, run_key: str
) -> Answer:
    """Open a snapshot and publish from it, in one run: a new charge."""
    refusal = _refusal(spec, publication, pipeline, snapshot=snapshot)
    if refusal is not None:
        return refusal
    return dg.RunRequest(
        run_key=run_key,
        partition_key=epsilon_text(publication.epsilon),
        run_config=ingest_config(spec, snapshot),
    )


def ingest_config(spec: DatasetSpec, snapshot: str) -> dict[str, Any]:
    """Configuration of a run that opens a snapshot."""
    return {"ops": {f"{spec.name}__ingested": {"config": {"snapshot": snapshot}}}}


def _refusal(
    spec: DatasetSpec, publication: Publication, pipeline: Pipeline, *, snapshot: str
) -> dg.SkipReason | None:
    """The one line of a budget that does not allow it; other mistakes are raised and turn the
    tick red.
    """
    request = RunRequest(
        spec,
        (publication.model,),
        (publication.epsilon,),
        pipeline.home,
        pipeline.noise,
        snapshot=snapshot,
    )
    try:
        plan_request(request).require_budget()
    except BudgetExceeded as refused:
        return dg.SkipReason(str(refused))
    return None
