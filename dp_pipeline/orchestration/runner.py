"""Runs of one data set's chain in this process, each over a selection of its assets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dp_pipeline.config.amounts import NANO
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.raw.snapshot import current_snapshot
from dp_pipeline.releases.account import open_population
from dp_pipeline.releases.domain_release import domain_charge
from dp_pipeline.releases.outcome import is_level_complete, is_prepared, is_report_current
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline.releases.run_result import RunResult

if TYPE_CHECKING:
    import dagster as dg

OnStep = Callable[[str], None]

_QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class RunFailed(PipelineError):
    """Raised when a step of a run failed, with the message and exit code of the step."""

    def __init__(self, message: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(message)


@dataclass
class DagsterRuns:
    """The Dagster runs that one command starts, one after the other.

    on_step         gets the name of each step before it starts
    discovery_cost  nano-ε, or nano-ρ, that the last run charged for discovering the domain
    failed_checks   time window, or empty → failed checks on rows with exact shares, as texts
    """

    job: dg.JobDefinition
    instance: dg.DagsterInstance
    spec: DatasetSpec
    on_step: OnStep
    discovery_cost: int = 0
    failed_checks: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def prepare(self, options: RunOptions, partition: str | None = None) -> tuple[str, ...]:
        """Read and prepare rows if a snapshot is named or the current one is not prepared.

        partition   Dagster's partition key of a time window

        Return the failed checks on rows that do not stop the run, as texts with exact shares for
        the data custodian alone; none if the rows were prepared before. The charge of a discovery
        is kept in ``discovery_cost``.
        """
        from dp_pipeline.orchestration.jobs import raw_stages
        from dp_pipeline.raw.validate import add_passing_shares

        spec = options.spec
        if not options.snapshot and is_prepared(spec, options.home):
            return ()
        names = raw_stages(spec)
        config = {"ingested": {"config": {"snapshot": options.snapshot}}}
        step = " ".join(("rows", *(f"of {window}" for window in spec.blocks)))
        result = self.run(step, names, config=config, partition=partition)
        if spec.to_discover:
            self.discovery_cost = domain_charge(spec, options.home, run=result.run_id)
        checks = result.get_asset_check_evaluations()
        failed = [check.check_name for check in checks if not check.passed]
        snapshot = current_snapshot(options.home.raw, spec.name, b"", spec.window)
        return () if snapshot is None else add_passing_shares(snapshot, failed)

    def run(
        self,
        step: str,
        names: Sequence[str],
        *,
        config: dict[str, Any] | None = None,
        partition: str | None = None,
    ) -> dg.ExecuteInProcessResult:
        """Announce and run some assets; RunFailed with the message of the step that failed.

        step        words for ``on_step``
        names       names of assets below the data set, such as ``ingested`` or ``k_anonymous/kjig``
        config      asset name → its configuration
        partition   Dagster's partition key of an ε, a K or a time window; None: without one
        """
        import dagster as dg

        self.on_step(f"{self.spec.name}: {step}")
        ops = {f"{self.spec.name}__{name}": values for name, values in (config or {}).items()}
        result = self.job.execute_in_process(
            instance=self.instance,
            asset_selection=[dg.AssetKey([self.spec.name, *name.split("/")]) for name in names],
            partition_key=partition,
            run_config={**_QUIET, "ops": ops},
            raise_on_error=False,
        )
        if result.success:
            return result
        for event in result.all_events:
            if event.is_step_failure:
                failure = event.step_failure_data.user_failure_data
                if failure is not None and failure.description:
                    code = failure.metadata.get("exit_code")
                    raise RunFailed(failure.description, int(str(code.value)) if code else 1)
        where = "`dp-pipeline ui` shows where, on its page"
        raise RunFailed(f"run {result.run_id} failed: {where}", 1)


def execute(options: RunOptions, on_step: OnStep) -> RunResult:
    """Run all steps of the options that are not complete; return all their releases.

    The steps prepare rows, release and evaluate, then compare. If all are complete, Dagster is not
    imported. Each time window has runs of its own, oldest first.

    on_step   gets the name of each step before it starts

    Raises, before anything is started, DeclarationError for what the data set file does not allow
    and BudgetExceeded when all of it does not fit; RunFailed with the line of the failed step.
    """
    plan_run(options).require_budget()
    each, first = options.per_window, options.per_window[0]
    open_population(first.spec, first.home)
    with options.home.ledger.consistent_view():
        levels = [
            [level for level in part.levels if not is_level_complete(part, level)] for part in each
        ]
        is_complete = not any(levels) and is_report_current(first)
    if is_complete:
        return RunResult.of(options, levels)
    with _dagster_runs(first, on_step) as runs:
        if options.spec.windows is None:
            _run_levels(runs, first, levels[0])
        else:
            for part, own_levels in zip(each, levels, strict=True):
                _run_window(runs, part, own_levels)
            runs.run("report", ["comparison", "budget"])
    discovery = Fraction(runs.discovery_cost, NANO)
    return RunResult.of(options, levels, discovery_charge=discovery, failures=runs.failed_checks)


def _run_window(runs: DagsterRuns, options: RunOptions, levels: Sequence[str]) -> None:
    from dp_pipeline.orchestration.partitions import partition_key

    if not levels:
        return
    window = options.spec.window
    key = partition_key(options.spec.time_windows, window)
    # Releases of several windows read the windows before, too.
    windows = {name for release in options.releases for name in release.windows} - {window}
    failed: list[str] = []
    for name in sorted(windows):
        earlier = replace(options.of_window(name), snapshot="")
        failed += runs.prepare(earlier, partition_key(options.spec.time_windows, name))
    runs.failed_checks[window] = (*failed, *runs.prepare(options, key))
    # All publications of a window are one run; each ε of a sweep is a run of its own.
    is_single = options.published and not options.span
    for level in [""] if is_single else levels:
        settings = {"epsilon": level, "span": options.span}
        release_config = {"config": {**settings, **_draw_config(options)}}
        names = [release.name for release in options.at(level)] if level else options.names
        config: dict[str, Any] = {"evaluation": {"config": settings}}
        config |= dict.fromkeys(names, release_config)
        step = f"{window}{level and f' ε={level}'}"
        runs.run(step, (*names, "evaluation"), config=config, partition=key)


def _run_levels(runs: DagsterRuns, options: RunOptions, levels: Sequence[str]) -> None:
    spec, prefix = options.spec, "".join(f"{folder}/" for folder in options.kind.FOLDER)
    runs.failed_checks[""] = runs.prepare(options)
    for level in levels:
        names = [f"{prefix}{name}" for name in (*options.names, "evaluation")]
        release_config = {"config": _draw_config(options)}
        config = {} if prefix else dict.fromkeys(options.names, release_config)
        runs.run(f"{options.kind.SYMBOL}={level}", names, config=config, partition=level)
    # The report of releases with an ε names the other non-DP releases.
    private_report = ["comparison"] if prefix and spec.is_release else []
    runs.run("report", [f"{prefix}comparison", "budget", *private_report])


def _draw_config(options: RunOptions) -> dict[str, Any]:
    return {"new_draw": options.new_draw, "refine": options.refine}


@contextmanager
def _dagster_runs(options: RunOptions, on_step: OnStep) -> Iterator[DagsterRuns]:
    from dp_pipeline.orchestration.common import Pipeline
    from dp_pipeline.orchestration.dataset import pipeline_definitions
    from dp_pipeline.orchestration.instance import dagster_instance

    pipeline = Pipeline(options.home, options.noise_name or Pipeline.noise)
    definitions = pipeline_definitions((options.spec.of_all_windows(),), pipeline)
    job = definitions.resolve_implicit_global_asset_job_def()
    with dagster_instance(pipeline.home) as instance:
        yield DagsterRuns(job, instance, options.spec, on_step)


def step_count(options: RunOptions) -> int:
    """Return the largest number of steps that a run may announce."""
    parts = options.per_window
    # The rows of each window that a release reads, its levels, and a report.
    return sum((part.span or part.spec.max_span) + len(part.levels) + 1 for part in parts)
