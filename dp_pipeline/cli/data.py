"""`dp-pipeline data`: list, check, document and retire data sets; `cli/draft.py` drafts them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dp_pipeline.cli import OrderedGroup, operator_name
from dp_pipeline.cli.draft import data_init, data_schema
from dp_pipeline.cli.options import DATASET, READER, Document, Reader
from dp_pipeline.config.errors import DeclarationError, NotPrepared

if TYPE_CHECKING:
    from dp_pipeline.config.dataset import DatasetSpec

_SAMPLE = "Read the source, and count how many of its first N rows parse: for the custodian alone."


@click.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help=_SAMPLE)
@READER
def data_check(file: Path, sample: int | None, reader: Reader) -> None:
    """Check a data set file: its first mistake, or its price.

    Refuses what `plan` and `run` would refuse here: a source that another population holds, an
    account that was opened otherwise, a budget that is too small. Warns of a source that is not
    there, of a folder that no other command looks into, and where there is no project. Reads no
    rows but with --sample.
    """
    from dp_pipeline.cli import declaration_check
    from dp_pipeline.config.parser import load_spec
    from dp_pipeline.config.yaml_text import Document as Lines

    if sample is not None:
        if reader.is_program:
            raise DeclarationError(
                "--sample: exact numbers must not be stored, so --json cannot be used with it: "
                "leave one of them out"
            )
        if not is_terminal():
            raise DeclarationError(
                "data check: exact numbers must not be stored, so --sample writes to a terminal "
                "alone: do not redirect it to a file or a pipe"
            )
    spec = load_spec(file)
    declaration_check.require_buildable(spec, Lines.read(file))
    declaration_check.require_runnable(spec, file)
    lines = declaration_check.find_warnings(spec, file)
    reader.print_output(
        lambda: declaration_check.check_document(spec, file, lines),
        lambda: declaration_check.print_check(spec, file, lines),
    )
    if sample is not None:
        declaration_check.print_sample(spec, sample)


def is_terminal() -> bool:
    return sys.stdout.isatty()


@click.command("retire")
@DATASET
@click.option("--yes", is_flag=True, help="Do not ask again.")
def data_retire(dataset: str, yes: bool) -> None:
    """Delete all stored rows of the population of DATASET.

    Every snapshot of every data set of the population in this home goes, with all stages and exact
    numbers.
    Ledger and releases stay, and are replayed as before. A name of a snapshot is never used
    again. The source itself is not touched.
    """
    from datetime import UTC, datetime

    from dp_pipeline.config.catalogue import file_of, load_all
    from dp_pipeline.raw.retirement import retire, snapshots_of
    from dp_pipeline.releases.home import find_home

    home = find_home()
    file_of(dataset)
    # Rows of a population are known by their manifests too: a draft stops nothing.
    declared, refused = load_all()
    if dataset in refused:
        raise DeclarationError(refused[dataset])
    population = declared[dataset].population
    together = {name for name, spec in declared.items() if spec.population == population}
    snapshots = snapshots_of(home.raw, population, datasets=together)
    if not snapshots:
        click.echo(f"population {population}: no rows are stored here")
        return
    names = [snapshot.ledger_name for snapshot in snapshots]
    click.echo(f"population {population}: {', '.join(names)}")
    if not yes:
        click.confirm("Delete these rows for ever?", abort=True)
    # The ledger records it first: a deletion that it does not know has not begun.
    home.ledger.retire(population, names, by=operator_name())
    for snapshot in snapshots:
        retire(snapshot, population=population, on=datetime.now(UTC).date())
    words = "deleted; releases and ledger stay. `--snapshot NAME` reads a new snapshot of"
    click.echo(f"{words} {dataset}")


@click.command("docs")
@DATASET
@click.option("--window", default="", help="The time window, where there are windows.")
def data_docs(dataset: str, window: str) -> None:
    """Write Great Expectations' pages about the rows of a data set.

    For the data custodian alone: they show which expectations the rows fulfil. They lie in the
    folder of the current snapshot, which only its owner can enter, and go when its rows are
    retired. Nothing is charged, and nobody is asked over the network.
    """
    from dp_pipeline.config.catalogue import find_spec
    from dp_pipeline.raw.data_docs import INDEX, write_data_docs
    from dp_pipeline.raw.snapshot import preparation_hint
    from dp_pipeline.releases.account import require_snapshot
    from dp_pipeline.releases.home import find_home

    spec, home = find_spec(dataset), find_home()
    spec = spec.at_window(window) if window else spec
    spec.require_window()
    if home.ledger.account(spec.population) is None:
        # Looking at rows that are not there must not open an account.
        raise NotPrepared(
            f"{spec.name}: no rows are ingested yet: {preparation_hint(spec.name, window)}"
        )
    folder = write_data_docs(spec, require_snapshot(spec, home))
    click.echo(f"{folder}: written, for the custodian alone: it describes the rows")
    click.echo(f"open {folder / INDEX}")


@click.group(cls=OrderedGroup)
def data() -> None:
    """Draft, check, list and retire data sets."""


@click.command("list")
@READER
def data_list(reader: Reader) -> None:
    """List the data sets, your own before the built-in ones."""
    from dp_pipeline.config.catalogue import load_all

    declared, refused = load_all()
    specs, refusals = [*declared.values()], [*refused.values()]
    reader.print_output(
        lambda: {"datasets": [_dataset_document(spec) for spec in specs], "refused": refusals},
        lambda: _print_list(specs, refusals),
    )


def _dataset_document(spec: DatasetSpec) -> Document:
    return {
        "name": spec.name,
        "title": spec.title,
        "population": spec.population,
        "purpose": spec.purpose,
        "protected_unit": str(spec.protection),
        "models": list(spec.models),
        "epsilons": list(spec.partition_keys),
        "k_anonymous_methods": list(spec.k_anonymity.methods) if spec.k_anonymity else [],
        "available": _availability(spec),
    }


def _print_list(specs: Sequence[DatasetSpec], refusals: Sequence[str]) -> None:
    from dp_pipeline.reporting.text import print_table

    rows = []
    for spec in specs:
        names = list(spec.models)
        models = " ".join(names) if len(names) < 3 else f"{names[0]} + {len(names) - 1}"
        rows.append([spec.name, spec.purpose, str(spec.protection), models, _availability(spec)])
    print_table("Data sets", ["name", "purpose", "protected unit", "models", "available"], rows)
    anonymous = [spec.name for spec in specs if spec.k_anonymity is not None]
    click.echo(f"also released k-anonymous by `anonymize`, without ε: {', '.join(anonymous)}")
    for refusal in refusals:
        click.echo(f"invalid declaration: {refusal}")


def _availability(spec: DatasetSpec) -> str:
    """Return ``needs NAME`` for a variable that is not set; ``by download`` for URLs, and for an
    absent file with a download; else ``yes``, which does not mean that a file exists."""
    from dp_pipeline.config.catalogue import is_available

    if not is_available(spec):
        return f"needs {spec.source.needs}"
    is_absent = not all(Path(location).exists() for location in spec.source.locations)
    is_downloaded = spec.source.is_remote or (spec.source.download and is_absent)
    return "by download" if is_downloaded else "yes"


for command in (data_init, data_check, data_list, data_docs, data_retire, data_schema):
    data.add_command(command)
