"""The commands that release: `dp-pipeline run`, `anonymize`, `demo`, `backfill` and `roll-up`.

``run`` releases in this process, ``backfill`` in the running Dagster. ``anonymize`` makes
k-anonymous tables, which have no ε.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.cli.options import (
    CUSTODIAN,
    DATASET,
    EPSILONS,
    MODELS,
    QUIET,
    READER,
    SNAPSHOT,
    WINDOW,
    Reader,
    filter_option,
    ks,
    method_names,
    request_options,
)
from dp_pipeline.cli.plan import plan_document, print_plan
from dp_pipeline.config.errors import DeclarationError

if TYPE_CHECKING:
    from dp_pipeline.releases.run_options import RunOptions
    from dp_pipeline.releases.run_result import RunResult


@click.command()
@DATASET
@filter_option("method", "method", method_names)
@filter_option("k", "K", ks)
@click.option("--all", "every", is_flag=True, help="Every method that the data set declares.")
@SNAPSHOT
@READER
@QUIET
@CUSTODIAN
def anonymize(dataset: str, reader: Reader, quiet: bool, custodian: bool, **options: Any) -> None:
    """Release k-anonymous tables of a data set, without any ε.

    It uses the first declared method and, for public rows, every K. This is not differential
    privacy. For sensitive rows --k has to name one K: two releases reveal more than each alone.
    """
    (result,) = _execute_all([anonymize_options(dataset, **options)], quiet=quiet)
    _show_result(result, reader, custodian=custodian)


def _execute_all(every: Sequence[RunOptions], *, quiet: bool) -> list[RunResult]:
    from dp_pipeline.orchestration.runner import execute, step_count
    from dp_pipeline.reporting.text import progress

    with progress(sum(map(step_count, every)), quiet=quiet) as on_step:
        return [execute(options, on_step) for options in every]


def _show_result(result: RunResult, reader: Reader, *, custodian: bool) -> None:
    from dp_pipeline.cli import released

    reader.print_output(
        lambda: released.result_document(result), lambda: released.print_result(result)
    )
    released.print_failed_checks(result.failing_spec, result.failed_checks, custodian=custodian)


def anonymize_options(
    dataset: str,
    *,
    methods: tuple[str, ...] = (),
    ks: tuple[str, ...] = (),
    every: bool = False,
    snapshot: str = "",
) -> RunOptions:
    """Return the options of a run that makes k-anonymous tables of a data set.

    methods, ks   empty for the first method, and for all declared K
    every         whether all methods run
    snapshot      id of the snapshot; empty for the current one

    DeclarationError for a data set without k-anonymous releases, a method or K that is not
    declared, ``every`` with ``methods``, a text that is no id of a snapshot, and sensitive rows
    with several declared K but no ``ks``.
    """
    from dp_pipeline.config.catalogue import find_spec
    from dp_pipeline.raw.snapshot import check_snapshot_id
    from dp_pipeline.releases.home import find_home
    from dp_pipeline.releases.k_anonymous_release import (
        KAnonymousRelease,
        declared_k_anonymity,
        declared_method,
    )
    from dp_pipeline.releases.run_options import RunOptions

    spec = find_spec(dataset)
    declared = declared_k_anonymity(spec)
    names = tuple(declared.methods)
    if every and methods:
        raise DeclarationError(
            f"{spec.name}: --all runs every method, so --method {methods[0]!r} cannot be used "
            "with it: leave one out"
        )
    chosen = names if every else tuple(dict.fromkeys(methods)) or names[:1]
    for name in chosen:
        declared_method(spec, name)
    if spec.is_release and not ks and len(declared.partitions) > 1:
        raise DeclarationError(
            f"{spec.name}: --k must name one or more of {', '.join(declared.partition_keys)}, as "
            "tables of sensitive rows at several K together reveal more than each alone"
        )
    listed = sorted({declared.partition(text, of=spec.name) for text in ks}) or declared.partitions
    if snapshot:
        check_snapshot_id(snapshot)
    levels = list(map(str, listed))
    return RunOptions(spec, KAnonymousRelease, chosen, levels, find_home(), snapshot=snapshot)


DEMO = ("wdbc", "census", "trips")
DEMO_ANONYMOUS = {"wdbc": "5"}
"""Data set → K of the k-anonymous table that the demo makes of it."""


@click.command()
@request_options
@READER
@QUIET
@CUSTODIAN
def run(dataset: str, reader: Reader, quiet: bool, custodian: bool, **options: Any) -> None:
    """Release a data set by its models, evaluate and report them."""
    from dp_pipeline.releases.run_options import parse_request

    (result,) = _execute_all([parse_request(dataset, **options)], quiet=quiet)
    _show_result(result, reader, custodian=custodian)


@click.command()
@DATASET
@MODELS
@EPSILONS
@click.option("--rows", type=click.IntRange(min=1), default=None, help="How many rows to draw.")
@click.option("--like", default="", help="Draw rows after the newest release of this model.")
@READER
@QUIET
def rehearse(
    dataset: str, rows: int | None, like: str, reader: Reader, quiet: bool, **options: Any
) -> None:
    """Run a data set's whole chain over made-up rows, for nothing.

    The rows are drawn from the declaration. Ledger, rows and releases of the project are not
    touched. Every page, card and export says that it is a rehearsal.
    """
    from dp_pipeline.cli import released
    from dp_pipeline.config.catalogue import find_spec
    from dp_pipeline.releases import rehearsal

    def execute(request: RunOptions) -> RunResult:
        return _execute_all([request], quiet=quiet)[0]

    result, folder = rehearsal.rehearse(
        find_spec(dataset), execute, rows=rows or 0, like=like, **options
    )
    reader.print_output(
        lambda: {**released.result_document(result), "rehearsal": True, "export": str(folder)},
        lambda: released.print_result(result),
    )
    reader.note(f"exports: {folder}")
    words = "a rehearsal: its rows are drawn, and its charges stand in a ledger of its own alone"
    reader.note(words)


@click.command()
@READER
@QUIET
@CUSTODIAN
def demo(reader: Reader, quiet: bool, custodian: bool) -> None:
    """Release three built-in data sets, one also k-anonymous."""
    from dp_pipeline.cli import released
    from dp_pipeline.releases.run_options import parse_request

    requests = [parse_request(name) for name in DEMO]
    anonymous_requests = [anonymize_options(name, ks=(k,)) for name, k in DEMO_ANONYMOUS.items()]
    results = _execute_all([*requests, *anonymous_requests], quiet=quiet)
    runs, tables = results[: len(requests)], results[len(requests) :]
    reader.print_output(
        lambda: {
            "runs": [released.result_document(result) for result in runs],
            "k_anonymous": [released.result_document(result) for result in tables],
        },
        lambda: released.print_results(results),
    )
    for result in results:
        released.print_failed_checks(result.failing_spec, result.failed_checks, custodian=custodian)


@click.command()
@DATASET
@EPSILONS
@WINDOW
@READER
@QUIET
def backfill(
    dataset: str, epsilons: tuple[str, ...], windows: str, reader: Reader, quiet: bool
) -> None:
    """Let the running Dagster release all of a data set.

    It releases every model at every ε, one run an ε; where rows are partitioned into windows, what
    is published of each window, one run a window. It shows the cost first, and refuses what does
    not fit.
    """
    from dp_pipeline.orchestration.instance import dagster_instance
    from dp_pipeline.orchestration.jobs import require_daemon, submit_backfill
    from dp_pipeline.orchestration.partitions import partition_key
    from dp_pipeline.releases.run_options import parse_request
    from dp_pipeline.releases.run_plan import plan_run
    from dp_pipeline.reporting.text import progress

    options = parse_request(dataset, epsilons=epsilons, windows=windows)
    partitions = list(options.levels)
    if options.windows:
        if epsilons:
            raise DeclarationError(
                f"{options.spec.name}: --epsilon cannot be used in a backfill over windows, "
                "which releases the models that `publish` lists: leave it out, or use "
                "`dp-pipeline run`"
            )
        partitions = [partition_key(options.spec.time_windows, name) for name in options.windows]
    planned = plan_run(options)
    reader.print_output(
        lambda: {**plan_document(planned), "runs": partitions}, lambda: print_plan(planned)
    )
    planned.require_budget()
    with dagster_instance(options.home) as instance:
        require_daemon(instance, now=time.time())
    with progress(1, quiet=quiet) as on_step:
        on_step(f"{dataset}: Dagster reads the definitions once more, which takes a while")
        submit_backfill(options.spec, partitions)
    reader.note(
        f"{len(partitions)} runs wait in Dagster: its page Runs shows them. The same command "
        "starts a failed run again; a finished release costs nothing. The report is renewed at "
        "their end."
    )


@click.command("roll-up")
@DATASET
@MODELS
@WINDOW
@READER
def roll_up(dataset: str, models: tuple[str, ...], windows: str, reader: Reader) -> None:
    """Add up the releases of several windows, at no cost.

    The windows are such as the weeks of a month; a file is written for each model. The releases are
    public already; the noise of the sum is shown alongside it.
    """
    from dp_pipeline.config.catalogue import find_spec
    from dp_pipeline.releases.epsilon_release import EpsilonRelease
    from dp_pipeline.releases.roll_up import write_roll_up
    from dp_pipeline.releases.run_options import parse_request

    spec = find_spec(dataset)
    if spec.windows is None:
        raise DeclarationError(
            f"{dataset} has no `windows`, so there is nothing to add up: choose another data set"
        )
    options = parse_request(spec, models=models, windows=windows)
    releases = [each for each in options.releases if isinstance(each, EpsilonRelease)]
    of_models = {name: [each for each in releases if each.name == name] for name in options.names}
    files = {name: str(write_roll_up(of_model)) for name, of_model in of_models.items()}
    reader.print_output(
        lambda: {"dataset": dataset, "windows": list(options.windows), "files": files},
        lambda: click.echo("\n".join(f"{name}: {path}" for name, path in files.items())),
    )
