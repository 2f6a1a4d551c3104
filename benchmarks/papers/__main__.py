"""``python -m benchmarks.papers``: one command a study."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from benchmarks.papers import anonymity, clustering, shown, tables
from benchmarks.papers.report import FORMATS, draw_pictures, write_pictures
from benchmarks.papers.results import Summary
from benchmarks.papers.study import Study, select_systems
from dp_pipeline.cli import OneLineErrors
from dp_pipeline.config.amounts import parse_delta, parse_epsilon
from dp_pipeline.config.catalogue import find_spec
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.config.sections import parse_k
from dp_pipeline.metrics.classification import SCORERS
from dp_pipeline.releases.home import find_home


@click.group(cls=OneLineErrors)
def main() -> None:
    """Measure the papers' figures again on benchmark data: tables, pictures, verdicts on claims.

    The same command again goes on where it was stopped; other settings add to the folder.
    """


def _options(
    *, repeats: int, system: str = "--system", over: str = "--epsilon"
) -> Callable[..., Any]:
    """Add the options of every study.

    system, over   how what is compared, and the axis of the comparison, are called
    """
    number, folder = click.IntRange(1, 100_000), click.Path(file_okay=False, path_type=Path)
    many: dict[str, Any] = {"multiple": True}
    options = (
        click.option("--dataset", "datasets", required=True, help="A benchmark.", **many),
        click.option(system, "names", help="Only this; may be repeated.", **many),
        click.option(over, "levels", help="Else those that the data set lists.", **many),
        click.option("--repeats", type=number, default=repeats, show_default=True),
        click.option("--jobs", type=click.IntRange(1, 256), default=1, help="Processes."),
        click.option("--out", "folder", required=True, type=folder, help="For all files."),
    )

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _run(
    study: Callable[..., Study],
    *,
    datasets: tuple[str, ...],
    folder: Path,
    jobs: int,
    **fields: Any,
) -> None:
    specs = tuple(find_spec(name) for name in dict.fromkeys(datasets))
    requested = study(specs=specs, folder=folder, **fields)
    try:
        click.echo(f"report: {shown.run_study(requested, find_home().ledger, jobs=jobs)}")
    except KeyboardInterrupt:
        raise PipelineError(f"{folder}: stopped; the same command goes on from here") from None


def _epsilons(texts: tuple[str, ...]) -> tuple[Fraction, ...]:
    return tuple(sorted({parse_epsilon(text, of="--epsilon") for text in texts}))


@main.command("clustering")
@_options(repeats=30)
def run_clustering(names: tuple[str, ...], levels: tuple[str, ...], **fields: Any) -> None:
    """Compare private k-means systems over ε."""
    systems = select_systems(names, clustering.SYSTEMS)
    _run(clustering.ClusteringStudy, systems=systems, epsilons=_epsilons(levels), **fields)


@main.command("release")
@_options(repeats=10)
@click.option("--delta", default="1e-9", help="Of systems that promise (ε, δ): 1e-9.")
@click.option(
    "--classify/--no-classify",
    "teaches_classifiers",
    default=True,
    help="Teach classifiers the targets that data sets declare: the slower half.",
)
def run_release(names: tuple[str, ...], levels: tuple[str, ...], delta: str, **fields: Any) -> None:
    """Compare private tables over ε."""
    fields["systems"] = select_systems(names, tables.SYSTEMS)
    delta_ = parse_delta(delta, of="--delta")
    _run(tables.ReleaseStudy, epsilons=_epsilons(levels), delta=delta_, **fields)


@main.command("anonymity")
@_options(repeats=5, system="--method", over="--k")
@click.option(
    "--protocol",
    "protocols",
    type=click.Choice(["paper", "nested"]),
    multiple=True,
    default=("paper", "nested"),
    help="Selected once on all rows, or in each training fold: both.",
)
@click.option(
    "--scorer",
    "scorers",
    type=click.Choice(SCORERS),
    multiple=True,
    default=("logistic", "svm"),
    help="Who is taught: logistic and svm.",
)
def run_anonymity(names: tuple[str, ...], levels: tuple[str, ...], **fields: Any) -> None:
    """Compare k-anonymous tables over K."""
    fields["systems"] = select_systems(names, anonymity.SYSTEMS, noun="method")
    _run(anonymity.AnonymityStudy, partitions=tuple(sorted(map(parse_k, set(levels)))), **fields)


@main.command("draw")
@click.argument("study", type=click.Choice(list(shown.REPORTS)))
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--format", "kind", type=click.Choice(list(FORMATS)), default="svg")
def draw(study: str, folder: Path, kind: str) -> None:
    """Draw the figures of a study again from the summary.csv in FOLDER, for a paper or a page."""
    report = shown.REPORTS[study]
    summary = Summary.read(report.factors, folder / "summary.csv")
    write_pictures(folder, draw_pictures(report, summary), kind)
    click.echo(f"figures: {folder}")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.papers")
