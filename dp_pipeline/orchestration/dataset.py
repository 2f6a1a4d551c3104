"""Definitions of data sets: one file becomes a chain of assets, checks, jobs, schedule and sensor.

Assets of the raw chain: ingested → validated → normalized → discretized → one_hot. Where levels or
bounds are to be discovered, the asset ``domain`` stands between the second and the third.
"""

import gc
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from dp_pipeline.config.catalogue import Refusals, collect_refusal
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration import code_versions, common, partitions
from dp_pipeline.orchestration.automation import schedules_of, sensors_of
from dp_pipeline.orchestration.checks import domain_check_specs, domain_checks, repeated_checks
from dp_pipeline.orchestration.columns import column_metadata, raw_columns
from dp_pipeline.orchestration.common import RESOURCE, Pipeline, PipelineResource, resource_of
from dp_pipeline.orchestration.jobs import jobs_of
from dp_pipeline.orchestration.metadata import line_table, raw_metadata
from dp_pipeline.orchestration.release_assets import release_assets, release_result
from dp_pipeline.orchestration.renewal import renewal_sensor
from dp_pipeline.raw import prepare, validate
from dp_pipeline.raw.expectations import expectations_of
from dp_pipeline.raw.ingest import INGESTED, ingest
from dp_pipeline.raw.snapshot import stages_of
from dp_pipeline.raw.stages import public_row_count
from dp_pipeline.releases.account import open_population, require_snapshot, source_claimer
from dp_pipeline.releases.domain_release import (
    NAME,
    DomainRelease,
    discovered_domain,
    discovered_lines,
    publish_domain,
    with_discovered,
)
from dp_pipeline.releases.home import engine_name
from dp_pipeline.releases.release_text import describe

_log = logging.getLogger("dp_pipeline")

Result = dg.MaterializeResult[Any]

_STAGES = {
    "normalized": "Every row by itself: numbers clipped to the declared bounds and made "
    "fixed-point coordinates, unknown levels renamed or dropped as declared, rows of a person "
    "bounded.",
    "discretized": "Every attribute with declared levels or bins as a cell code.",
    "one_hot": "The cell codes as bits, one column a cell.",
}


class IngestConfig(dg.Config):
    """The configuration of a run that reads the source.

    snapshot   a name for a new snapshot; empty: the current one, or a first one named by the date
    """

    snapshot: str = ""


def raw_assets(spec: DatasetSpec) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = [*_joined_sources(spec)]
    assets += [_ingested(spec), _validated(spec)]
    upstream = "validated"
    if spec.to_discover:
        assets.append(_domain(spec))
        upstream = NAME
    for stage in stages_of(spec.widest):
        assets.append(_prepared(spec, stage, upstream=upstream))
        upstream = stage
    return assets


def _ingested(spec: DatasetSpec) -> dg.AssetsDefinition:
    @dg.asset(
        key=[spec.name, "ingested"],
        deps=[source.key for source in _joined_sources(spec)],
        description=f"An immutable snapshot of the rows of “{spec.title}”, named by the calendar "
        "or by hand. Materializing it again keeps the current snapshot unless a new name is given.",
        metadata=column_metadata(spec, raw_columns(spec, "ingested")),
        code_version=code_versions.ingestion_version(spec),
        partitions_def=partitions.raw_partitions(spec),
        **common.asset_labels(spec, "raw", kinds={common.source_icon(spec), "parquet"}),
    )
    def ingested(
        context: dg.AssetExecutionContext, config: IngestConfig, dp_pipeline: PipelineResource
    ) -> Result:
        with common.one_line_failures(spec):
            rows_spec = partitions.spec_of_run(context, spec)
            ledger = open_population(rows_spec, dp_pipeline.home)
            if not config.snapshot and partitions.can_reuse_rows(context, spec, dp_pipeline):
                # Rows of a retired snapshot cannot even be looked at.
                snapshot = require_snapshot(rows_spec, dp_pipeline.home)
            else:
                snapshot = ingest(
                    rows_spec,
                    dp_pipeline.home.raw,
                    key=ledger.key(spec.population),
                    snapshot_id=config.snapshot or None,
                    today=datetime.now(UTC).date(),
                    claim=source_claimer(spec, ledger),
                )
        # The data version is the name that the calendar gave: the rows decide nothing about it.
        return dg.MaterializeResult(
            metadata=raw_metadata(
                snapshot, rows=public_row_count(spec, snapshot, INGESTED), source=spec.source.kind
            ),
            data_version=dg.DataVersion(snapshot.id),
        )

    return ingested


def _joined_sources(spec: DatasetSpec) -> list[dg.AssetSpec]:
    parts = spec.domain.parts
    if parts is None or spec.source.parts is None:
        return []
    return [
        dg.AssetSpec(
            [spec.name, "source", name],
            description=f"The source of the {name} of “{spec.title}”, which nobody writes here.",
            **common.asset_labels(spec, "raw", kinds={common.source_icon(own)}),
        )
        for name, own in zip(("units", parts.name), spec.source_specs, strict=True)
    ]


def _validated(spec: DatasetSpec) -> dg.AssetsDefinition:
    key = dg.AssetKey([spec.name, "validated"])
    expectations = expectations_of(spec)

    @dg.asset(
        key=key,
        deps=[[spec.name, "ingested"]],
        check_specs=[
            dg.AssetCheckSpec(
                expectation.name,
                asset=key,
                description=expectation.description,
                blocking=expectation.blocking,
            )
            for expectation in expectations
        ],
        description="Whether the snapshot is what the data set file declares, judged by Great "
        "Expectations. The verdict is written into the snapshot: without it nothing is released.",
        code_version=code_versions.validation_version(spec),
        partitions_def=partitions.raw_partitions(spec),
        **common.asset_labels(spec, "raw", kinds={"greatexpectations"}),
    )
    def validated(context: dg.AssetExecutionContext, dp_pipeline: PipelineResource):  # type: ignore[no-untyped-def]
        with common.one_line_failures(spec):
            rows_spec = partitions.spec_of_run(context, spec)
            snapshot = require_snapshot(rows_spec, dp_pipeline.home)
            checks: list[dg.AssetCheckResult] = []
            if partitions.can_reuse_rows(context, spec, dp_pipeline):
                checks = repeated_checks(context)
            verdicts: tuple[validate.Verdict, ...] = ()
            if len(checks) < len(expectations):
                # This Dagster has not seen all verdicts.
                verdicts = validate.validate(rows_spec, snapshot, engine_name())
                checks = [
                    dg.AssetCheckResult(
                        passed=verdict.passed,
                        check_name=verdict.expectation.name,
                        severity=dg.AssetCheckSeverity.ERROR
                        if verdict.expectation.blocking
                        else dg.AssetCheckSeverity.WARN,
                    )
                    for verdict in verdicts
                ]
        yield dg.MaterializeResult(
            asset_key=key, metadata=raw_metadata(snapshot), check_results=checks
        )
        refusal = validate.refusal(spec, verdicts)
        if refusal is not None:
            raise dg.Failure(refusal, metadata={"exit_code": 1}, allow_retries=False)

    return validated


def _domain(spec: DatasetSpec) -> dg.AssetsDefinition:
    key = dg.AssetKey([spec.name, NAME])

    @dg.asset(
        key=key,
        deps=[[spec.name, "validated"]],
        check_specs=domain_check_specs(key),
        description=describe(spec, DomainRelease, NAME),
        code_version=code_versions.release_version(spec, DomainRelease, NAME),
        partitions_def=partitions.raw_partitions(spec),
        **common.asset_labels(spec, "release", kinds={"json"}),
    )
    def domain(
        context: dg.AssetExecutionContext, config: common.DrawConfig, dp_pipeline: PipelineResource
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]
        with common.one_line_failures(spec):
            home = dp_pipeline.home
            rows_spec = partitions.spec_of_run(context, spec)
            release = DomainRelease(rows_spec, home, dp_pipeline.noise, common.run_facts(context))
            is_new = common.wants_new_draw(context, config)
            published = publish_domain(release, new_draw=is_new)
            table = line_table(("attribute", "discovered"), discovered_lines(published))
            for warning in discovered_domain(published.bundle).warnings:
                context.log.warning(warning)
            checks = domain_checks(release, published)
        return release_result(spec, release, published, checks, {"domain": table})

    return domain


def _prepared(spec: DatasetSpec, stage: str, *, upstream: str) -> dg.AssetsDefinition:
    @dg.asset(
        key=[spec.name, stage],
        deps=[[spec.name, upstream]],
        description=_STAGES[stage],
        metadata=column_metadata(spec, raw_columns(spec, stage)),
        code_version=code_versions.preparation_version(spec),
        partitions_def=partitions.raw_partitions(spec),
        **common.asset_labels(spec, "raw", kinds={"parquet"}),
    )
    def prepared(context: dg.AssetExecutionContext, dp_pipeline: PipelineResource) -> Result:
        with common.one_line_failures(spec):
            rows_spec = partitions.spec_of_run(context, spec)
            snapshot = require_snapshot(rows_spec, dp_pipeline.home)
            final_spec = with_discovered(rows_spec, dp_pipeline.home)
            if not partitions.can_reuse_rows(context, spec, dp_pipeline):
                is_anew = not partitions.is_release_run(context, spec)
                prepare.prepare_stage(final_spec, snapshot, stage, engine_name(), again=is_anew)
        rows = public_row_count(spec, snapshot, stage)
        return dg.MaterializeResult(metadata=raw_metadata(snapshot, rows=rows, stage=stage))

    return prepared


def chain_definitions(spec: DatasetSpec) -> dg.Definitions:
    """Return all Dagster definitions of one data set except resources.

    Raises DeclarationError for an unknown model or method, or parameters that do not fit.
    """
    return dg.Definitions(
        assets=[*raw_assets(spec), *release_assets(spec)],
        jobs=jobs_of(spec),
        schedules=schedules_of(spec),
        sensors=sensors_of(spec),
    )


def chains_of(
    specs: Iterable[DatasetSpec], refused: Refusals | None
) -> tuple[list[tuple[DatasetSpec, dg.Definitions]], dg.Definitions]:
    """Return each data set that is not refused with its Dagster definitions, and placeholder assets
    for refused ones, which are logged.

    refused   name → error of files that are refused already; further ones are added to it. None:
              the first error is raised
    """
    chains = []
    for spec in specs:
        with collect_refusal(spec.name, refused):
            chains.append((spec, chain_definitions(spec)))
    placeholders = []
    for name, line in (refused or {}).items():
        _log.error("%s is left out: %s", name, line)
        key = re.sub(r"\W", "_", name)
        placeholder = dg.AssetSpec(
            [key, "refused"],
            description=f"This data set is left out, because its file is refused: {line}. Correct "
            "the file, and load the definitions again.",
            group_name=f"{key}_refused",
            metadata={"refused": line},
        )
        placeholders.append(placeholder)
    return chains, dg.Definitions(assets=placeholders)


def pipeline_definitions(
    specs: tuple[DatasetSpec, ...], pipeline: Pipeline, refused: Refusals | None = None
) -> dg.Definitions:
    """Return the Dagster definitions of all data sets with their resources.

    refused   name → error of files that are refused already, to which others are added; None: the
              first error is raised
    """
    shared: dict[str, Any] = {
        "resources": {RESOURCE: resource_of(pipeline)},
        "executor": dg.in_process_executor,
    }
    with _without_collector():
        chains, placeholders = chains_of(specs, refused)
        bound = []
        for _, chain in chains:
            # These bind a chain's jobs to assets; Dagster itself binds them more slowly.
            unbound = dg.Definitions(assets=chain.assets, jobs=chain.jobs, **shared)
            jobs = [unbound.resolve_job_def(job.name) for job in chain.jobs or []]
            bound.append(
                dg.Definitions(
                    assets=chain.assets,
                    jobs=jobs,
                    schedules=chain.schedules,
                    sensors=chain.sensors,
                )
            )
        renewal = dg.Definitions(sensors=renewal_sensor([spec for spec, _ in chains]))
        return dg.Definitions.merge(dg.Definitions(**shared), *bound, placeholders, renewal)


@contextmanager
def _without_collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
