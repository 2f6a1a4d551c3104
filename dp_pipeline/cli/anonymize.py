"""`dp-pipeline anonymize`: k-anonymous tables, which have no ε, and say so."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.cli.completion import DATASET, ks, method_names
from dp_pipeline.cli.reader import QUIET, READER, Document, Reader
from dp_pipeline.cli.released import print_failed_checks, quality_document
from dp_pipeline.spec.errors import DeclarationError

if TYPE_CHECKING:
    from dp_pipeline.orchestration.runner import OnStep
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
def anonymize(dataset: str, reader: Reader, quiet: bool, **options: Any) -> None:
    """Release DATASET k-anonymously, without any ε.

    By its first method, at every K of public rows. This is not differential privacy. Of
    sensitive rows the K has to be named: two releases tell more than each.
    """
    from dp_pipeline.orchestration.runner import step_count
    from dp_pipeline.reporting.text import progress

    request = anonymize_request(dataset, **options)
    with progress(step_count(request), quiet=quiet) as on_step:
        ran = AnonymizedRun.of(request, on_step)
    reader.answer(ran.document, ran.page)
    print_failed_checks(request.spec, ran.failed_checks)


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

    failed_checks   names of checks on rows that did not pass; for the steward alone
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
        every = outcomes(self.request, ran=self.levels)
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
