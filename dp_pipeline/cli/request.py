"""The words that `run` and `plan` share."""

from __future__ import annotations

from collections.abc import Callable

import click

from dp_pipeline.cli.completion import DATASET, EPSILONS, MODELS

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
        DATASET,
        MODELS,
        EPSILONS,
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
