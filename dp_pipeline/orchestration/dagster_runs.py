"""Runs of one data set's chain in this process, each over a selection of its assets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from dp_pipeline.ledger.home import Home
from dp_pipeline.raw.prepare import stages_of
from dp_pipeline.raw.readiness import require_prepared
from dp_pipeline.raw.snapshot import current_snapshot
from dp_pipeline.schema.errors import NotPrepared, PipelineError
from dp_pipeline.schema.spec import DatasetSpec

_QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class RunFailed(PipelineError):
    """A step of a run failed; carries the step's own line and exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(message)


@dataclass(frozen=True)
class DagsterRuns:
    """The runs that one command starts, one after the other.

    on_step   is told the name of each step before it starts
    """

    job: dg.JobDefinition
    instance: dg.DagsterInstance
    spec: DatasetSpec
    on_step: Callable[[str], None]

    def prepare(self, home: Home, snapshot: str) -> tuple[str, ...]:
        """The raw chain, where a snapshot is named or the current one is not prepared.

        Names of the checks on rows that did not pass and stop nothing: for the steward alone.
        None where the rows were prepared before.
        """
        if not (snapshot or _needs_preparing(self.spec, home)):
            return ()
        names = ["ingested", "validated", *stages_of(self.spec)]
        config = {"ingested": {"config": {"snapshot": snapshot}}}
        result = self.run("rows", names, config=config)
        checks = result.get_asset_check_evaluations()
        return tuple(one.check_name for one in checks if not one.passed)

    def run(
        self,
        step: str,
        names: Sequence[str],
        *,
        config: dict[str, Any] | None = None,
        partition: str | None = None,
    ) -> dg.ExecuteInProcessResult:
        """One run over some assets; RunFailed with the line of the step that failed.

        names    of assets below the data set: ``ingested``, ``k_anonymous/kjig``
        config   of some of them
        """
        self.on_step(f"{self.spec.name}: {step}")
        ops = {f"{self.spec.name}__{name}": one for name, one in (config or {}).items()}
        result = self.job.execute_in_process(
            instance=self.instance,
            asset_selection=[dg.AssetKey([self.spec.name, *name.split("/")]) for name in names],
            partition_key=partition,
            run_config={**_QUIET, "ops": ops},
            raise_on_error=False,
        )
        if not result.success:
            raise _failure(result)
        return result


def _needs_preparing(spec: DatasetSpec, home: Home) -> bool:
    snapshot = current_snapshot(home.raw, spec.name, home.ledger.key(spec.lineage))
    if snapshot is None:
        return True
    if snapshot.is_retired():
        # Its rows are gone, and what was released of it is replayed without any.
        return False
    try:
        require_prepared(spec, snapshot)
    except NotPrepared:
        return True
    return False


def _failure(result: dg.ExecuteInProcessResult) -> RunFailed:
    for event in result.all_events:
        if event.is_step_failure:
            declared = event.step_failure_data.user_failure_data
            if declared is not None and declared.description:
                code = declared.metadata.get("exit_code")
                return RunFailed(declared.description, int(str(code.value)) if code else 1)
    return RunFailed(f"run {result.run_id} failed: its page in Dagster says where", 1)
