"""Steward-side assets: evaluation (by ε), comparison, budget."""

from typing import Any

import dagster as dg

from dp_pipeline.orchestration.checks import budget_check_specs, budget_checks
from dp_pipeline.orchestration.code_versions import internal_code
from dp_pipeline.orchestration.common import (
    PipelineResource,
    epsilon_of,
    epsilon_partitions,
    group_name,
    one_line_failures,
    side_tags,
    when_anything_is_new,
)
from dp_pipeline.orchestration.metadata import (
    budget_report,
    limits_metadata,
    picture,
    quality_metadata,
)
from dp_pipeline.publish.account import limits_word
from dp_pipeline.publish.evaluate import evaluate
from dp_pipeline.publish.k_anonymous_release import FOLDER
from dp_pipeline.publish.replay import pointed_bundle, to_documents
from dp_pipeline.publish.report import compare
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.dataset import DatasetSpec

# Dagster reads the annotations of these functions when they are defined, so they are not deferred.


def internal_assets(spec: DatasetSpec) -> list[dg.AssetsDefinition]:
    """Evaluation, comparison and budget report of one data set."""
    return [_evaluation(spec), _comparison(spec), _budget(spec)]


def _evaluation(spec: DatasetSpec) -> dg.AssetsDefinition:
    shown = (
        "Exact numbers go to a private file on the raw store; shown are those that were bought."
        if spec.is_release
        else "The rows are public, so the numbers are exact."
    )

    @dg.asset(
        key=[spec.name, "evaluation"],
        ins={name: dg.AssetIn(key=[spec.name, name]) for name in spec.models},
        partitions_def=epsilon_partitions(spec),
        description=f"How good the releases of one ε are on the true rows. {shown}",
        group_name=group_name(spec, "internal"),
        kinds={"json"},
        tags=side_tags(spec, "internal"),
        owners=list(spec.owners),
        code_version=internal_code(),
        io_manager_key="documents",
    )
    def evaluation(
        context: dg.AssetExecutionContext, pipeline: PipelineResource, **pointers: Any
    ) -> dg.MaterializeResult[Any]:
        with one_line_failures(spec):
            epsilon = epsilon_text(epsilon_of(context, spec))
            bundles = {
                name: pointed_bundle(spec, pipeline.home, pointer, model=name, epsilon=epsilon)
                for name, pointer in pointers.items()
                if pointer is not None
            }
            rows = evaluate(spec, pipeline.home, bundles)
        value = {"rows": to_documents(rows), "pointers": pointers}
        return dg.MaterializeResult(value=value, metadata=quality_metadata(rows))

    return evaluation


def _comparison(spec: DatasetSpec) -> dg.AssetsDefinition:
    @dg.asset(
        key=[spec.name, "comparison"],
        ins={"evaluation": dg.AssetIn(key=[spec.name, "evaluation"])},
        description="The best model first, utility over ε, a picture of what was released, and "
        "the report as one HTML file. Made from released and evaluated numbers only.",
        group_name=group_name(spec, "internal"),
        kinds={"report"},
        tags=side_tags(spec, "internal"),
        owners=list(spec.owners),
        code_version=internal_code(),
        io_manager_key="documents",
        automation_condition=dg.AutomationCondition.eager(),
    )
    def comparison(
        pipeline: PipelineResource, evaluation: dict[str, Any]
    ) -> dg.MaterializeResult[Any]:
        with one_line_failures(spec):
            report = compare(spec, pipeline.home, evaluation)
        return dg.MaterializeResult(
            value=to_documents(report.rows),
            metadata={
                "summary": dg.MetadataValue.md(report.summary or "No quality numbers yet."),
                **{title: picture(png) for title, png in report.pictures},
                "report": dg.MetadataValue.path(report.path),
            },
        )

    return comparison


def _budget(spec: DatasetSpec) -> dg.AssetsDefinition:
    anonymous = spec.k_anonymity.methods if spec.k_anonymity else ()
    recorded = [[spec.name, FOLDER, name] for name in anonymous]

    key = dg.AssetKey([spec.name, "budget"])

    @dg.asset(
        key=key,
        deps=[*([spec.name, name] for name in spec.models), *recorded],
        check_specs=budget_check_specs(key),
        description=f"What the population {spec.lineage} has spent over all runs, charge by charge "
        "and as a picture over time, from the privacy ledger, whose chain is verified.",
        group_name=group_name(spec, "internal"),
        kinds={"report"},
        tags=side_tags(spec, "internal"),
        owners=list(spec.owners),
        code_version=internal_code(),
        automation_condition=when_anything_is_new(),
    )
    def budget(pipeline: PipelineResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
        with one_line_failures(spec):
            ledger = pipeline.home.ledger
            metadata = budget_report(ledger, spec.lineage)
            metadata |= limits_metadata(limits_word(spec, pipeline.home))
            checks = budget_checks(ledger.balance(spec.lineage))
        return dg.MaterializeResult(metadata=metadata, check_results=checks)

    return budget
