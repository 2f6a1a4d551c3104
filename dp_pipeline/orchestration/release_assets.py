"""Assets of what is released of a data set, at an ε or a K.

One asset a model or method, the evaluation of each level, a comparison over all of them, and the
budget of the population.
"""

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg

from dp_pipeline.models import build_model
from dp_pipeline.orchestration.checks import (
    budget_check_specs,
    budget_checks,
    check_specs,
    release_checks,
    standing_checks,
)
from dp_pipeline.orchestration.columns import column_metadata, k_anonymous_columns, released_columns
from dp_pipeline.orchestration.common import (
    CODE_TAG,
    REPEATS,
    Pipeline,
    PipelineResource,
    ReleaseConfig,
    Side,
    data_version,
    group_name,
    level_of,
    one_line_failures,
    partitions_of,
    side_tags,
    when_anything_is_new,
)
from dp_pipeline.orchestration.metadata import (
    budget_report,
    limits_metadata,
    picture,
    quality_metadata,
    release_metadata,
)
from dp_pipeline.publish.account import limits_word
from dp_pipeline.publish.domain_release import with_discovered
from dp_pipeline.publish.epsilon_release import EpsilonRelease
from dp_pipeline.publish.evaluate import evaluate
from dp_pipeline.publish.k_anonymous_release import KAnonymousRelease
from dp_pipeline.publish.outcome import evaluated_by, report_made_of
from dp_pipeline.publish.publish import publish
from dp_pipeline.publish.release import Release, not_dp_beside, program_code
from dp_pipeline.publish.replay import level_facts, pointed_bundle, to_documents
from dp_pipeline.publish.report import Comparison, compare, compare_k_anonymous
from dp_pipeline.raw.prepare import stages_of
from dp_pipeline.spec.dataset import DatasetSpec

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
    return [*found, _budget(spec)]


def _released(spec: DatasetSpec, kind: type[Release], name: str) -> dg.AssetsDefinition:
    key = dg.AssetKey([spec.name, *kind.FOLDER, name])
    static: dict[str, Any] = {"privacy/kind": "not-dp"}
    if kind is EpsilonRelease:
        static = column_metadata(spec, released_columns(spec, build_model(spec, name)))
    described = dg.asset(
        key=key,
        deps=[[spec.name, stages_of(spec.widest)[-1]]],
        partitions_def=partitions_of(spec, kind),
        check_specs=check_specs(key, kind),
        description=kind.description(spec.widest, name),
        group_name=group_name(spec, _side(kind, "release")),
        kinds={"parquet", "json"},
        tags=side_tags(spec, _side(kind, "release")),
        owners=list(spec.owners),
        metadata=static,
        code_version=kind.code(spec.widest, name),
        io_manager_key="pointers",
    )

    def made(
        context: dg.AssetExecutionContext, pipeline: Pipeline, *, new_draw: bool = False
    ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckEvaluation]:
        try:
            result = _made(context, (spec, kind, name), pipeline, new_draw=new_draw)
        except dg.Failure:
            yield from standing_checks(context)
            raise
        yield result

    return _with_its_configuration(described, made, kind)


def _with_its_configuration(
    described: Callable[..., dg.AssetsDefinition], made: Callable[..., Any], kind: type[Release]
) -> dg.AssetsDefinition:
    """Only a release with noise can be drawn anew: another has nothing to configure."""
    if kind is EpsilonRelease:

        def released(
            context: dg.AssetExecutionContext, config: ReleaseConfig, pipeline: PipelineResource
        ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckEvaluation]:
            is_repeat = any(tag in context.run.tags for tag in REPEATS)
            yield from made(context, pipeline, new_draw=config.new_draw and not is_repeat)

        return described(released)

    def k_anonymous(
        context: dg.AssetExecutionContext, pipeline: PipelineResource
    ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckEvaluation]:
        yield from made(context, pipeline)

    return described(k_anonymous)


def _made(
    context: dg.AssetExecutionContext,
    asked: tuple[DatasetSpec, type[Release], str],
    pipeline: Pipeline,
    *,
    new_draw: bool,
) -> dg.MaterializeResult[Any]:
    """One release, with its checks; Failure in one line where it is refused."""
    spec, kind, name = asked
    with one_line_failures(spec):
        run = {"run": context.run.run_id, "asset": context.asset_key.to_user_string()}
        level = level_of(context, spec, kind)
        made = with_discovered(spec, pipeline.home)
        release = kind.at(made, name, level, pipeline.home, noise=pipeline.noise, run=run)
        published = publish(release, new_draw=new_draw)
        bundle = published.bundle
        card = release.write_card(bundle, published.folder)
        beside = not_dp_beside(spec, pipeline.home.ledger, but=bundle.key)
        metadata = release_metadata(release, published, card, beside)
        if bundle.is_k_anonymous:
            metadata |= column_metadata(spec, k_anonymous_columns(bundle))
        checks = release_checks(release, published)
    folder = published.folder.relative_to(release.store.root)
    pointer = {"folder": str(folder), "state": published.state, "nano": str(published.nano)}
    return dg.MaterializeResult(
        value=pointer,
        metadata=metadata,
        check_results=checks,
        data_version=data_version(bundle),
        tags={CODE_TAG: kind.code(spec.widest, name, drawn=bundle.facts["code"])},
    )


def _side(kind: type[Release], side: Side) -> Side:
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

    @dg.asset(
        key=[spec.name, *kind.FOLDER, "evaluation"],
        ins={name: dg.AssetIn(key=[spec.name, *kind.FOLDER, name]) for name in kind.names(spec)},
        partitions_def=partitions_of(spec, kind),
        description=what,
        group_name=group_name(spec, _side(kind, "monitoring")),
        kinds={"json"},
        tags=side_tags(spec, "monitoring"),
        owners=list(spec.owners),
        code_version=program_code(),
        io_manager_key="documents",
    )
    def evaluation(
        context: dg.AssetExecutionContext, pipeline: PipelineResource, **pointers: Any
    ) -> dg.MaterializeResult[Any]:
        with one_line_failures(spec):
            level = level_of(context, spec, kind)
            bundles = {
                name: pointed_bundle(
                    spec, pipeline.home, pointer, model=name, **level_facts(kind, level)
                )
                for name, pointer in pointers.items()
                if pointer is not None
            }
            made = with_discovered(spec, pipeline.home)
            rows = evaluate(made, pipeline.home, bundles)
        value = {"rows": to_documents(rows), "pointers": pointers, "by": evaluated_by(made)}
        return dg.MaterializeResult(value=value, metadata=quality_metadata(rows))

    return evaluation


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
        ins={"evaluation": dg.AssetIn(key=[spec.name, *kind.FOLDER, "evaluation"])},
        description=what,
        group_name=group_name(spec, _side(kind, "monitoring")),
        kinds={"report"},
        tags=side_tags(spec, "monitoring"),
        owners=list(spec.owners),
        code_version=program_code(),
        io_manager_key="documents",
        automation_condition=when_anything_is_new()
        if kind.FOLDER
        else dg.AutomationCondition.eager(),
    )
    def comparison(
        pipeline: PipelineResource, evaluation: dict[str, Any]
    ) -> dg.MaterializeResult[Any]:
        with one_line_failures(spec):
            made = with_discovered(spec, pipeline.home)
            compared = _compared(made, kind, pipeline, evaluation)
            made_of = report_made_of(made, pipeline.home, kind)
        return dg.MaterializeResult(
            value={"rows": to_documents(compared.rows), "of": made_of},
            metadata={
                "summary": dg.MetadataValue.md(compared.summary or "No quality numbers yet."),
                **{title: picture(png) for title, png in compared.pictures},
                "report": dg.MetadataValue.path(compared.path),
            },
        )

    return comparison


def _compared(
    spec: DatasetSpec, kind: type[Release], pipeline: Pipeline, evaluation: dict[str, Any]
) -> Comparison:
    comparing = compare_k_anonymous if kind.FOLDER else compare
    return comparing(spec, pipeline.home, evaluation)


def _budget(spec: DatasetSpec) -> dg.AssetsDefinition:
    key = dg.AssetKey([spec.name, "budget"])

    @dg.asset(
        key=key,
        deps=[[spec.name, *kind.FOLDER, name] for kind in KINDS for name in kind.names(spec)],
        check_specs=budget_check_specs(key),
        description=f"What the population {spec.population} has spent over all runs, charge by "
        "charge and as a picture over time, from the privacy ledger, whose chain is verified.",
        group_name=group_name(spec, "monitoring"),
        kinds={"report"},
        tags=side_tags(spec, "monitoring"),
        owners=list(spec.owners),
        code_version=program_code(),
        automation_condition=when_anything_is_new(),
    )
    def budget(pipeline: PipelineResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
        with one_line_failures(spec):
            ledger = pipeline.home.ledger
            metadata = budget_report(ledger, spec.population)
            metadata |= limits_metadata(limits_word(spec, pipeline.home))
            checks = budget_checks(ledger.balance(spec.population))
        return dg.MaterializeResult(metadata=metadata, check_results=checks)

    return budget
