"""Assets of what is released of a data set, at an ε or a K.

One asset a model or method, the evaluation of each level, a comparison over all of them, what is
published, and the budget of the population.
"""

from collections.abc import Callable, Iterator
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
from dp_pipeline.orchestration.columns import column_metadata, k_anonymous_columns, released_columns
from dp_pipeline.orchestration.metadata import (
    budget_report,
    limits_metadata,
    picture,
    quality_metadata,
    release_metadata,
    shelf_metadata,
)
from dp_pipeline.raw.prepare import stages_of
from dp_pipeline.releases.account import limits_word
from dp_pipeline.releases.domain_release import with_discovered
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.export import publications_of
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease
from dp_pipeline.releases.outcome import write_comparison, write_evaluation, write_pointer
from dp_pipeline.releases.publish import publish
from dp_pipeline.releases.published_copy import publish_copies
from dp_pipeline.releases.release import Release, other_non_dp_releases, program_code
from dp_pipeline.releases.release_text import describe, write_card

# Dagster reads the annotations of these functions when they are defined, so they are not deferred.

KINDS: tuple[type[Release], ...] = (EpsilonRelease, KAnonymousRelease)


def release_assets(spec: DatasetSpec) -> list[dg.AssetsDefinition]:
    """Every asset behind the prepared rows of one data set.

    DeclarationError when a model, a method or their parameters are wrong.
    """
    found = []
    for kind in KINDS:
        if kind.names(spec):
            found += [_released(spec, kind, name) for name in kind.names(spec)]
            found += [_evaluation(spec, kind), _comparison(spec, kind)]
    shelf = [_published(spec)] if publications_of(spec) else []
    return [*found, *shelf, _budget(spec)]


Asked = tuple[DatasetSpec, type[Release]]
"""Whose releases, of which kind."""


def _released(spec: DatasetSpec, kind: type[Release], name: str) -> dg.AssetsDefinition:
    key = dg.AssetKey([spec.name, *kind.FOLDER, name])
    static: dict[str, Any] = {"privacy/kind": "not-dp"}
    if kind is EpsilonRelease:
        static = column_metadata(spec, released_columns(spec, build_model(spec, name)))
    described = dg.asset(
        key=key,
        deps=[_rows_of(spec, name)],
        partitions_def=common.partitions_of(spec, kind),
        check_specs=check_specs(key, kind),
        description=describe(spec.widest, kind, name),
        group_name=common.group_name(spec, _side(kind, "release")),
        kinds={"parquet", "json"},
        tags=common.side_tags(spec, _side(kind, "release")),
        owners=list(spec.owners),
        metadata=static,
        code_version=common.released_code(spec.widest, kind, name),
    )

    def made(
        context: dg.AssetExecutionContext, pipeline: common.Pipeline, config: common.ReleaseConfig
    ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckEvaluation]:
        try:
            result = _made(context, (spec, kind), name, pipeline, config)
        except dg.Failure:
            yield from standing_checks(context)
            raise
        yield result

    return _with_its_configuration(described, made, spec, kind)


def _rows_of(spec: DatasetSpec, name: str) -> dg.AssetDep:
    """The prepared rows; of a release of several windows, those of all of them."""
    key, span = dg.AssetKey([spec.name, stages_of(spec.widest)[-1]]), spec.span_of(name)
    if span == 1:
        return dg.AssetDep(key)
    # A window that is not there is refused by the release itself, in one line.
    return dg.AssetDep(key, partition_mapping=dg.TimeWindowPartitionMapping(start_offset=1 - span))


def _with_its_configuration(
    described: Callable[..., dg.AssetsDefinition],
    made: Callable[..., Any],
    spec: DatasetSpec,
    kind: type[Release],
) -> dg.AssetsDefinition:
    """Only a release with noise can be drawn anew, and one of a window at another ε: others have
    nothing to configure.
    """
    settings = common.ReleaseConfig if spec.windows is None else common.WindowConfig
    if spec.windows is not None or kind is EpsilonRelease:

        def released(
            context: dg.AssetExecutionContext,
            config: settings,  # type: ignore[valid-type]
            dp_pipeline: common.PipelineResource,
        ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckEvaluation]:
            yield from made(context, dp_pipeline, config)

        return described(released)

    def k_anonymous(
        context: dg.AssetExecutionContext, dp_pipeline: common.PipelineResource
    ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckEvaluation]:
        yield from made(context, dp_pipeline, common.ReleaseConfig())

    return described(k_anonymous)


def _made(
    context: dg.AssetExecutionContext,
    asked: Asked,
    name: str,
    pipeline: common.Pipeline,
    config: common.ReleaseConfig,
) -> dg.MaterializeResult[Any]:
    """One release, with its checks; Failure in one line where it is refused."""
    spec, kind = asked
    with common.one_line_failures(spec):
        run = {"run": context.run.run_id, "asset": context.asset_key.to_user_string()}
        swept = config if isinstance(config, common.WindowConfig) else None
        options = common.options_of_run(context, asked, pipeline, swept)
        made = with_discovered(options.spec, pipeline.home)
        options = replace(options, refine=config.refine)
        release = options.release_of(made, name, options.level_of(name), run)
        is_repeat = any(tag in context.run.tags for tag in common.REPEATS)
        published = publish(release, new_draw=config.new_draw and not is_repeat)
        write_pointer(release, published)
        bundle = published.bundle
        card = write_card(release, bundle, published.folder)
        beside = other_non_dp_releases(spec, pipeline.home.ledger, exclude_key=bundle.key)
        metadata = release_metadata(release, published, card, beside)
        if bundle.is_k_anonymous:
            metadata |= column_metadata(spec, k_anonymous_columns(bundle))
        checks = release_checks(release, published)
    return dg.MaterializeResult(
        metadata=metadata,
        check_results=checks,
        data_version=common.data_version(bundle),
        tags={
            common.CODE_TAG: common.released_code(
                spec.widest, kind, name, drawn=bundle.facts["code"]
            )
        },
    )


def _side(kind: type[Release], side: common.Side) -> common.Side:
    return "k_anonymous" if kind.FOLDER else side


def _evaluation(spec: DatasetSpec, kind: type[Release]) -> dg.AssetsDefinition:
    shown = "The rows are public, so the numbers are exact."
    if spec.is_release:
        paid = "none is shown" if kind.FOLDER else "those that were paid for are shown"
        shown = f"Exact numbers go to a private file on the raw store; {paid}."
    what = (
        f"How well classifiers learn from the k-anonymous releases of one K: AUC, with columns "
        f"chosen inside each fold, and as the papers have it. {shown}"
        if kind.FOLDER
        else f"How good the releases of one ε are on the true rows. {shown}"
    )

    described = dg.asset(
        key=[spec.name, *kind.FOLDER, "evaluation"],
        deps=[[spec.name, *kind.FOLDER, name] for name in kind.names(spec)],
        partitions_def=common.partitions_of(spec, kind),
        description=what,
        group_name=common.group_name(spec, _side(kind, "monitoring")),
        kinds={"json"},
        tags=common.side_tags(spec, "monitoring"),
        owners=list(spec.owners),
        code_version=program_code(),
    )

    def made(
        context: dg.AssetExecutionContext,
        pipeline: common.Pipeline,
        config: common.WindowConfig | None = None,
    ) -> dg.MaterializeResult[Any]:
        with common.one_line_failures(spec):
            options = common.options_of_run(context, (spec, kind), pipeline, config)
            rows = write_evaluation(options)
        return dg.MaterializeResult(metadata=quality_metadata(rows))

    if spec.windows is not None:

        def of_window(
            context: dg.AssetExecutionContext,
            config: common.WindowConfig,
            dp_pipeline: common.PipelineResource,
        ) -> dg.MaterializeResult[Any]:
            return made(context, dp_pipeline, config)

        return described(of_window)

    def evaluation(
        context: dg.AssetExecutionContext, dp_pipeline: common.PipelineResource
    ) -> dg.MaterializeResult[Any]:
        return made(context, dp_pipeline)

    return described(evaluation)


def _comparison(spec: DatasetSpec, kind: type[Release]) -> dg.AssetsDefinition:
    what = (
        "What k-anonymous releases keep and what they still tell, over K: pictures, a table and "
        "one HTML page. Made from released and evaluated numbers only."
        if kind.FOLDER
        else "The best model first, utility over ε, a picture of what was released, and the report "
        "as one HTML file. Made from released and evaluated numbers only."
    )

    @dg.asset(
        key=[spec.name, *kind.FOLDER, "comparison"],
        deps=[[spec.name, *kind.FOLDER, "evaluation"]],
        description=what,
        group_name=common.group_name(spec, _side(kind, "monitoring")),
        kinds={"report"},
        tags=common.side_tags(spec, "monitoring"),
        owners=list(spec.owners),
        code_version=program_code(),
        automation_condition=common.when_anything_is_new()
        if kind.FOLDER
        else dg.AutomationCondition.eager(),
    )
    def comparison(dp_pipeline: common.PipelineResource) -> dg.MaterializeResult[Any]:
        with common.one_line_failures(spec):
            compared = write_comparison(spec, dp_pipeline.home, kind)
        return dg.MaterializeResult(
            metadata={
                "summary": dg.MetadataValue.md(compared.summary or "No quality numbers yet."),
                **{one.caption: picture(one) for one in compared.pictures},
                "report": dg.MetadataValue.path(compared.path),
            },
        )

    return comparison


def _published(spec: DatasetSpec) -> dg.AssetsDefinition:
    models = list(dict.fromkeys(one.model for one in publications_of(spec)))

    @dg.asset(
        key=[spec.name, "published"],
        deps=[[spec.name, name] for name in models],
        description=f"The newest cleared release of {', '.join(models)}, as an export for readers, "
        "in a place that stays the same and is replaced at once. What is not cleared for "
        "publication is never put there. Spends nothing and reads no row.",
        group_name=common.group_name(spec, "release"),
        kinds={"csv", "json"},
        tags=common.side_tags(spec, "release"),
        owners=list(spec.owners),
        code_version=program_code(),
        automation_condition=common.when_anything_is_new(),
    )
    def published(dp_pipeline: common.PipelineResource) -> dg.MaterializeResult[Any]:
        with common.one_line_failures(spec):
            shelved = publish_copies(spec, dp_pipeline.home)
        versions = " ".join("none" if one is None else one.version for one in shelved.values())
        return dg.MaterializeResult(
            metadata=shelf_metadata(shelved), data_version=dg.DataVersion(versions)
        )

    return published


def _budget(spec: DatasetSpec) -> dg.AssetsDefinition:
    key = dg.AssetKey([spec.name, "budget"])

    @dg.asset(
        key=key,
        deps=[[spec.name, *kind.FOLDER, name] for kind in KINDS for name in kind.names(spec)],
        check_specs=budget_check_specs(key),
        description=f"What the population {spec.population} has spent over all runs, charge by "
        "charge and as a picture over time, from the privacy ledger, whose chain is verified.",
        group_name=common.group_name(spec, "monitoring"),
        kinds={"report"},
        tags=common.side_tags(spec, "monitoring"),
        owners=list(spec.owners),
        code_version=program_code(),
        automation_condition=common.when_anything_is_new(),
    )
    def budget(dp_pipeline: common.PipelineResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
        with common.one_line_failures(spec):
            ledger = dp_pipeline.home.ledger
            metadata = budget_report(ledger, spec.population, spec.windows)
            metadata |= limits_metadata(limits_word(spec, dp_pipeline.home))
            fullest = ledger.balance(spec.population, tuple(ledger.blocks(spec.population)))
            checks = budget_checks(fullest)
        return dg.MaterializeResult(metadata=metadata, check_results=checks)

    return budget
