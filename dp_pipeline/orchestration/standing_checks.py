"""Checks of what stands: a run that is refused takes away no verdict on an earlier release."""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as Target,
)
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)

_JUDGED = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}


def standing_checks(context: dg.AssetExecutionContext) -> list[dg.AssetCheckEvaluation]:
    """The last verdict of each check of this asset, as this run may say it again, of the release
    that it was about.

    Dagster notes when a run begins that it will judge, and takes a run that ends without a
    verdict for a check that failed, whatever an earlier run had found. A refused run has changed
    nothing: the release that was judged is the one that stands.
    """
    found = [
        context.instance.event_log_storage.get_asset_check_execution_history(
            key, limit=1, status=_JUDGED
        )
        for key in context.selected_asset_check_keys
    ]
    return [_again(context.instance, record) for records in found for record in records]


def _again(
    instance: dg.DagsterInstance, record: AssetCheckExecutionRecord
) -> dg.AssetCheckEvaluation:
    last = record.evaluation
    assert last is not None
    return dg.AssetCheckEvaluation(
        asset_key=last.asset_key,
        check_name=last.check_name,
        passed=last.passed,
        metadata=last.metadata,
        target_materialization_data=_judged(instance, record.run_id, last),
        severity=last.severity,
        description=last.description,
        blocking=last.blocking,
    )


def _judged(
    instance: dg.DagsterInstance, run_id: str, last: dg.AssetCheckEvaluation
) -> Target | None:
    """The materialization that a verdict is of: that of its own run, or, of one that was said
    again, the one that it names. Dagster itself would name the newest of the refused partition.
    """
    newest = instance.fetch_materializations(last.asset_key, limit=1).records
    if not newest or newest[0].run_id != run_id:
        return last.target_materialization_data
    return Target(storage_id=newest[0].storage_id, run_id=run_id, timestamp=newest[0].timestamp)
