"""`dp-pipeline data`: data sets and their files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dp_pipeline.cli.checking import data_check
from dp_pipeline.cli.documenting import data_docs
from dp_pipeline.cli.drafting import data_init, data_schema
from dp_pipeline.cli.retiring import data_retire

if TYPE_CHECKING:
    from dp_pipeline.schema.spec import DatasetSpec


@click.group()
def data() -> None:
    """Data sets: list them, draft a file, check it, document and retire rows."""


@data.command("list")
def data_list() -> None:
    """List the data sets that can be run here, and those that need something."""
    from dp_pipeline.reporting.terminal import print_table

    specs, refusals = _loaded()
    rows = [
        [
            spec.name,
            spec.purpose,
            str(spec.protection),
            _first_of(tuple(spec.models)),
            _availability(spec),
        ]
        for spec in specs
    ]
    print_table("Data sets", ["name", "purpose", "protected unit", "models", "available"], rows)
    anonymous = [spec.name for spec in specs if spec.k_anonymity is not None]
    click.echo(f"k-anonymous too, by `anonymize`, without any ε: {', '.join(anonymous)}")
    for refusal in refusals:
        click.echo(f"not a good declaration yet: {refusal}")


def _loaded() -> tuple[list[DatasetSpec], list[str]]:
    """Every declared data set, and one line for each file that is none: a draft is no reason to
    hide the others.
    """
    from dp_pipeline.schema.discovery import dataset_files
    from dp_pipeline.schema.errors import DeclarationError
    from dp_pipeline.schema.parser import load_spec

    specs, refusals = [], []
    for path in dataset_files().values():
        try:
            specs.append(load_spec(path))
        except DeclarationError as error:
            refusals.append(str(error))
    return specs, refusals


def _availability(spec: DatasetSpec) -> str:
    """Whether the source is at hand; nothing of it is opened."""
    from dp_pipeline.schema.discovery import is_available

    if not is_available(spec):
        return f"needs {spec.source.needs}"
    absent = spec.source.download and not all(Path(one).exists() for one in spec.source.locations)
    return "by download" if absent or spec.source.is_remote else "yes"


def _first_of(names: tuple[str, ...]) -> str:
    """One or two names; of more the first, and how many others there are."""
    return " ".join(names) if len(names) < 3 else f"{names[0]} + {len(names) - 1}"


for command in (data_init, data_check, data_schema, data_docs, data_retire):
    data.add_command(command)
