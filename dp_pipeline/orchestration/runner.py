"""Running one data set's chain in this process: what ``dp-pipeline run`` and the demo do."""

from __future__ import annotations

from collections.abc import Callable

from dp_pipeline.orchestration.dagster_runs import DagsterRuns
from dp_pipeline.orchestration.dataset import pipeline_definitions
from dp_pipeline.orchestration.instance import dagster_instance
from dp_pipeline.orchestration.lineage import open_lineage
from dp_pipeline.orchestration.plan import plan_request
from dp_pipeline.orchestration.request import AnonymizeRequest, RunRequest
from dp_pipeline.orchestration.resources import Pipeline
from dp_pipeline.orchestration.syntactic_release import FOLDER
from dp_pipeline.schema.epsilon import epsilon_text

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
