"""`dp-pipeline run`, `anonymize`, `demo`, `backfill` and `roll-up`: commands that release.

``run`` releases in this process, ``backfill`` asks the Dagster that is running. ``anonymize`` makes
k-anonymous tables, which have no ε, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.cli.options import (
    CUSTODIAN,
    DATASET,
    EPSILONS,
    MODELS,
    QUIET,
    READER,
    WINDOW,
    Document,
    Reader,
    ks,
    method_names,
    request_options,
)
from dp_pipeline.cli.plan import plan_document, print_plans
from dp_pipeline.cli.released import ReleasedRun, print_failed_checks, quality_document
from dp_pipeline.publish.asking import requested
from dp_pipeline.spec.errors import DeclarationError

if TYPE_CHECKING:
    from dp_pipeline.orchestration.runner import OnStep
    from dp_pipeline.publish.epsilon_release import EpsilonRelease
    from dp_pipeline.publish.outcome import Outcome
    from dp_pipeline.publish.request import RunRequest
    from dp_pipeline.spec.dataset import DatasetSpec


MOST_CARDS = 6
"""Whose paths are printed: those of one method at the K of the papers."""


@click.command()
@DATASET
@click.option(
    "--method",
    "methods",
    multiple=True,
    shell_complete=method_names,
    help="This method; may be repeated.",
)
@click.option("--k", "ks", multiple=True, shell_complete=ks, help="Only this K; may be repeated.")
@click.option("--all", "every", is_flag=True, help="Every method that the data set declares.")
@click.option("--snapshot", default="", help="Open a new snapshot under this name.")
@READER
@QUIET
@CUSTODIAN
def anonymize(dataset: str, reader: Reader, quiet: bool, custodian: bool, **options: Any) -> None:
    """Release DATASET k-anonymously, without any ε.

    By its first method, at every K of public rows. This is not differential privacy. Of
    sensitive rows the K has to be named: two releases tell more than each.
    """
    request = anonymize_request(dataset, **options)
    with _steps([request], quiet=quiet) as on_step:
        ran = AnonymizedRun.of(request, on_step)
    reader.answer(ran.document, ran.page)
    print_failed_checks(request.spec, ran.failed_checks, custodian=custodian)


def _steps(requests: Sequence[RunRequest], *, quiet: bool) -> AbstractContextManager[OnStep]:
    """What all of them do, shown step by step."""
    from dp_pipeline.orchestration.runner import step_count
    from dp_pipeline.reporting.text import progress

    return progress(sum(map(step_count, requests)), quiet=quiet)


def anonymize_request(
    dataset: str,
    *,
    methods: tuple[str, ...] = (),
    ks: tuple[str, ...] = (),
    every: bool = False,
    snapshot: str = "",
) -> RunRequest:
    """The request that the options make; DeclarationError for what is not declared."""
    from dp_pipeline.publish.home import find_home
    from dp_pipeline.publish.k_anonymous_release import (
        KAnonymousRelease,
        declared_k_anonymity,
        declared_method,
    )
    from dp_pipeline.publish.request import RunRequest
    from dp_pipeline.raw.snapshot import check_snapshot_id
    from dp_pipeline.spec.discovery import find_spec

    spec = find_spec(dataset)
    declared = declared_k_anonymity(spec)
    known = tuple(declared.methods)
    if every and methods:
        raise DeclarationError(
            f"{spec.name}: --all: expected no --method beside it, got {methods[0]!r}"
        )
    chosen = known if every else tuple(dict.fromkeys(methods)) or known[:1]
    for name in chosen:
        declared_method(spec, name)
    if spec.is_release and not ks and len(declared.partitions) > 1:
        raise DeclarationError(
            f"{spec.name}: --k: expected one of {', '.join(declared.partition_keys)}: releases of "
            "sensitive rows at several K tell more than each, got none"
        )
    listed = sorted({declared.partition(text) for text in ks}) or declared.partitions
    if snapshot:
        check_snapshot_id(snapshot)
    levels = list(map(str, listed))
    return RunRequest(spec, KAnonymousRelease, chosen, levels, find_home(), snapshot=snapshot)


@dataclass(frozen=True)
class AnonymizedRun:
    """A request of k-anonymous tables, and what it came to.

    failed_checks   names of checks on rows that did not pass; for the custodian alone
    """

    request: RunRequest
    levels: tuple[str, ...]
    failed_checks: tuple[str, ...]

    @classmethod
    def of(cls, request: RunRequest, on_step: OnStep) -> AnonymizedRun:
        """Run it."""
        from dp_pipeline.orchestration.runner import run_dataset

        ran = run_dataset(request, on_step)
        return cls(request, ran.levels, ran.failed_checks)

    @property
    def spec(self) -> DatasetSpec:
        """The data set."""
        return self.request.spec

    @cached_property
    def _found(self) -> list[Outcome]:
        from dp_pipeline.publish.outcome import outcomes

        names = self.request.names
        with self.request.home.ledger.one_look():
            every = list(outcomes(self.request, ran=self.levels))
        return sorted(every, key=lambda one: names.index(one.release.name))

    def page(self) -> None:
        """Print the tables, what they do not promise, and where their cards are."""
        from dp_pipeline.publish.outcome import COLUMNS, report_path
        from dp_pipeline.reporting.text import print_table

        title = f"{self.spec.title}: k-anonymous, not differentially private"
        print_table(title, COLUMNS, [one.k_anonymous_cells() for one in self._found])
        click.echo(
            "columns: kept beside the label; smallest: rows of the smallest class; one label: rows "
            "in classes that tell their label; left out: rows."
        )
        click.echo(
            "This is no differential privacy: what is kept was chosen by looking at the rows, and "
            "two releases of the same rows can be intersected. The ledger has recorded each as "
            "not-dp."
        )
        for one in self._found[:MOST_CARDS]:
            click.echo(f"card of {one.release.name} at K={one.release.level}: {_card(one)}")
        if len(self._found) > MOST_CARDS:
            click.echo(
                f"cards of {len(self._found) - MOST_CARDS} more: card.md beside each release"
            )
        click.echo(f"page: {report_path(self.request)}")

    def document(self) -> Document:
        """The same for a program."""
        from dp_pipeline.publish.outcome import report_path

        return {
            "dataset": self.spec.name,
            "guarantee": "not-dp",
            "releases": [_release(one) for one in self._found],
            "page": str(report_path(self.request)),
        }


def _card(outcome: Outcome) -> str:
    from dp_pipeline.publish.k_anonymous_release import CARD

    return str(outcome.folder / CARD)


def _release(outcome: Outcome) -> dict[str, Any]:
    from dp_pipeline.publish.k_anonymous_tables import TableFacts

    return {
        "method": outcome.release.name,
        **vars(TableFacts.of(outcome.bundle)),
        "state": outcome.state,
        "quality": [quality_document(row) for row in outcome.quality],
        "key": outcome.bundle.key,
        "card": _card(outcome),
        "folder": str(outcome.folder),
    }


DEMO = ("wdbc", "census", "trips")
DEMO_ANONYMOUS = {"wdbc": "5"}
"""Data set → K of the k-anonymous table that the demo makes of it."""


@click.command()
@request_options
@READER
@QUIET
@CUSTODIAN
def run(dataset: str, reader: Reader, quiet: bool, custodian: bool, **options: Any) -> None:
    """Run the chain of DATASET: rows, models, evaluation, report."""
    requests = requested(dataset, **options)
    with _steps(requests, quiet=quiet) as on_step:
        ran = _released(requests, on_step)
    reader.answer(ran.document, ran.page)
    print_failed_checks(ran.failing, ran.failed_checks, custodian=custodian)


@click.command()
@READER
@QUIET
@CUSTODIAN
def demo(reader: Reader, quiet: bool, custodian: bool) -> None:
    """Run three example data sets, one k-anonymously too, and print what was released."""
    datasets = [requested(name) for name in DEMO]
    tables = [anonymize_request(name, ks=(k,)) for name, k in DEMO_ANONYMOUS.items()]
    requests = [*(one for dataset in datasets for one in dataset), *tables]
    with _steps(requests, quiet=quiet) as on_step:
        runs = [_released(dataset, on_step) for dataset in datasets]
        anonymized = [AnonymizedRun.of(request, on_step) for request in tables]
    reader.answer(lambda: _demo_document(runs, anonymized), lambda: _print_demo(runs, anonymized))
    every_run: tuple[ReleasedRun | AnonymizedRun, ...] = (*runs, *anonymized)
    for one in every_run:
        print_failed_checks(one.spec, one.failed_checks, custodian=custodian)


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
    from dp_pipeline.publish.request import plan_requests, require_budget_of_all
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
    planned = plan_requests(requests)
    reader.answer(
        lambda: {**plan_document(planned), "runs": partitions}, lambda: print_plans(planned)
    )
    require_budget_of_all(planned)
    with dagster_instance(request.home) as instance:
        require_daemon(instance, now=time.time())
    with progress(1, quiet=quiet) as on_step:
        on_step(f"{dataset}: Dagster reads the definitions once more, which takes a while")
        submit_backfill(request.spec, partitions)
    reader.note(
        f"{len(partitions)} runs wait in Dagster: its page Runs shows them. A run that "
        "fails is begun again by the same command; what is released by then costs nothing. The "
        "report is renewed when they are over."
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
