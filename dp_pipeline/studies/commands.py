"""`dp-pipeline study`: one command a study. What a study needs is imported when it is run."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def study() -> None:
    """Studies: what the papers claim, measured again on benchmark data."""


@study.command("clustering")
@click.option(
    "--dataset", "datasets", multiple=True, required=True, help="A benchmark; may be repeated."
)
@click.option("--system", "systems", multiple=True, help="Only this system; may be repeated.")
@click.option(
    "--epsilon", "epsilons", multiple=True, help="May be repeated; else those the data set lists."
)
@click.option(
    "--repeats", type=click.IntRange(1, 100_000), default=30, help="Of each system at each ε: 30."
)
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=1, help="Processes; results are the same."
)
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for results, pictures and report.md.",
)
def study_clustering(
    datasets: tuple[str, ...],
    systems: tuple[str, ...],
    epsilons: tuple[str, ...],
    repeats: int,
    jobs: int,
    out: Path,
) -> None:
    """Compare private k-means systems over ε: tables, pictures, verdicts on the papers' claims.

    The same command again goes on where it was stopped; other settings add to the folder.
    """
    from dp_pipeline.ledger.home import find_home
    from dp_pipeline.schema.discovery import find_spec
    from dp_pipeline.schema.epsilon import parse_epsilon
    from dp_pipeline.schema.errors import PipelineError
    from dp_pipeline.studies.clustering.study import ClusteringStudy
    from dp_pipeline.studies.clustering.systems import find_systems

    request = ClusteringStudy(
        specs=tuple(find_spec(name) for name in dict.fromkeys(datasets)),
        systems=find_systems(systems),
        epsilons=tuple(sorted({parse_epsilon(text, of="--epsilon") for text in epsilons})),
        repeats=repeats,
        folder=out,
        ledger=find_home().ledger,
        jobs=jobs,
    )
    try:
        click.echo(f"report: {request.run()}")
    except KeyboardInterrupt:
        raise PipelineError(f"{out}: stopped; the same command goes on from here") from None
