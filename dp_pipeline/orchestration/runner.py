"""Running one data set's chain in this process: what ``dp-pipeline run`` and the demo do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import dagster as dg

from dp_pipeline.orchestration.dataset import pipeline_definitions
from dp_pipeline.orchestration.instance import dagster_instance
from dp_pipeline.orchestration.lineage import open_lineage
from dp_pipeline.orchestration.plan import plan_request
from dp_pipeline.orchestration.request import RunRequest
from dp_pipeline.orchestration.resources import Pipeline
from dp_pipeline.raw.prepare import stages_of
from dp_pipeline.raw.readiness import require_prepared
from dp_pipeline.raw.snapshot import current_snapshot
from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.errors import NotPrepared, PipelineError

_QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class RunFailed(PipelineError):
    """A step of a run failed; carries the step's own line and exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(message)


def run_dataset(request: RunRequest, on_step: Callable[[str], None]) -> None:
    """Prepare what is not prepared, release every model at every ε, compare, report the budget.

    on_step   is told the name of each step before it starts

    Raises BudgetExceeded before anything is begun when the whole request does not fit, and
    RunFailed with the line of the step that failed.
    """
    plan_request(request).require_budget()
    open_lineage(request.spec, request.home)
    pipeline = Pipeline(request.home, request.noise_name)
    job = pipeline_definitions((request.spec,), pipeline).resolve_implicit_global_asset_job_def()
    with dagster_instance(pipeline.home) as instance:
        run = _Runs(job, instance, request, on_step)
        if _needs_preparing(request):
            run.prepare()
        for epsilon in request.epsilons:
            run.release(epsilon)
        run.report()


def step_count(request: RunRequest) -> int:
    """Upper bound of the steps that ``run_dataset`` announces."""
    return 2 + len(request.epsilons)


def _needs_preparing(request: RunRequest) -> bool:
    spec, home = request.spec, request.home
    snapshot = current_snapshot(home.raw, spec.name, home.ledger.key(spec.lineage))
    if request.snapshot or snapshot is None:
        return True
    try:
        require_prepared(spec, snapshot)
    except NotPrepared:
        return True
    return False


@dataclass(frozen=True)
class _Runs:
    """The runs of one request, each over a selection of the chain."""

    job: dg.JobDefinition
    instance: dg.DagsterInstance
    request: RunRequest
    on_step: Callable[[str], None]

    def prepare(self) -> None:
        names = ["ingested", "validated", *stages_of(self.request.spec)]
        config = {"config": {"snapshot": self.request.snapshot}}
        self._run("rows", names, ops={f"{self.request.spec.name}__ingested": config})

    def release(self, epsilon: Fraction) -> None:
        text = epsilon_text(epsilon)
        config = {"config": {"fresh": self.request.fresh}}
        ops = {f"{self.request.spec.name}__{model}": config for model in self.request.models}
        self._run(f"ε={text}", [*self.request.models, "evaluation"], ops=ops, partition=text)

    def report(self) -> None:
        self._run("report", ["comparison", "budget"])

    def _run(
        self,
        step: str,
        names: Sequence[str],
        *,
        ops: dict[str, Any] | None = None,
        partition: str | None = None,
    ) -> None:
        self.on_step(f"{self.request.spec.name}: {step}")
        result = self.job.execute_in_process(
            instance=self.instance,
            asset_selection=[dg.AssetKey([self.request.spec.name, name]) for name in names],
            partition_key=partition,
            run_config={**_QUIET, "ops": ops or {}},
            raise_on_error=False,
        )
        if not result.success:
            raise _failure(result)


def _failure(result: dg.ExecuteInProcessResult) -> RunFailed:
    for event in result.all_events:
        if event.is_step_failure:
            declared = event.step_failure_data.user_failure_data
            if declared is not None and declared.description:
                code = declared.metadata.get("exit_code")
                return RunFailed(declared.description, int(str(code.value)) if code else 1)
    return RunFailed(f"run {result.run_id} failed: its page in Dagster says where", 1)
