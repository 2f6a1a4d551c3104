"""`dp-pipeline`: run, anonymize, plan, budget, data, demo, study. Heavy packages are imported by
the command that needs them: ``--help`` and ``budget`` start at once.

Exit codes: 0 done, 1 failed, 2 wrong use, 3 budget refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline import __version__
from dp_pipeline.orchestration.anonymize_command import anonymity_line, anonymize
from dp_pipeline.schema.errors import PipelineError
from dp_pipeline.studies.commands import study

if TYPE_CHECKING:
    from dp_pipeline.orchestration.plan import Plan, PlannedRelease
    from dp_pipeline.orchestration.request import RunRequest

DEMO = ("wdbc", "census", "trips")
DEMO_ANONYMOUS = {"wdbc": "5"}
"""Data set → K of the k-anonymous table that the demo makes of it."""


class OneLineErrors(click.Group):
    """A group whose commands say what went wrong in one line, with the exit code of its kind."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a PipelineError becomes its line on stderr."""
        try:
            return super().invoke(ctx)
        except PipelineError as error:
            click.echo(f"dp-pipeline: {' '.join(str(error).split())}", err=True)
            ctx.exit(error.exit_code)


def _request_options(command: Callable[..., None]) -> Callable[..., None]:
    """What `run` does and `plan` foretells: the same words for both."""
    options = (
        click.argument("dataset"),
        click.option("--model", "models", multiple=True, help="Only this model; may be repeated."),
        click.option("--epsilon", "epsilons", multiple=True, help="Only this ε; may be repeated."),
        click.option("--fresh", is_flag=True, help="Draw once more, at the full price."),
        click.option("--snapshot", default="", help="Open a new snapshot under this name."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dp-pipeline")
def main() -> None:
    """Publish sensitive tables and locations with differential privacy."""


main.add_command(study)
main.add_command(anonymize)


@main.command()
@_request_options
def run(dataset: str, **options: Any) -> None:
    """Run the chain of DATASET: rows, models, evaluation, report."""
    _run([_request(dataset, **options)])


@main.command()
@click.pass_context
def demo(context: click.Context) -> None:
    """Run three example data sets, one k-anonymously too, and print what was released."""
    _run([_request(name) for name in DEMO])
    for name, k in DEMO_ANONYMOUS.items():
        context.invoke(anonymize, dataset=name, ks=(k,))


@main.command()
@_request_options
def plan(dataset: str, **options: Any) -> None:
    """Show what `run` would cost: asked, spent, left, ceiling. Nothing is read or charged."""
    from dp_pipeline.orchestration.plan import plan_request

    planned = plan_request(_request(dataset, **options))
    _print_plan(planned)
    if planned.spec.k_anonymity is not None:
        click.echo(anonymity_line(planned.spec))
    planned.require_budget()


@main.command()
@click.argument("dataset", required=False)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable, exact text amounts.")
def budget(dataset: str | None, as_json: bool) -> None:
    """Show what every lineage, or DATASET's, has spent over all runs."""
    from dp_pipeline.ledger.home import find_home
    from dp_pipeline.orchestration.budgets import budgets

    accounts = budgets(find_home().ledger, dataset)
    if as_json:
        click.echo(json.dumps([one.texts() for one in accounts], indent=1))
        return
    from dp_pipeline.reporting.terminal import print_table

    columns = ["lineage", "releases", "not-dp", "spent", "left", "ceiling"]
    print_table("Privacy budgets (ε)", columns, [one.cells() for one in accounts])


@main.group()
def data() -> None:
    """Data sets: list them, check a file."""


@data.command("list")
def data_list() -> None:
    """List the data sets that can be run here, and those that need something."""
    from dp_pipeline.reporting.terminal import print_table
    from dp_pipeline.schema.discovery import dataset_files, is_available
    from dp_pipeline.schema.parser import load_spec

    specs = [load_spec(path) for path in dataset_files().values()]
    rows = [
        [
            spec.name,
            spec.purpose,
            str(spec.protection),
            _first_of(tuple(spec.models)),
            "yes" if is_available(spec) else f"needs {spec.source.needs}",
        ]
        for spec in specs
    ]
    print_table("Data sets", ["name", "purpose", "protected unit", "models", "available"], rows)
    anonymous = [spec.name for spec in specs if spec.k_anonymity is not None]
    click.echo(f"k-anonymous too, by `anonymize`, without any ε: {', '.join(anonymous)}")


def _first_of(names: tuple[str, ...]) -> str:
    """One or two names; of more the first, and how many others there are."""
    return " ".join(names) if len(names) < 3 else f"{names[0]} + {len(names) - 1}"


@data.command("check")
@click.argument("file", type=click.Path(path_type=Path))
def data_check(file: Path) -> None:
    """Check a data set file: declarations, models, k-anonymous methods and their parameters.
    Reads no rows.
    """
    from dp_pipeline.models import build_model, price_of_everything
    from dp_pipeline.models.base import declared_claim
    from dp_pipeline.orchestration.declared_methods import require_methods
    from dp_pipeline.schema.parser import load_spec

    spec = load_spec(file)
    require_methods(spec)
    claims = {
        name: [declared_claim(spec, build_model(spec, name), one) for one in spec.partitions]
        for name in spec.models
    }
    total = spec.currency.text(price_of_everything(spec))
    click.echo(f"{file}: a good declaration; all models at all ε cost {total}")
    without = [name for name, found in claims.items() if not all(one.is_dp for one in found)]
    if without:
        click.echo(f"not differentially private: {', '.join(without)}")
    if spec.k_anonymity is not None:
        click.echo(anonymity_line(spec))


def _request(
    dataset: str,
    *,
    models: tuple[str, ...] = (),
    epsilons: tuple[str, ...] = (),
    fresh: bool = False,
    snapshot: str = "",
) -> RunRequest:
    from dp_pipeline.ledger.home import find_home, noise_name
    from dp_pipeline.models import build_model
    from dp_pipeline.orchestration.declared_methods import require_methods
    from dp_pipeline.orchestration.request import RunRequest
    from dp_pipeline.raw.snapshot import check_snapshot_id
    from dp_pipeline.schema.discovery import find_spec

    spec = find_spec(dataset)
    require_methods(spec)
    chosen = tuple(dict.fromkeys(models)) or tuple(spec.models)
    for name in chosen:
        build_model(spec, name)
    listed = tuple(sorted({spec.partition(text) for text in epsilons})) or spec.partitions
    if snapshot:
        check_snapshot_id(snapshot)
    return RunRequest(spec, chosen, listed, find_home(), noise_name(), fresh, snapshot)


def _run(requests: list[RunRequest]) -> None:
    """Run every request with a progress bar on a terminal, then print what came of it."""
    from dp_pipeline.orchestration.runner import run_dataset, step_count
    from dp_pipeline.reporting.terminal import progress

    with progress(sum(step_count(request) for request in requests)) as on_step:
        for request in requests:
            run_dataset(request, on_step)
    for request in requests:
        _print_outcome(request)


def _print_plan(planned: Plan) -> None:
    from dp_pipeline.reporting.terminal import print_table
    from dp_pipeline.schema.epsilon import epsilon_text

    rows = [
        [one.model, epsilon_text(one.epsilon), one.state, epsilon_text(one.cost), *_size(one)]
        for one in planned.releases
    ]
    currency = planned.spec.currency
    cost = "cost" if currency.delta is None else f"cost ({currency.symbol})"
    columns = ["model", "ε", "state", cost, "cells at most", "MB at most"]
    if not planned.has_tables:
        columns, rows = columns[:-2], [row[:-2] for row in rows]
    print_table(f"Plan of {planned.spec.name}", columns, rows)
    amounts = {"asked": planned.asked, "spent": planned.spent}
    texts = {name: currency.text(one) for name, one in amounts.items()}
    for name, limit in {"left": planned.left, "ceiling": planned.ceiling}.items():
        texts[name] = "no limit" if limit is None else currency.text(limit)
    click.echo(", ".join(f"{name} {text}" for name, text in texts.items()))


def _size(planned: PlannedRelease) -> tuple[str, str]:
    """Cells and memory of a table, as text; dashes where the model releases none."""
    from dp_pipeline.reporting.number_text import number_text

    cells, megabytes = planned.cells, planned.megabytes
    if cells is None or megabytes is None:
        return "–", "–"
    return f"{cells:,}", number_text(megabytes)


def _print_outcome(request: RunRequest) -> None:
    from dp_pipeline.orchestration.outcome import outcomes, report_path
    from dp_pipeline.reporting.metric import metric_named
    from dp_pipeline.reporting.rows import MOST_METRICS, metrics_of
    from dp_pipeline.reporting.terminal import print_table
    from dp_pipeline.schema.epsilon import NANO

    found = list(outcomes(request))
    metrics = metrics_of(row for one in found for row in one.quality)[:MOST_METRICS]
    shorts = [metric_named(metric).short for metric in metrics]
    currency = request.spec.currency
    charge = "charged now" if currency.delta is None else f"charged now ({currency.symbol})"
    columns = ["model", "ε", *shorts, "ε spent", charge, "state"]
    print_table(request.spec.title, columns, [one.cells(metrics) for one in found])
    # Of the model that is declared first, at the largest ε: the report shows the others.
    first = next((one for one in found[-len(request.models) :] if one.centres()), None)
    if first is not None:
        title = f"Centres of {first.bundle.model} at ε={first.bundle.facts['epsilon']}"
        print_table(title, *first.centre_table())
    charged = Fraction(sum(one.charged for one in found), NANO)
    click.echo(f"charged by this run: {currency.text(charged)}")
    click.echo(f"report: {report_path(request)}")


if __name__ == "__main__":
    main()
