"""Runs of one data set's chain in this process, each over a selection of its assets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dp_pipeline.publish.account import open_population
from dp_pipeline.publish.domain_release import NAME, charged_for_domain
from dp_pipeline.publish.outcome import is_prepared, report_stands, stands
from dp_pipeline.publish.request import (
    RunRequest,
    plan_request,
    plan_requests,
    require_budget_of_all,
)
from dp_pipeline.raw.prepare import stages_of
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import PipelineError

if TYPE_CHECKING:
    import dagster as dg

_QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class RunFailed(PipelineError):
    """A step of a run failed; carries the step's own line and exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(message)


@dataclass
class DagsterRuns:
    """The runs that one command starts, one after the other.

    on_step   is told the name of each step before it starts
    discovery nano-ε, or nano-ρ, that the last of them charged for discovering the domain
    """

    job: dg.JobDefinition
    instance: dg.DagsterInstance
    spec: DatasetSpec
    on_step: Callable[[str], None]
    discovery: int = 0

    def prepare(self, request: RunRequest, partition: str | None = None) -> tuple[str, ...]:
        """The raw chain, where a snapshot is named or the current one is not prepared.

        partition   of a window

        Names of the checks on rows that did not pass and stop nothing: for the steward alone.
        None where the rows were prepared before.
        """
        spec = request.spec
        if not request.snapshot and is_prepared(spec, request.home):
            return ()
        domain = [NAME] if spec.to_discover else []
        names = ["ingested", "validated", *domain, *stages_of(spec.widest)]
        config = {"ingested": {"config": {"snapshot": request.snapshot}}}
        step = " ".join(("rows", *(f"of {one}" for one in spec.blocks)))
        result = self.run(step, names, config=config, partition=partition)
        if domain:
            self.discovery = charged_for_domain(spec, request.home, run=result.run_id)
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
        import dagster as dg

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


def _failure(result: dg.ExecuteInProcessResult) -> RunFailed:
    for event in result.all_events:
        if event.is_step_failure:
            declared = event.step_failure_data.user_failure_data
            if declared is not None and declared.description:
                code = declared.metadata.get("exit_code")
                return RunFailed(declared.description, int(str(code.value)) if code else 1)
    return RunFailed(f"run {result.run_id} failed: its page in Dagster says where", 1)


OnStep = Callable[[str], None]


@dataclass(frozen=True)
class Ran:
    """What a request came to.

    levels          those that were run now; all others stood as they were
    failed_checks   names of the checks on rows that did not pass, for the steward alone
    discovery       nano-ε, or nano-ρ, that discovering the domain charged
    """

    levels: tuple[str, ...] = ()
    failed_checks: tuple[str, ...] = ()
    discovery: int = 0


def run_dataset(request: RunRequest, on_step: OnStep) -> Ran:
    """Prepare what is not prepared, release, compare, report the budget. What stands as a run
    would leave it is not run again, and where everything does, Dagster is not even imported.

    on_step   is told the name of each step before it starts

    Raises DeclarationError before anything is begun for what the data set file does not allow,
    BudgetExceeded when the whole request does not fit, and RunFailed with the line of the step
    that failed.
    """
    plan_request(request).require_budget()
    open_population(request.spec, request.home)
    with request.home.ledger.one_look():
        levels = [level for level in request.levels if not stands(request, level)]
        all_stands = not levels and report_stands(request)
    if all_stands:
        return Ran()
    return _run_levels(request, levels, on_step)


def run_windows(requests: Sequence[RunRequest], on_step: OnStep) -> list[Ran]:
    """The same of several windows of one data set, oldest first: each is read, prepared, released
    and evaluated by a run of its own; then all are compared.

    requests   one for each window

    Nothing is begun where any of them, or all together, do not fit.
    """
    require_budget_of_all(plan_requests(requests))
    open_population(requests[0].spec, requests[0].home)
    with requests[0].home.ledger.one_look():
        asked = [[level for level in one.levels if not stands(one, level)] for one in requests]
        all_stands = not any(asked) and report_stands(requests[0])
    if all_stands:
        return [Ran() for _ in requests]
    return _run_windows(requests, asked, on_step)


def _run_windows(
    requests: Sequence[RunRequest], asked: Sequence[Sequence[str]], on_step: OnStep
) -> list[Ran]:
    from dp_pipeline.orchestration.common import partition_key

    spec, ran = requests[0].spec, []
    with _dagster(requests[0], on_step) as runs:
        for request, levels in zip(requests, asked, strict=True):
            key = partition_key(spec.cut, request.spec.window)
            failed = [] if not levels else [*_prepared_before(runs, request)]
            failed += runs.prepare(request, key) if levels else ()
            # What is published of a window is one run; each ε of a sweep is another.
            is_one = request.published and not request.span
            for level in [""] if is_one and levels else levels:
                given = {"epsilon": level, "span": request.span}
                config: dict[str, Any] = {"evaluation": {"config": given}}
                drawn = {"config": {**given, **_drawn(request)}}
                asked_now = [one.name for one in request.at(level)] if level else request.names
                config |= dict.fromkeys(asked_now, drawn)
                names = (*asked_now, "evaluation")
                step = f"{request.spec.window}{level and f' ε={level}'}"
                runs.run(step, names, config=config, partition=key)
            ran.append(Ran(tuple(levels), tuple(failed)))
        runs.run("report", ["comparison", "budget"])
    return ran


def _prepared_before(runs: DagsterRuns, request: RunRequest) -> Iterator[str]:
    """Read and prepare the windows before that its releases are of too; the checks on rows that
    failed.
    """
    from dp_pipeline.orchestration.common import partition_key

    read = {window for one in request.releases for window in one.windows}
    for window in sorted(read - {request.spec.window}):
        own = replace(request.of_window(window), snapshot="")
        yield from runs.prepare(own, partition_key(request.spec.cut, window))


def _run_levels(request: RunRequest, levels: Sequence[str], on_step: OnStep) -> Ran:
    spec, below = request.spec, "".join(f"{folder}/" for folder in request.kind.FOLDER)
    drawn = {"config": _drawn(request)}
    with _dagster(request, on_step) as runs:
        failed = runs.prepare(request)
        for level in levels:
            names = [f"{below}{name}" for name in (*request.names, "evaluation")]
            config = {} if below else dict.fromkeys(request.names, drawn)
            runs.run(f"{request.kind.SYMBOL}={level}", names, config=config, partition=level)
        # The report of releases with an ε has to say what was released beside them.
        beside = ["comparison"] if below and spec.is_release else []
        runs.run("report", [f"{below}comparison", "budget", *beside])
    return Ran(tuple(levels), tuple(failed), runs.discovery)


def _drawn(request: RunRequest) -> dict[str, Any]:
    """How each of its releases is to be drawn."""
    return {"new_draw": request.new_draw, "refine": request.refine}


@contextmanager
def _dagster(request: RunRequest, on_step: OnStep) -> Iterator[DagsterRuns]:
    """Dagster with the chain of one data set."""
    from dp_pipeline.orchestration.common import Pipeline
    from dp_pipeline.orchestration.dataset import pipeline_definitions
    from dp_pipeline.orchestration.instance import dagster_instance

    pipeline = Pipeline(request.home, request.noise_name or Pipeline.noise)
    definitions = pipeline_definitions((request.spec.of_all_windows(),), pipeline)
    job = definitions.resolve_implicit_global_asset_job_def()
    with dagster_instance(pipeline.home) as instance:
        yield DagsterRuns(job, instance, request.spec, on_step)


def step_count(request: RunRequest) -> int:
    """Upper bound of the steps that are announced."""
    return 2 + len(request.levels)
