"""Running one data set's chain in this process: what ``dp-pipeline run`` and the demo do.

Runs of one data set's chain in this process, each over a selection of its assets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from dp_pipeline.orchestration.common import Pipeline
from dp_pipeline.orchestration.dataset import pipeline_definitions
from dp_pipeline.orchestration.instance import dagster_instance
from dp_pipeline.publish.account import open_lineage
from dp_pipeline.publish.home import Home
from dp_pipeline.publish.k_anonymous_release import FOLDER
from dp_pipeline.publish.request import AnonymizeRequest, RunRequest, plan_request
from dp_pipeline.raw.prepare import stages_of
from dp_pipeline.raw.snapshot import current_snapshot, require_prepared
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import NotPrepared, PipelineError

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


OnStep = Callable[[str], None]


def run_dataset(request: RunRequest, on_step: OnStep) -> tuple[str, ...]:
    """Prepare what is not prepared, release every model at every ε, compare, report the budget.

    on_step   is told the name of each step before it starts

    Names of the checks on rows that did not pass, where rows were prepared: for the steward alone.

    Raises BudgetExceeded before anything is begun when the whole request does not fit, and
    RunFailed with the line of the step that failed.
    """
    plan_request(request).require_budget()
    open_lineage(request.spec, request.home)
    pipeline = Pipeline(request.home, request.noise_name)
    job = pipeline_definitions((request.spec,), pipeline).resolve_implicit_global_asset_job_def()
    fresh = {"config": {"fresh": request.fresh}}
    with dagster_instance(pipeline.home) as instance:
        runs = DagsterRuns(job, instance, request.spec, on_step)
        failed = runs.prepare(request.home, request.snapshot)
        for epsilon in request.epsilons:
            text = epsilon_text(epsilon)
            config = dict.fromkeys(request.models, fresh)
            names = [*request.models, "evaluation"]
            runs.run(f"ε={text}", names, config=config, partition=text)
        runs.run("report", ["comparison", "budget"])
    return failed


def anonymize_dataset(request: AnonymizeRequest, on_step: OnStep) -> tuple[str, ...]:
    """Prepare what is not prepared, make the k-anonymous releases of every K, compare them.

    Names of checks as of ``run_dataset``.

    Raises DeclarationError before anything is begun for what the data set file does not allow,
    and RunFailed with the line of the step that failed.
    """
    for release in request.releases:
        release.require_allowed()
    open_lineage(request.spec, request.home)
    pipeline = Pipeline(request.home)
    job = pipeline_definitions((request.spec,), pipeline).resolve_implicit_global_asset_job_def()
    with dagster_instance(pipeline.home) as instance:
        runs = DagsterRuns(job, instance, request.spec, on_step)
        failed = runs.prepare(request.home, request.snapshot)
        for k in request.ks:
            names = [f"{FOLDER}/{name}" for name in (*request.methods, "evaluation")]
            runs.run(f"K={k}", names, partition=str(k))
        # The report of releases with an ε has to say what was released beside them.
        beside = ["comparison"] if request.spec.is_release else []
        runs.run("comparison", [f"{FOLDER}/comparison", "budget", *beside])
    return failed


def step_count(request: RunRequest | AnonymizeRequest) -> int:
    """Upper bound of the steps that are announced."""
    return 2 + request.partition_count
