"""`dp-pipeline study`: one command a study. What a study needs is imported when it is run."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from dp_pipeline.metrics.classification import Scorer
    from dp_pipeline.studies.study import Study


@click.group()
def study() -> None:
    """Studies: what the papers claim, measured again on benchmark data."""


def _options(
    *, repeats: int, system: str = "--system", over: str = "--epsilon", at: str = "ε"
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """What every study is asked.

    system, over   how what is compared, and the axis of the comparison, are called
    at             the letter of that axis
    """
    name, out = system.removeprefix("--"), click.Path(file_okay=False, path_type=Path)
    many: dict[str, Any] = {"multiple": True}
    options = (
        click.option(
            "--dataset", "datasets", required=True, help="A benchmark; may be repeated.", **many
        ),
        click.option(system, "systems", help=f"Only this {name}; may be repeated.", **many),
        click.option(
            over, "places", help="May be repeated; else those the data set lists.", **many
        ),
        click.option(
            "--repeats",
            type=click.IntRange(1, 100_000),
            default=repeats,
            help=f"Of each {name} at each {at}: {repeats}.",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(1, 256),
            default=1,
            help="Processes; results are the same.",
        ),
        click.option(
            "--out",
            "folder",
            required=True,
            type=out,
            help="A folder for results, pictures and report.md.",
        ),
    )

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


@study.command("clustering")
@_options(repeats=30)
def study_clustering(systems: tuple[str, ...], places: tuple[str, ...], **asked: Any) -> None:
    """Compare private k-means systems over ε: tables, pictures, verdicts on the papers' claims.

    The same command again goes on where it was stopped; other settings add to the folder.
    """
    from dp_pipeline.studies.clustering import SYSTEMS, ClusteringStudy
    from dp_pipeline.studies.study import named

    _run(
        ClusteringStudy(
            systems=named(systems, SYSTEMS), epsilons=_epsilons(places), **_shared(**asked)
        )
    )


@study.command("release")
@_options(repeats=10)
@click.option("--delta", default="1e-9", help="Of systems that promise (ε, δ): 1e-9.")
@click.option(
    "--classify/--no-classify",
    default=True,
    help="Teach classifiers the targets that data sets declare: the slower half.",
)
def study_release(
    systems: tuple[str, ...], places: tuple[str, ...], delta: str, classify: bool, **asked: Any
) -> None:
    """Compare private tables over ε: tables, pictures, verdicts on what was claimed.

    The same command again goes on where it was stopped; other settings add to the folder.
    """
    from dp_pipeline.spec.amounts import parse_delta
    from dp_pipeline.studies.study import named
    from dp_pipeline.studies.tables import SYSTEMS, ReleaseStudy

    _run(
        ReleaseStudy(
            systems=named(systems, SYSTEMS),
            epsilons=_epsilons(places),
            delta=parse_delta(delta, of="--delta"),
            classify=classify,
            **_shared(**asked),
        )
    )


@study.command("anonymity")
@_options(repeats=5, system="--method", over="--k", at="K")
@click.option(
    "--protocol",
    type=click.Choice(["nested", "paper", "both"]),
    default="both",
    help="Selected in each training fold, once on all rows, or both: both.",
)
@click.option(
    "--scorer",
    "scorers",
    type=click.Choice(["logistic", "svm", "class_rate"]),
    multiple=True,
    default=("logistic", "svm"),
    help="Who is taught; may be repeated: logistic and svm.",
)
def study_anonymity(
    systems: tuple[str, ...],
    places: tuple[str, ...],
    protocol: Literal["nested", "paper", "both"],
    scorers: tuple[Scorer, ...],
    **asked: Any,
) -> None:
    """Compare k-anonymous tables over K: tables, pictures, verdicts on what was claimed.

    The same command again goes on where it was stopped; other settings add to the folder.
    """
    from dp_pipeline.spec.dataset import parse_k
    from dp_pipeline.studies.k_anonymity import SYSTEMS, AnonymityStudy
    from dp_pipeline.studies.study import named

    _run(
        AnonymityStudy(
            systems=named(systems, SYSTEMS, what="method"),
            partitions=tuple(sorted({parse_k(text) for text in places})),
            protocols=("paper", "nested") if protocol == "both" else (protocol,),
            scorers=tuple(dict.fromkeys(scorers)),
            **_shared(**asked),
        )
    )


def _epsilons(texts: tuple[str, ...]) -> tuple[Fraction, ...]:
    from dp_pipeline.spec.amounts import parse_epsilon

    return tuple(sorted({parse_epsilon(text, of="--epsilon") for text in texts}))


def _shared(datasets: tuple[str, ...], repeats: int, jobs: int, folder: Path) -> dict[str, Any]:
    """What every study is made of."""
    from dp_pipeline.publish.home import find_home
    from dp_pipeline.spec.discovery import find_spec

    return {
        "specs": tuple(find_spec(name) for name in dict.fromkeys(datasets)),
        "repeats": repeats,
        "jobs": jobs,
        "folder": folder,
        "ledger": find_home().ledger,
    }


def _run(request: Study[Any]) -> None:
    from dp_pipeline.spec.errors import PipelineError

    try:
        click.echo(f"report: {request.run()}")
    except KeyboardInterrupt:
        raise PipelineError(
            f"{request.folder}: stopped; the same command goes on from here"
        ) from None
