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
from dp_pipeline.raw.prepare import stages_of
from dp_pipeline.releases.account import open_population
from dp_pipeline.releases.domain_release import NAME, domain_charge
from dp_pipeline.releases.outcome import is_level_complete, is_prepared, is_report_current
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline.releases.run_result import RunResult

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
    failures  window → names of the checks on rows that did not pass
    """

    job: dg.JobDefinition
    instance: dg.DagsterInstance
    spec: DatasetSpec
    on_step: Callable[[str], None]
    discovery: int = 0
    failures: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def prepare(self, options: RunOptions, partition: str | None = None) -> tuple[str, ...]:
        """The raw chain, where a snapshot is named or the current one is not prepared.

        partition   of a window

        Names of the checks on rows that did not pass and stop nothing: for the steward alone.
        None where the rows were prepared before.
        """
        spec = options.spec
        if not options.snapshot and is_prepared(spec, options.home):
            return ()
        domain = [NAME] if spec.to_discover else []
        names = ["ingested", "validated", *domain, *stages_of(spec.widest)]
        config = {"ingested": {"config": {"snapshot": options.snapshot}}}
        step = " ".join(("rows", *(f"of {one}" for one in spec.blocks)))
        result = self.run(step, names, config=config, partition=partition)
        if domain:
            self.discovery = domain_charge(spec, options.home, run=result.run_id)
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


def execute(options: RunOptions, on_step: OnStep) -> RunResult:
    """Prepare what is not prepared, release, compare, report the budget. What stands as a run
    would leave it is not run again, and where everything does, Dagster is not even imported. Where
    rows are cut, each window is read, prepared, released and evaluated by a run of its own, oldest
    first; then all are compared.

    on_step   is told the name of each step before it starts

    Raises DeclarationError before anything is begun for what the data set file does not allow,
    BudgetExceeded when all of it does not fit, and RunFailed with the line of the step that failed.
    """
    plan_run(options).require_budget()
    each, first = options.per_window, options.per_window[0]
    open_population(first.spec, first.home)
    with options.home.ledger.consistent_view():
        levels = [
            [level for level in one.levels if not is_level_complete(one, level)] for one in each
        ]
        all_stands = not any(levels) and is_report_current(first)
    if all_stands:
        return RunResult.of(options, levels)
    with _dagster(first, on_step) as runs:
        if options.spec.windows is None:
            _run_levels(runs, first, levels[0])
        else:
            for one, own in zip(each, levels, strict=True):
                _run_window(runs, one, own)
            runs.run("report", ["comparison", "budget"])
    paid = Fraction(runs.discovery, NANO)
    return RunResult.of(options, levels, discovery=paid, failures=runs.failures)


def _run_window(runs: DagsterRuns, options: RunOptions, levels: Sequence[str]) -> None:
    from dp_pipeline.orchestration.common import partition_key

    if not levels:
        return
    window = options.spec.window
    key = partition_key(options.spec.cut, window)
    failed = [*_prepared_before(runs, options), *runs.prepare(options, key)]
    runs.failures[window] = tuple(failed)
    # What is published of a window is one run; each ε of a sweep is another.
    is_one = options.published and not options.span
    for level in [""] if is_one else levels:
        given = {"epsilon": level, "span": options.span}
        config: dict[str, Any] = {"evaluation": {"config": given}}
        drawn = {"config": {**given, **_drawn(options)}}
        names = [one.name for one in options.at(level)] if level else options.names
        config |= dict.fromkeys(names, drawn)
        step = f"{window}{level and f' ε={level}'}"
        runs.run(step, (*names, "evaluation"), config=config, partition=key)


def _prepared_before(runs: DagsterRuns, options: RunOptions) -> Iterator[str]:
    """Read and prepare the windows before that its releases are of too; the checks on rows that
    failed.
    """
    from dp_pipeline.orchestration.common import partition_key

    read = {window for one in options.releases for window in one.windows}
    for window in sorted(read - {options.spec.window}):
        own = replace(options.of_window(window), snapshot="")
        yield from runs.prepare(own, partition_key(options.spec.cut, window))


def _run_levels(runs: DagsterRuns, options: RunOptions, levels: Sequence[str]) -> None:
    spec, below = options.spec, "".join(f"{folder}/" for folder in options.kind.FOLDER)
    drawn = {"config": _drawn(options)}
    runs.failures[""] = runs.prepare(options)
    for level in levels:
        names = [f"{below}{name}" for name in (*options.names, "evaluation")]
        config = {} if below else dict.fromkeys(options.names, drawn)
        runs.run(f"{options.kind.SYMBOL}={level}", names, config=config, partition=level)
    # The report of releases with an ε has to say what was released beside them.
    beside = ["comparison"] if below and spec.is_release else []
    runs.run("report", [f"{below}comparison", "budget", *beside])


def _drawn(options: RunOptions) -> dict[str, Any]:
    """How each of its releases is to be drawn."""
    return {"new_draw": options.new_draw, "refine": options.refine}


@contextmanager
def _dagster(options: RunOptions, on_step: OnStep) -> Iterator[DagsterRuns]:
    """Dagster with the chain of one data set."""
    from dp_pipeline.orchestration.common import Pipeline
    from dp_pipeline.orchestration.dataset import pipeline_definitions
    from dp_pipeline.orchestration.instance import dagster_instance

    pipeline = Pipeline(options.home, options.noise_name or Pipeline.noise)
    definitions = pipeline_definitions((options.spec.of_all_windows(),), pipeline)
    job = definitions.resolve_implicit_global_asset_job_def()
    with dagster_instance(pipeline.home) as instance:
        yield DagsterRuns(job, instance, options.spec, on_step)


def step_count(options: RunOptions) -> int:
    """Upper bound of the steps that are announced."""
    return sum(2 + len(one.levels) for one in options.per_window)
