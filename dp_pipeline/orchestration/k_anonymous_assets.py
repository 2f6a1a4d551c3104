"""k-anonymous releases: one asset a method, their evaluation by K, and a comparison over K."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dp_pipeline.orchestration.checks import (
    anonymous_check_specs,
    anonymous_checks,
    standing_checks,
)
from dp_pipeline.orchestration.code_versions import (
    CODE_TAG,
    anonymous_code,
    data_version,
    internal_code,
)
from dp_pipeline.orchestration.columns import anonymous_columns, column_metadata
from dp_pipeline.orchestration.common import (
    Pipeline,
    PipelineResource,
    group_name,
    k_of,
    k_partitions,
    one_line_failures,
    side_tags,
    when_anything_is_new,
)
from dp_pipeline.orchestration.metadata import anonymous_metadata, figure_metadata, picture
from dp_pipeline.publish.anonymize import anonymize
from dp_pipeline.publish.k_anonymous_evaluation import evaluate_anonymous
from dp_pipeline.publish.k_anonymous_release import (
    FOLDER,
    REASON,
    SyntacticRelease,
    declared_anonymity,
    declared_method,
    promise_for,
)
from dp_pipeline.publish.release import not_dp_beside
from dp_pipeline.publish.replay import pointed_bundle
from dp_pipeline.publish.report import compare_anonymous
from dp_pipeline.raw.prepare import stages_of
from dp_pipeline.spec.dataset import DatasetSpec

# Dagster reads the annotations of these functions when they are defined, so they are not deferred.


def syntactic_assets(spec: DatasetSpec) -> list[dg.AssetsDefinition]:
    """One asset a declared method, evaluation and comparison; nothing for a data set without a
    section `k_anonymity`. DeclarationError when a method or its parameters are wrong.
    """
    if spec.k_anonymity is None:
        return []
    methods = [_method_asset(spec, name) for name in spec.k_anonymity.methods]
    return [*methods, _evaluation(spec), _comparison(spec)]


def _method_asset(spec: DatasetSpec, name: str) -> dg.AssetsDefinition:
    key = dg.AssetKey([spec.name, FOLDER, name])

    @dg.asset(
        key=key,
        deps=[[spec.name, stages_of(spec)[-1]]],
        partitions_def=k_partitions(spec),
        check_specs=anonymous_check_specs(key),
        description=_description(spec, name),
        metadata={"privacy/kind": "not-dp"},
        group_name=group_name(spec, "syntactic"),
        kinds={"parquet", "json"},
        tags={**side_tags(spec, "released"), "promise": "syntactic"},
        owners=list(spec.owners),
        code_version=anonymous_code(spec, name),
        io_manager_key="pointers",
    )
    def anonymous(
        context: dg.AssetExecutionContext, pipeline: PipelineResource
    ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckEvaluation]:
        try:
            made = _made(context, spec, name, pipeline)
        except dg.Failure:
            yield from standing_checks(context)
            raise
        yield made

    return anonymous


def _made(
    context: dg.AssetExecutionContext, spec: DatasetSpec, name: str, pipeline: Pipeline
) -> dg.MaterializeResult[Any]:
    """One release, with its checks; Failure in one line where it is refused."""
    with one_line_failures(spec):
        run = {"run": context.run.run_id, "asset": context.asset_key.to_user_string()}
        release = SyntacticRelease(spec, name, k_of(context, spec), pipeline.home, run)
        made = anonymize(release)
        beside = not_dp_beside(spec, pipeline.home.ledger, but=made.bundle.key)
        columns = column_metadata(spec, anonymous_columns(made.bundle))
        metadata = anonymous_metadata(made, beside) | columns
        checks = anonymous_checks(made, release)
    folder = made.folder.relative_to(release.store.root)
    return dg.MaterializeResult(
        value={"folder": str(folder), "state": made.state},
        metadata=metadata,
        check_results=checks,
        data_version=data_version(made.bundle),
        tags={CODE_TAG: anonymous_code(spec, name, made.bundle.facts["code"])},
    )


def _description(spec: DatasetSpec, name: str) -> str:
    method, declared = declared_method(spec, name), declared_anonymity(spec)
    largest = promise_for(declared, name, k=declared.partitions[-1])
    labels = f" and {largest.diversity} labels" if largest.diversity > 1 else ""
    return (
        f"{spec.title}: {method.summary}. Every row shares what is released of it with at least "
        f"K − 1 others: K rows{labels} in every class. Not differentially private: {REASON}. "
        "The ledger notes it as not-dp before the first look; a re-run replays and reads nothing."
    )


def _evaluation(spec: DatasetSpec) -> dg.AssetsDefinition:
    shown = (
        "The numbers go to a private file on the raw store; none is shown."
        if spec.is_release
        else "The rows are public, so the numbers are exact."
    )

    @dg.asset(
        key=[spec.name, FOLDER, "evaluation"],
        ins={
            name: dg.AssetIn(key=[spec.name, FOLDER, name])
            for name in declared_anonymity(spec).methods
        },
        partitions_def=k_partitions(spec),
        description="How well classifiers learn from the k-anonymous releases of one K: AUC, with "
        f"columns chosen inside each fold, and as the papers have it. {shown}",
        group_name=group_name(spec, "syntactic"),
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
            k = str(k_of(context, spec))
            bundles = {
                name: pointed_bundle(spec, pipeline.home, pointer, model=name, k=k)
                for name, pointer in pointers.items()
                if pointer is not None
            }
            figures = evaluate_anonymous(spec, pipeline.home, bundles)
        value = {"figures": figures, "pointers": pointers}
        return dg.MaterializeResult(value=value, metadata=figure_metadata(figures))

    return evaluation


def _comparison(spec: DatasetSpec) -> dg.AssetsDefinition:
    @dg.asset(
        key=[spec.name, FOLDER, "comparison"],
        ins={"evaluation": dg.AssetIn(key=[spec.name, FOLDER, "evaluation"])},
        description="What k-anonymous releases keep and what they still tell, over K: pictures, "
        "a table and one HTML page. Made from released and evaluated numbers only.",
        group_name=group_name(spec, "syntactic"),
        kinds={"report"},
        tags=side_tags(spec, "internal"),
        owners=list(spec.owners),
        code_version=internal_code(),
        io_manager_key="documents",
        automation_condition=when_anything_is_new(),
    )
    def comparison(
        pipeline: PipelineResource, evaluation: dict[str, Any]
    ) -> dg.MaterializeResult[Any]:
        with one_line_failures(spec):
            compared = compare_anonymous(spec, pipeline.home, evaluation)
        return dg.MaterializeResult(
            value=compared.figures,
            metadata={
                "summary": dg.MetadataValue.md(compared.summary),
                **{title: picture(png) for title, png in compared.pictures},
                "page": dg.MetadataValue.path(compared.path),
            },
        )

    return comparison
