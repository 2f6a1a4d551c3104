"""`dp-pipeline anonymize`: k-anonymous releases, with what they promise and what they do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.spec.errors import DeclarationError

if TYPE_CHECKING:
    from dp_pipeline.publish.request import RunRequest
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
