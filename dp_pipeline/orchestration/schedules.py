"""Jobs and the weekly schedule of one data set."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from dp_pipeline.models import price_of_everything
from dp_pipeline.orchestration.anonymity_rows import declared_anonymity
from dp_pipeline.orchestration.syntactic_release import FOLDER
from dp_pipeline.raw.prepare import stages_of
from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.spec import DatasetSpec, Publication

MONDAY_MORNING = "0 6 * * 1"


def prepare_job(spec: DatasetSpec) -> dg.job:  # type: ignore[valid-type]
    """The raw chain."""
    names = ("ingested", "validated", *stages_of(spec))
    return dg.define_asset_job(
        f"{spec.name}_prepare",
        selection=dg.AssetSelection.assets(*([spec.name, name] for name in names)),
        description=f"Read, validate and prepare the rows of {spec.name}. Spends nothing.",
    )


def sweep_job(spec: DatasetSpec) -> dg.job:  # type: ignore[valid-type]
    """Every model and its evaluation at one ε: the job to backfill over ε."""
    names = (*spec.models, "evaluation")
    ceiling = "without a ceiling" if spec.ceiling is None else f"of {epsilon_text(spec.ceiling)}"
    total = spec.currency.said(price_of_everything(spec))
    return dg.define_asset_job(
        f"{spec.name}_epsilon_backfill",
        selection=dg.AssetSelection.assets(*([spec.name, name] for name in names)),
        description=f"Release {spec.name} with every model at one ε; backfill it over all of them. "
        f"All partitions together cost {total} {ceiling}; "
        "what was released before is replayed at no cost.",
    )


def anonymize_job(spec: DatasetSpec) -> dg.job:  # type: ignore[valid-type]
    """Every k-anonymous method and their evaluation at one K: the job to backfill over K."""
    names = (*declared_anonymity(spec).methods, "evaluation")
    return dg.define_asset_job(
        f"{spec.name}_k_backfill",
        selection=dg.AssetSelection.assets(*([spec.name, FOLDER, name] for name in names)),
        description=f"Release {spec.name} with every k-anonymous method at one K; backfill it "
        "over all of them. Spends no ε and is not differentially private: the ledger counts every "
        "release, and two of them tell more than each.",
    )


def compare_job(spec: DatasetSpec) -> dg.job:  # type: ignore[valid-type]
    """The comparison and the budget report."""
    return dg.define_asset_job(
        f"{spec.name}_report",
        selection=dg.AssetSelection.assets([spec.name, "comparison"], [spec.name, "budget"]),
        description=f"Compare what was released of {spec.name}, and report its budget. "
        "Spends nothing.",
    )


def weekly_schedule(spec: DatasetSpec, publication: Publication) -> dg.ScheduleDefinition:
    """Publish one model at one ε on Monday mornings, from the current snapshot; off until
    somebody turns it on. The same snapshot is replayed at no cost.
    """
    epsilon = epsilon_text(publication.epsilon)

    @dg.schedule(
        name=f"{spec.name}_weekly",
        cron_schedule=MONDAY_MORNING,
        job_name=f"{spec.name}_epsilon_backfill",
        description=f"Publish {publication.model} of {spec.name} at ε={epsilon} every Monday at "
        "06:00 UTC. A refused or failed week is not tried again before the next.",
        execution_timezone="UTC",
    )
    def weekly(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest]:
        year, week, _ = context.scheduled_execution_time.isocalendar()
        yield dg.RunRequest(
            run_key=f"{year}-W{week:02d}-{epsilon}",
            partition_key=epsilon,
            asset_selection=[
                dg.AssetKey([spec.name, publication.model]),
                dg.AssetKey([spec.name, "evaluation"]),
            ],
        )

    return weekly
