"""`dp-pipeline run`, `demo`, `plan`, `backfill`, `roll-up` and `anonymize`: commands that release.

``run`` and ``anonymize`` release in this process, ``backfill`` asks the Dagster that is running,
``plan`` says what a run would cost. All of them, and `data check`, make the same request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.publish.asking import requested
from dp_pipeline.spec.errors import DeclarationError

if TYPE_CHECKING:
    from dp_pipeline.orchestration.runner import Ran
    from dp_pipeline.publish.request import Plan, PlannedRelease, RunRequest
    from dp_pipeline.spec.dataset import DatasetSpec

MOST_CARDS = 6
"""Whose paths are printed: those of one method at the K of the papers."""


@click.command()
@click.argument("dataset")
@click.option("--method", "methods", multiple=True, help="This method; may be repeated.")
@click.option("--k", "ks", multiple=True, help="Only this K; may be repeated.")
@click.option("--all", "every", is_flag=True, help="Every method that the data set declares.")
@click.option("--snapshot", default="", help="Open a new snapshot under this name.")
def anonymize(dataset: str, **options: Any) -> None:
    """Release DATASET k-anonymously, without any ε.

    By its first method, at every K of public rows. This is not differential privacy. Of
    sensitive rows the K has to be named: two releases tell more than each.
    """
    from dp_pipeline.orchestration.runner import run_dataset, step_count
    from dp_pipeline.reporting.text import progress

    request = _anonymize_request(dataset, **options)
    with progress(step_count(request)) as on_step:
        ran = run_dataset(request, on_step)
    _print_k_anonymous(request, ran.levels)
    print_failed_checks(request.spec, ran.failed_checks)


def print_failed_checks(spec: DatasetSpec, names: Sequence[str]) -> None:
    """One line on stderr for the steward, who prepared the rows; nothing where all checks passed.

    Names of expectations and columns alone: no value and no number of rows.
    """
    if names:
        click.echo(
            f"{spec.name}: the rows fail {', '.join(names)}; this stopped nothing, and is for the "
            f"steward alone (`dp-pipeline data docs {spec.name}` writes what is expected)",
            err=True,
        )


def k_anonymity_line(spec: DatasetSpec) -> str:
    """The k-anonymous releases that a data set file declares, in a line."""
    from dp_pipeline.publish.k_anonymous_release import declared_k_anonymity

    declared = declared_k_anonymity(spec)
    methods, ks = ", ".join(declared.methods), ", ".join(declared.partition_keys)
    return f"k-anonymous, by `anonymize`, without any ε: {methods} at K = {ks}"


def _anonymize_request(
    dataset: str, *, methods: tuple[str, ...], ks: tuple[str, ...], every: bool, snapshot: str
) -> RunRequest:
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


def _print_k_anonymous(request: RunRequest, ran: Sequence[str]) -> None:
    from dp_pipeline.publish.k_anonymous_release import CARD
    from dp_pipeline.publish.outcome import COLUMNS, outcomes, report_path
    from dp_pipeline.reporting.text import print_table

    found = sorted(
        outcomes(request, ran=ran), key=lambda one: request.names.index(one.release.name)
    )
    title = f"{request.spec.title}: k-anonymous, not differentially private"
    print_table(title, COLUMNS, [one.k_anonymous_cells() for one in found])
    click.echo(
        "columns: kept beside the label; smallest: rows of the smallest class; one label: rows in "
        "classes that tell their label; left out: rows."
    )
    click.echo(
        "This is no differential privacy: what is kept was chosen by looking at the rows, and two "
        "releases of the same rows can be intersected. The ledger has recorded each as not-dp."
    )
    for one in found[:MOST_CARDS]:
        click.echo(f"card of {one.release.name} at K={one.release.level}: {one.folder / CARD}")
    if len(found) > MOST_CARDS:
        click.echo(f"cards of {len(found) - MOST_CARDS} more: card.md beside each release")
    click.echo(f"page: {report_path(request)}")


WINDOW = click.option(
    "--window",
    "--windows",
    "windows",
    default="",
    help="Of rows that are cut into windows: one, or FIRST..LAST; the newest that is over if none.",
)


def request_options(command: Callable[..., None]) -> Callable[..., None]:
    """What `run` does and `plan` foretells: the same words for both."""
    options = (
        click.argument("dataset"),
        click.option("--model", "models", multiple=True, help="Only this model; may be repeated."),
        click.option("--epsilon", "epsilons", multiple=True, help="Only this ε; may be repeated."),
        click.option("--new-draw", is_flag=True, help="Draw once more, at the full price."),
        click.option(
            "--refine",
            default="",
            help="Refine the release at this smaller ε, or at the `previous` one, and pay what is "
            "between the two.",
        ),
        click.option("--snapshot", default="", help="Open a new snapshot under this name."),
        WINDOW,
        click.option(
            "--span", type=int, default=0, help="Release so many windows together, up to each."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


DEMO = ("wdbc", "census", "trips")
DEMO_ANONYMOUS = {"wdbc": "5"}
"""Data set → K of the k-anonymous table that the demo makes of it."""


@click.command()
@request_options
def run(dataset: str, **options: Any) -> None:
    """Run the chain of DATASET: rows, models, evaluation, report."""
    _run([requested(dataset, **options)])


@click.command()
@click.pass_context
def demo(context: click.Context) -> None:
    """Run three example data sets, one k-anonymously too, and print what was released."""
    _run([requested(name) for name in DEMO])
    for name, k in DEMO_ANONYMOUS.items():
        context.invoke(anonymize, dataset=name, ks=(k,))


def _run(datasets: list[list[RunRequest]]) -> None:
    """Run the requests of each data set with a progress bar on a terminal, then print what came of
    them.
    """
    from dp_pipeline.orchestration.runner import run_dataset, run_windows, step_count
    from dp_pipeline.reporting.text import progress

    with progress(sum(step_count(one) for requests in datasets for one in requests)) as on_step:
        results = [
            run_windows(requests, on_step)
            if requests[0].spec.window
            else [run_dataset(requests[0], on_step)]
            for requests in datasets
        ]
    for requests, ran in zip(datasets, results, strict=True):
        _print_outcome(requests, ran)
        names = tuple(dict.fromkeys(name for one in ran for name in one.failed_checks))
        print_failed_checks(requests[0].spec, names)


def _print_outcome(requests: Sequence[RunRequest], results: Sequence[Ran]) -> None:
    from dp_pipeline.publish.account import limits_word
    from dp_pipeline.publish.outcome import outcomes, report_path
    from dp_pipeline.reporting.metrics import MOST_METRICS, metric_named, metrics_of
    from dp_pipeline.reporting.text import print_table
    from dp_pipeline.spec.amounts import NANO
    from dp_pipeline.spec.discovered import discovery_words
    from dp_pipeline.spec.windows import range_text

    request, discovery = requests[-1], sum(one.discovery for one in results)
    found = [
        one
        for asked, ran in zip(requests, results, strict=True)
        for one in outcomes(asked, ran=ran.levels)
    ]
    metrics = metrics_of(row for one in found for row in one.quality)[:MOST_METRICS]
    shorts = [metric_named(metric).short for metric in metrics]
    currency = request.spec.currency
    charge = "charged now" if currency.delta is None else f"charged now ({currency.symbol})"
    columns = ["model", "ε", *shorts, "ε spent", charge, "state"]
    named = [[range_text(one.release.windows)] if one.release.windows else [] for one in found]
    cells = [[*name, *one.cells(metrics)] for name, one in zip(named, found, strict=True)]
    columns = [*(["window"] if request.spec.window else []), *columns]
    print_table(request.spec.title, columns, cells)
    # Of the model that is declared first, at the largest ε: the report shows the others.
    first = next((one for one in found[-len(request.names) :] if one.has_centres), None)
    if first is not None:
        title = f"Centres of {first.bundle.model} at ε={first.bundle.facts['epsilon']}"
        print_table(title, *first.centre_table())
    for line in (text for one in found for text in one.warnings):
        click.echo(f"warning: {line}")
    if request.discovery is not None:
        price = discovery_words(request.spec.to_discover, request.discovery.asked)
        paid = "charged by this run" if discovery else "paid before, nothing charged"
        click.echo(f"discovered: {price}; {paid}")
    charged = Fraction(sum(one.charged for one in found) + discovery, NANO)
    click.echo(f"charged by this run: {currency.text(charged)}")
    word = limits_word(request.spec, request.home)
    if word:
        click.echo(word)
    click.echo(f"report: {report_path(request)}")


@click.command()
@request_options
def plan(dataset: str, **options: Any) -> None:
    """Show what `run` would cost: asked, spent, left, ceiling. Nothing is read or charged."""
    from dp_pipeline.publish.request import plan_request, refined_cost, require_budget_of_all

    requests = requested(dataset, **options)
    planned = [plan_request(one) for one in requests]
    print_plans(planned)
    in_steps = refined_cost(requests[0]) if len(requests) == 1 else None
    if in_steps is not None and in_steps < planned[0].asked:
        text = planned[0].spec.currency.text(in_steps)
        click.echo(f"each from the one before by `--refine previous`: {text} in place of that")
    if planned[0].spec.k_anonymity is not None:
        click.echo(k_anonymity_line(planned[0].spec))
    require_budget_of_all(planned)


def print_plans(plans: Sequence[Plan]) -> None:
    """The one plan, or a line a window and what all of them ask for."""

    if len(plans) == 1:
        print_plan(plans[0])
        return
    print_windows(plans)
    if plans[0].word:
        click.echo(plans[0].word)


def print_windows(plans: Sequence[Plan]) -> None:
    """A line for each window that a release is of: all that would be charged to it."""
    from dp_pipeline.publish.request import windows_of
    from dp_pipeline.reporting.text import print_table

    spec, currency = plans[0].spec, plans[0].spec.currency
    rows, windows = [], windows_of(plans)
    for window, balance in windows.items():
        own = [one for plan in plans for one in plan.releases if window in one.windows]
        states = ", ".join(dict.fromkeys(one.state for one in own))
        cost = sum((one.cost for one in own), Fraction(0))
        left = "no limit" if balance.left is None else currency.text(balance.left)
        rows.append([window, states, currency.text(cost), left])
    print_table(f"Plan of {spec.name}, {len(windows)} windows", WINDOW_COLUMNS, rows)
    asked = sum((one.asked for one in plans), Fraction(0))
    ceiling = plans[0].balance.ceiling
    limit = "no total" if ceiling is None else f"a total of {currency.text(ceiling)}"
    click.echo(f"asked {currency.text(asked)} of all windows together, under {limit}")


WINDOW_COLUMNS = ("window", "state", "asked", "left")


def print_plan(planned: Plan) -> None:
    """A line a release, and what the account has."""
    from dp_pipeline.reporting.text import print_table
    from dp_pipeline.spec.amounts import epsilon_text
    from dp_pipeline.spec.errors import float_text

    rows = [
        [one.model, epsilon_text(one.epsilon), one.state, epsilon_text(one.cost), *_size(one)]
        for one in planned.releases
    ]
    currency = planned.spec.currency
    cost = "cost" if currency.delta is None else f"cost ({currency.symbol})"
    if len(planned.windows) > 1:
        cost = f"{cost} of each window"
    columns = ["model", "ε", "state", cost, "cells at most", "MB at most"]
    if not planned.has_tables:
        columns, rows = columns[:-2], [row[:-2] for row in rows]
    title = " ".join(("Plan of", planned.spec.name, *planned.spec.blocks))
    print_table(title, columns, rows)
    if len(planned.windows) > 1:
        print_windows([planned])
    texts = {
        name: "no limit" if amount is None else currency.text(amount)
        for name, amount in planned.amounts.items()
    }
    click.echo(", ".join(f"{name} {text}" for name, text in texts.items()))
    word = planned.balance.delta_word
    if planned.delta or word:
        asked = float_text(planned.delta)
        click.echo(f"δ of discovered levels: asked {asked}{f', {word}' if word else ''}")
    if planned.word:
        click.echo(planned.word)


def _size(planned: PlannedRelease) -> tuple[str, str]:
    """Cells and memory of a table, as text; dashes where the model releases none."""
    from dp_pipeline.reporting.text import number_text

    cells, megabytes = planned.cells, planned.megabytes
    if cells is None or megabytes is None:
        return "–", "–"
    return f"{cells:,}", number_text(megabytes)


@click.command()
@click.argument("dataset")
@click.option("--epsilon", "epsilons", multiple=True, help="Only this ε; may be repeated.")
@WINDOW
def backfill(dataset: str, epsilons: tuple[str, ...], windows: str) -> None:
    """Let the running Dagster release DATASET with every model at every ε, one run an ε; where
    rows are cut, all that is published of each window, one run a window. Shows what it costs
    first, and refuses what does not fit.
    """
    from dp_pipeline.orchestration.common import partition_key
    from dp_pipeline.orchestration.instance import dagster_instance
    from dp_pipeline.orchestration.jobs import require_daemon, submit_backfill
    from dp_pipeline.publish.request import plan_request, require_budget_of_all

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
    print_plans(planned)
    require_budget_of_all(planned)
    with dagster_instance(request.home) as instance:
        require_daemon(instance, now=time.time())
    click.echo("Dagster reads the definitions once more, which takes a while …")
    submit_backfill(request.spec, request.home, partitions)
    click.echo(
        f"{len(partitions)} runs wait in Dagster: its page Runs shows them. A run that "
        "fails is begun again by the same command; what is released by then costs nothing."
    )


@click.command("roll-up")
@click.argument("dataset")
@click.option("--model", "models", multiple=True, help="Only this model; may be repeated.")
@WINDOW
def roll_up(dataset: str, models: tuple[str, ...], windows: str) -> None:
    """Add up what was released of the windows of DATASET, such as the weeks of a month. It is
    public already, so it costs nothing; the noise of the sum stands beside it.
    """
    from dp_pipeline.publish.epsilon_release import EpsilonRelease
    from dp_pipeline.publish.roll_up import write_roll_up

    requests = requested(dataset, models=models, windows=windows)
    if not requests[0].spec.window:
        raise DeclarationError(f"{dataset}: expected rows that are cut by `windows`, got none")
    for name in requests[0].names:
        every = [one for request in requests for one in request.releases]
        releases = [one for one in every if isinstance(one, EpsilonRelease) and one.name == name]
        click.echo(f"{name}: {write_roll_up(releases)}")
