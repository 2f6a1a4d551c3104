"""Released-side assets: one ε-partitioned asset a model."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dp_pipeline.models import build_model
from dp_pipeline.models.base import Model, declared_guarantee, price
from dp_pipeline.orchestration.checks import release_check_specs, release_checks, standing_checks
from dp_pipeline.orchestration.code_versions import CODE_TAG, data_version, released_code
from dp_pipeline.orchestration.columns import column_metadata, released_columns
from dp_pipeline.orchestration.common import (
    Pipeline,
    PipelineResource,
    epsilon_of,
    epsilon_partitions,
    group_name,
    one_line_failures,
    side_tags,
)
from dp_pipeline.orchestration.metadata import released_metadata
from dp_pipeline.publish.cards import write_private_card
from dp_pipeline.publish.publish import publish
from dp_pipeline.publish.release import Release, not_dp_beside
from dp_pipeline.raw.prepare import stages_of
from dp_pipeline.spec.dataset import DatasetSpec

# Dagster reads the annotations of these functions when they are defined, so they are not deferred.


_REPEATS = ("dagster/parent_run_id", "dagster/parent_backfill_id")
"""Tags of a run that executes another one again."""


class ReleaseConfig(dg.Config):
    """fresh   draw once more, at the full price, although this release exists; a run that is
    executed again finishes or replays what it has paid for, and never draws another
    """

    fresh: bool = False


def model_assets(spec: DatasetSpec) -> list[dg.AssetsDefinition]:
    """One asset a declared model; DeclarationError when a model or its parameters are wrong."""
    return [_model_asset(spec, name) for name in spec.models]


def _model_asset(spec: DatasetSpec, name: str) -> dg.AssetsDefinition:
    model = build_model(spec, name)
    key = dg.AssetKey([spec.name, name])

    @dg.asset(
        key=key,
        deps=[[spec.name, stages_of(spec)[-1]]],
        partitions_def=epsilon_partitions(spec),
        check_specs=release_check_specs(key),
        description=_description(spec, model),
        group_name=group_name(spec, "released"),
        kinds={"parquet", "json"},
        tags=side_tags(spec, "released"),
        owners=list(spec.owners),
        metadata=column_metadata(spec, released_columns(spec, model)),
        code_version=released_code(spec, model),
        io_manager_key="pointers",
    )
    def released(
        context: dg.AssetExecutionContext,
        config: ReleaseConfig,
        pipeline: PipelineResource,
    ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckEvaluation]:
        try:
            made = _made(context, spec, name, pipeline, fresh=config.fresh)
        except dg.Failure:
            yield from standing_checks(context)
            raise
        yield made

    return released


def _made(
    context: dg.AssetExecutionContext,
    spec: DatasetSpec,
    name: str,
    pipeline: Pipeline,
    *,
    fresh: bool,
) -> dg.MaterializeResult[Any]:
    """One release, with its checks; Failure in one line where it is refused."""
    with one_line_failures(spec):
        epsilon = epsilon_of(context, spec)
        run = {"run": context.run.run_id, "asset": context.asset_key.to_user_string()}
        release = Release(spec, name, epsilon, pipeline.home, pipeline.noise, run)
        is_repeat = any(tag in context.run.tags for tag in _REPEATS)
        published = publish(release, fresh=fresh and not is_repeat)
        card = write_private_card(release, published.bundle)
        beside = not_dp_beside(spec, pipeline.home.ledger)
        metadata = released_metadata(published, card, beside)
        checks = release_checks(release, published)
    folder = published.folder.relative_to(release.store.root)
    pointer = {"folder": str(folder), "state": published.state, "nano": str(published.nano)}
    return dg.MaterializeResult(
        value=pointer,
        metadata=metadata,
        check_results=checks,
        data_version=data_version(published.bundle),
        tags={CODE_TAG: released_code(spec, release.model, published.bundle.facts["code"])},
    )


def _description(spec: DatasetSpec, model: Model) -> str:
    guarantees = [declared_guarantee(spec, model, epsilon) for epsilon in spec.partitions]
    kept = f"{spec.title}: {model.summary}. Protected unit: {spec.protection}."
    if not guarantees[0].is_dp:
        return f"{kept} Not differentially private: {guarantees[0].reason}; charges nothing."
    costs = ", ".join(spec.currency.text(price(spec, one)) for one in guarantees)
    bought = " and its evaluation's" if spec.evaluation else ""
    why = f": {guarantees[0].reason}" if guarantees[0].reason else ""
    return (
        f"{kept} A first run of a partition charges its ε{bought} ({costs}{why}); "
        "a re-run replays at cost 0."
    )
