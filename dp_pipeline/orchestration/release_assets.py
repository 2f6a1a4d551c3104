"""The assets of a data set's releases: one for each model or method, the evaluation of each level,
a comparison over all levels, the published copies, and the budget of the population.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import dagster as dg

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.models import build_model
from dp_pipeline.orchestration import common
from dp_pipeline.orchestration.checks import (
    budget_check_specs,
    budget_checks,
    check_specs,
    release_checks,
    standing_checks,
)
from dp_pipeline.orchestration.code_versions import data_version, release_tags, release_version
from dp_pipeline.orchestration.columns import column_metadata, k_anonymous_columns, released_columns
from dp_pipeline.orchestration.metadata import (
    budget_report,
    picture,
    published_metadata,
    quality_metadata,
    release_metadata,
)
from dp_pipeline.orchestration.partitions import options_of_run, release_partitions
from dp_pipeline.raw.snapshot import stages_of
from dp_pipeline.releases.account import limits_note
from dp_pipeline.releases.domain_release import with_discovered
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.export import publications_of
from dp_pipeline.releases.outcome import write_comparison, write_evaluation, write_pointer
from dp_pipeline.releases.publish import PublishedBundle, publish
from dp_pipeline.releases.published_copy import publish_copies
from dp_pipeline.releases.release import Release, other_non_dp_releases, program_version
from dp_pipeline.releases.release_text import describe, write_card

AssetResults = Iterator[dg.MaterializeResult[Any] | dg.AssetCheckEvaluation]


def release_assets(spec: DatasetSpec) -> list[dg.AssetsDefinition]:
    """Return every asset downstream of the prepared rows of one data set.

    Raises DeclarationError when a model, a method or their parameters are wrong.
    """
    assets = []
    for kind in common.RELEASE_KINDS:
        if names := kind.names(spec):
            assets += [_release_asset(spec, kind, name) for name in names]
            assets += [_evaluation_asset(spec, kind), _comparison_asset(spec, kind)]
    if publications_of(spec):
        assets.append(_published_asset(spec))
    return [*assets, _budget_asset(spec)]


def _release_asset(spec: DatasetSpec, kind: type[Release], name: str) -> dg.AssetsDefinition:
    key = dg.AssetKey([spec.name, *kind.FOLDER, name])
    rows, span = dg.AssetKey([spec.name, stages_of(spec.widest)[-1]]), spec.span_of(name)
    # The release itself refuses in one line where a window is absent.
    windows = dg.TimeWindowPartitionMapping(start_offset=1 - span) if span > 1 else None
    columns: dict[str, Any] = {"privacy/kind": "not-dp"}
    if kind is EpsilonRelease:
        columns = column_metadata(spec, released_columns(spec, build_model(spec, name)))

    @dg.asset(
        key=key,
        deps=[dg.AssetDep(rows, partition_mapping=windows)],
        partitions_def=release_partitions(spec, kind),
        check_specs=check_specs(key, kind),
        description=describe(spec.widest, kind, name),
        metadata=columns,
        # A release without noise cannot be drawn anew, and only one of a window has another ε.
        config_schema=_config_schema(
            spec, common.ReleaseConfig if kind is EpsilonRelease else None
        ),
        code_version=release_version(spec.widest, kind, name),
        **common.asset_labels(spec, _side(kind, "release"), kinds={"parquet", "json"}),
    )
    def release(
        context: dg.AssetExecutionContext, dp_pipeline: common.PipelineResource
    ) -> AssetResults:
        try:
            result = _publish(context, spec, kind, name, dp_pipeline)
        except dg.Failure:
            yield from standing_checks(context)
            raise
        yield result

    return release


def _publish(
    context: dg.AssetExecutionContext,
    dataset: DatasetSpec,
    kind: type[Release],
    name: str,
    pipeline: common.Pipeline,
) -> dg.MaterializeResult[Any]:
    with common.one_line_failures(dataset):
        config = common.config_of_run(context)
        options = options_of_run(context, dataset, kind, pipeline, config)
        spec = with_discovered(options.spec, pipeline.home)
        options = replace(options, refine=config.refine)
        (level,) = [release.level for release in options.releases if release.name == name]
        release = options.release_of(spec, name, level, common.run_facts(context))
        published = publish(release, new_draw=common.wants_new_draw(context, config))
        write_pointer(release, published)
        columns: dict[str, Any] = {}
        if published.bundle.is_k_anonymous:
            columns = column_metadata(dataset, k_anonymous_columns(published.bundle))
        checks = release_checks(release, published)
    return release_result(dataset.widest, release, published, checks, columns)


def release_result(
    spec: DatasetSpec,
    release: Release,
    published: PublishedBundle,
    checks: list[dg.AssetCheckResult],
    metadata: Mapping[str, Any],
) -> dg.MaterializeResult[Any]:
    """Write the card of a release and return its materialization, with its checks and versions.

    metadata   shown after the metadata of every release
    """
    bundle = published.bundle
    with common.one_line_failures(spec):
        card = write_card(release, bundle, published.folder)
        other_releases = other_non_dp_releases(spec, release.home.ledger, exclude_key=bundle.key)
        metadata = {**release_metadata(release, published, card, other_releases), **metadata}
    return dg.MaterializeResult(
        metadata=metadata,
        check_results=checks,
        data_version=data_version(bundle),
        tags=release_tags(spec, type(release), release.name, bundle),
    )


def _config_schema(spec: DatasetSpec, without_windows: type[dg.Config] | None) -> Any:
    config = without_windows if spec.windows is None else common.WindowConfig
    return None if config is None else config.to_config_schema()


def _release_keys(spec: DatasetSpec, kind: type[Release]) -> list[list[str]]:
    return [[spec.name, *kind.FOLDER, name] for name in kind.names(spec)]


def _side(kind: type[Release], side: common.Side) -> common.Side:
    return "k_anonymous" if kind.FOLDER else side


def _monitoring_labels(spec: DatasetSpec, kind: type[Release], *kinds: str) -> common.AssetLabels:
    group = _side(kind, "monitoring")
    return common.asset_labels(spec, "monitoring", group=group, kinds={*kinds})


def _evaluation_asset(spec: DatasetSpec, kind: type[Release]) -> dg.AssetsDefinition:
    privacy = "The rows are public, so the numbers are exact."
    if spec.is_release:
        note = "none is shown" if kind.FOLDER else "the noisy ones that were paid for are shown"
        privacy = f"Exact numbers go to a private file in the raw store; {note}."
    subject = "How good the releases at one ε are, compared with the real rows."
    if kind.FOLDER:
        subject = (
            "How well classifiers learn from the k-anonymous releases at one K: AUC with columns "
            "chosen inside each fold, and AUC as the papers measure it."
        )

    @dg.asset(
        key=[spec.name, *kind.FOLDER, "evaluation"],
        deps=_release_keys(spec, kind),
        partitions_def=release_partitions(spec, kind),
        description=f"{subject} {privacy}",
        config_schema=_config_schema(spec, None),
        code_version=program_version(),
        **_monitoring_labels(spec, kind, "json"),
    )
    def evaluation(
        context: dg.AssetExecutionContext, dp_pipeline: common.PipelineResource
    ) -> dg.MaterializeResult[Any]:
        with common.one_line_failures(spec):
            config = common.config_of_run(context)
            rows = write_evaluation(options_of_run(context, spec, kind, dp_pipeline, config))
        return dg.MaterializeResult(metadata=quality_metadata(rows))

    return evaluation


def _comparison_asset(spec: DatasetSpec, kind: type[Release]) -> dg.AssetsDefinition:
    subject = "All models over ε: the best first, their utility, and pictures of the releases."
    if kind.FOLDER:
        subject = "What the k-anonymous releases retain and what they disclose, over K."
    condition = common.on_any_update() if kind.FOLDER else dg.AutomationCondition.eager()

    @dg.asset(
        key=[spec.name, *kind.FOLDER, "comparison"],
        deps=[[spec.name, *kind.FOLDER, "evaluation"]],
        description=f"{subject} One HTML report, made from released and evaluated numbers only.",
        code_version=program_version(),
        automation_condition=condition,
        **_monitoring_labels(spec, kind, "report"),
    )
    def comparison(dp_pipeline: common.PipelineResource) -> dg.MaterializeResult[Any]:
        with common.one_line_failures(spec):
            compared = write_comparison(spec, dp_pipeline.home, kind)
        return dg.MaterializeResult(
            metadata={
                "summary": dg.MetadataValue.md(compared.summary or "No quality numbers yet."),
                **{chart.caption: picture(chart) for chart in compared.pictures},
                "report": dg.MetadataValue.path(compared.path),
            }
        )

    return comparison


def _published_asset(spec: DatasetSpec) -> dg.AssetsDefinition:
    models = list(dict.fromkeys(publication.model for publication in publications_of(spec)))

    @dg.asset(
        key=[spec.name, "published"],
        deps=[[spec.name, name] for name in models],
        description=f"The newest releasable release of {', '.join(models)}, exported for readers "
        "to a place that stays the same. A release that is not releasable is never put there. "
        "Spends nothing and reads no row.",
        code_version=program_version(),
        automation_condition=common.on_any_update(),
        **common.asset_labels(spec, "release", kinds={"csv", "json"}),
    )
    def published(dp_pipeline: common.PipelineResource) -> dg.MaterializeResult[Any]:
        with common.one_line_failures(spec):
            copies = publish_copies(spec, dp_pipeline.home)
        versions = " ".join("none" if copy is None else copy.version for copy in copies.values())
        return dg.MaterializeResult(
            metadata=published_metadata(copies), data_version=dg.DataVersion(versions)
        )

    return published


def _budget_asset(spec: DatasetSpec) -> dg.AssetsDefinition:
    key = dg.AssetKey([spec.name, "budget"])

    @dg.asset(
        key=key,
        deps=[name for kind in common.RELEASE_KINDS for name in _release_keys(spec, kind)],
        check_specs=budget_check_specs(key),
        description=f"What the population {spec.population} has spent over all runs, charge by "
        "charge and as a picture over time, from the privacy ledger, whose chain is verified.",
        code_version=program_version(),
        automation_condition=common.on_any_update(),
        **common.asset_labels(spec, "monitoring", kinds={"report"}),
    )
    def budget(dp_pipeline: common.PipelineResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
        with common.one_line_failures(spec):
            ledger = dp_pipeline.home.ledger
            metadata = budget_report(ledger, spec.population, spec.windows)
            if note := limits_note(spec, dp_pipeline.home):
                metadata["privacy/limits"] = dg.MetadataValue.text(note)
            fullest = ledger.balance(spec.population, tuple(ledger.blocks(spec.population)))
        return dg.MaterializeResult(metadata=metadata, check_results=budget_checks(fullest))

    return budget
