"""What `run` does, `plan` foretells and `data check` looks for: one request for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dp_pipeline.orchestration.request import RunRequest
    from dp_pipeline.schema.spec import DatasetSpec


def request_options(command: Callable[..., None]) -> Callable[..., None]:
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


def requested(
    dataset: str,
    *,
    models: tuple[str, ...] = (),
    epsilons: tuple[str, ...] = (),
    fresh: bool = False,
    snapshot: str = "",
) -> RunRequest:
    """The request that the options make; DeclarationError for what is not declared."""
    from dp_pipeline.raw.snapshot import check_snapshot_id
    from dp_pipeline.schema.discovery import find_spec

    spec = find_spec(dataset)
    request = request_for(spec, models=models, epsilons=epsilons)
    if snapshot:
        check_snapshot_id(snapshot)
    return replace(request, fresh=fresh, snapshot=snapshot)


def request_for(
    spec: DatasetSpec, *, models: tuple[str, ...] = (), epsilons: tuple[str, ...] = ()
) -> RunRequest:
    """What a run of a data set is asked: all that its file declares, or these models and ε of it.
    DeclarationError for what is not declared or cannot be built, and outside of a project.
    """
    from dp_pipeline.ledger.home import find_home, noise_name
    from dp_pipeline.models import build_model
    from dp_pipeline.orchestration.declared_methods import require_methods
    from dp_pipeline.orchestration.request import RunRequest

    require_methods(spec)
    chosen = tuple(dict.fromkeys(models)) or tuple(spec.models)
    for name in chosen:
        build_model(spec, name)
    listed = tuple(sorted({spec.partition(text) for text in epsilons})) or spec.partitions
    return RunRequest(spec, chosen, listed, find_home(), noise_name())
