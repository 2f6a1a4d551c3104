"""`dp-pipeline run`, `demo`, `backfill` and `roll-up`: commands that release.

``run`` releases in this process, ``backfill`` asks the Dagster that is running.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.cli.anonymize import AnonymizedRun, anonymize_request
from dp_pipeline.cli.completion import DATASET, EPSILONS, MODELS
from dp_pipeline.cli.plan import plan_document, print_plans
from dp_pipeline.cli.reader import QUIET, READER, Document, Reader
from dp_pipeline.cli.released import ReleasedRun, print_failed_checks
from dp_pipeline.cli.request import WINDOW, request_options
from dp_pipeline.publish.asking import requested
from dp_pipeline.spec.errors import DeclarationError

if TYPE_CHECKING:
    from dp_pipeline.orchestration.runner import OnStep
    from dp_pipeline.publish.epsilon_release import EpsilonRelease
    from dp_pipeline.publish.request import RunRequest

DEMO = ("wdbc", "census", "trips")
DEMO_ANONYMOUS = {"wdbc": "5"}
"""Data set → K of the k-anonymous table that the demo makes of it."""


@click.command()
@request_options
@READER
@QUIET
def run(dataset: str, reader: Reader, quiet: bool, **options: Any) -> None:
    """Run the chain of DATASET: rows, models, evaluation, report."""
    from dp_pipeline.orchestration.runner import step_count
    from dp_pipeline.reporting.text import progress

    requests = requested(dataset, **options)
    with progress(sum(map(step_count, requests)), quiet=quiet) as on_step:
        ran = _released(requests, on_step)
    reader.answer(ran.document, ran.page)
    print_failed_checks(requests[0].spec, ran.failed_checks)


@click.command()
@READER
@QUIET
def demo(reader: Reader, quiet: bool) -> None:
    """Run three example data sets, one k-anonymously too, and print what was released."""
    from dp_pipeline.orchestration.runner import step_count
    from dp_pipeline.reporting.text import progress

    datasets = [requested(name) for name in DEMO]
    tables = [anonymize_request(name, ks=(k,)) for name, k in DEMO_ANONYMOUS.items()]
    requests = [*(one for dataset in datasets for one in dataset), *tables]
    with progress(sum(map(step_count, requests)), quiet=quiet) as on_step:
        runs = [_released(dataset, on_step) for dataset in datasets]
        anonymized = [AnonymizedRun.of(request, on_step) for request in tables]
    reader.answer(lambda: _demo_document(runs, anonymized), lambda: _print_demo(runs, anonymized))
    every_run: tuple[ReleasedRun | AnonymizedRun, ...] = (*runs, *anonymized)
    for one in every_run:
        print_failed_checks(one.spec, one.failed_checks)


def _demo_document(runs: Sequence[ReleasedRun], anonymized: Sequence[AnonymizedRun]) -> Document:
    return {
        "runs": [one.document() for one in runs],
        "k_anonymous": [one.document() for one in anonymized],
    }


def _print_demo(runs: Sequence[ReleasedRun], anonymized: Sequence[AnonymizedRun]) -> None:
    for run_of_one in runs:
        run_of_one.page(explained=run_of_one is runs[0])
    for table in anonymized:
        table.page()


def _released(requests: list[RunRequest], on_step: OnStep) -> ReleasedRun:
    """Run the requests of one data set."""
    from dp_pipeline.orchestration.runner import run_dataset, run_windows

    if requests[0].spec.window:
        return ReleasedRun(requests, run_windows(requests, on_step))
    return ReleasedRun(requests, [run_dataset(requests[0], on_step)])


@click.command()
@DATASET
@EPSILONS
@WINDOW
@READER
@QUIET
def backfill(
    dataset: str, epsilons: tuple[str, ...], windows: str, reader: Reader, quiet: bool
) -> None:
    """Let the running Dagster release DATASET with every model at every ε, one run an ε; where
    rows are cut, all that is published of each window, one run a window. Shows what it costs
    first, and refuses what does not fit.
    """
    from dp_pipeline.orchestration.common import partition_key
    from dp_pipeline.orchestration.instance import dagster_instance
    from dp_pipeline.orchestration.jobs import require_daemon, submit_backfill
    from dp_pipeline.publish.request import plan_request, require_budget_of_all
    from dp_pipeline.reporting.text import progress

    requests = requested(dataset, epsilons=epsilons, windows=windows)
    request, partitions = requests[0], list(requests[0].levels)
    if request.spec.window:
        if epsilons:
            raise DeclarationError(
                f"{request.spec.name}: --epsilon: expected none in a backfill over windows, which "
                "releases what is published of each, got one: `dp-pipeline run` sweeps over ε"
            )
        partitions = [partition_key(one.spec.cut, one.spec.window) for one in requests]
    planned = [plan_request(one) for one in requests]
    reader.answer(
        lambda: {**plan_document(planned), "runs": partitions}, lambda: print_plans(planned)
    )
    require_budget_of_all(planned)
    with dagster_instance(request.home) as instance:
        require_daemon(instance, now=time.time())
    with progress(1, quiet=quiet) as on_step:
        on_step(f"{dataset}: Dagster reads the definitions once more, which takes a while")
        submit_backfill(request.spec, request.home, partitions)
    reader.note(
        f"{len(partitions)} runs wait in Dagster: its page Runs shows them. A run that "
        "fails is begun again by the same command; what is released by then costs nothing."
    )


@click.command("roll-up")
@DATASET
@MODELS
@WINDOW
@READER
def roll_up(dataset: str, models: tuple[str, ...], windows: str, reader: Reader) -> None:
    """Add up what was released of the windows of DATASET, such as the weeks of a month. It is
    public already, so it costs nothing; the noise of the sum stands beside it.
    """
    from dp_pipeline.publish.roll_up import write_roll_up

    requests = requested(dataset, models=models, windows=windows)
    if not requests[0].spec.window:
        raise DeclarationError(f"{dataset}: expected rows that are cut by `windows`, got none")
    files = {name: str(write_roll_up(_of_model(requests, name))) for name in requests[0].names}
    reader.answer(
        lambda: {
            "dataset": dataset,
            "windows": [one.spec.window for one in requests],
            "files": files,
        },
        lambda: click.echo("\n".join(f"{name}: {path}" for name, path in files.items())),
    )


def _of_model(requests: Sequence[RunRequest], name: str) -> list[EpsilonRelease]:
    """The releases of one model, one a window."""
    from dp_pipeline.publish.epsilon_release import EpsilonRelease

    every = [one for request in requests for one in request.releases]
    return [one for one in every if isinstance(one, EpsilonRelease) and one.name == name]
