"""Checks of what stands: a run that is refused takes away no verdict on an earlier release."""

from __future__ import annotations

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

_JUDGED = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}


def standing_checks(context: dg.AssetExecutionContext) -> list[dg.AssetCheckResult]:
    """The last verdict of each check of this asset, as this run may say it again.

    Dagster notes when a run begins that it will judge, and takes a run that ends without a
    verdict for a check that failed, whatever an earlier run had found. A refused run has changed
    nothing: the release that was judged is the one that stands.
    """
    found = (_last(context.instance, key) for key in context.selected_asset_check_keys)
    return [
        dg.AssetCheckResult(
            passed=one.passed,
            asset_key=one.asset_key,
            check_name=one.check_name,
            severity=one.severity,
            description=one.description,
            metadata=one.metadata,
        )
        for one in found
        if one is not None
    ]


def _last(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> dg.AssetCheckEvaluation | None:
    history = instance.event_log_storage.get_asset_check_execution_history(
        key, limit=1, status=_JUDGED
    )
    return history[0].evaluation if history else None
