"""What Dagster's event log holds of a data set."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import dagster as dg

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline_tests.orchestration.projects import Project, definitions_of

CHARGED = "privacy/charged by this run"


def materializations(
    project: Project, spec: DatasetSpec
) -> dict[dg.AssetKey, dict[str | None, list[Mapping[str, Any]]]]:
    """Asset → partition → metadata of materializations, newest first; of every declared asset."""
    materialized: dict[dg.AssetKey, dict[str | None, list[Mapping[str, Any]]]] = {}
    graph = definitions_of(spec, project.home).resolve_asset_graph()
    for key in sorted(graph.get_all_asset_keys()):
        partitions = materialized.setdefault(key, {})
        for record in project.instance.fetch_materializations(key, limit=1000).records:
            materialization = record.asset_materialization
            partitions.setdefault(materialization.partition, []).append(materialization.metadata)
    return materialized


def metadata_of(
    project: Project, spec: DatasetSpec, name: str, partition: str | None = None
) -> Mapping[str, Any]:
    """Of the newest materialization of an asset, named below its data set."""
    key = dg.AssetKey([spec.name, *name.split("/")])
    return materializations(project, spec)[key][partition][0]


def records(metadata: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [record.data for record in metadata[name].records]


def charged(project: Project, spec: DatasetSpec) -> Fraction:
    """Σ of the ε that all materializations of all models say that they charged."""
    amounts = (
        Fraction(metadata[CHARGED].value)
        for key, partitions in materializations(project, spec).items()
        for entries in partitions.values()
        for metadata in entries
        if key.path[1] in spec.models
    )
    return sum(amounts, Fraction(0))


def check_results(project: Project, spec: DatasetSpec) -> list[dg.AssetCheckEvaluation]:
    return [
        entry.dagster_event.asset_check_evaluation_data
        for entry in entries(project.instance)
        if entry.dagster_event is not None
        and entry.dagster_event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
        and entry.dagster_event.asset_check_evaluation_data.asset_key.path[0] == spec.name
    ]


def entries(instance: dg.DagsterInstance) -> list[dg.EventLogEntry]:
    return [entry for run in instance.get_runs() for entry in instance.all_logs(run.run_id)]


def failures(result: dg.ExecuteInProcessResult) -> list[Any]:
    return [event.step_failure_data for event in result.all_events if event.is_step_failure]


def refusal(result: dg.ExecuteInProcessResult) -> str:
    assert not result.success
    (failed,) = failures(result)
    assert failed.user_failure_data is not None, failed.error
    assert not [event for event in result.all_events if event.is_step_up_for_retry]
    line = failed.user_failure_data.description
    assert "\n" not in line
    return line
