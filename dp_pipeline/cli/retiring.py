"""`dp-pipeline data retire`: delete the rows of a population; what was released stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dp_pipeline.cli.operator_name import operator_name

if TYPE_CHECKING:
    from dp_pipeline.schema.spec import DatasetSpec


@click.command("retire")
@click.argument("dataset")
@click.option("--yes", is_flag=True, help="Do not ask again.")
def data_retire(dataset: str, yes: bool) -> None:
    """Delete all stored rows of the population of DATASET: every snapshot of every data set of its
    lineage in this home, with all stages and exact numbers.

    Ledger and releases stay, and are replayed as before. A name of a snapshot is never used
    again. The source itself is not touched.
    """
    from datetime import UTC, datetime

    from dp_pipeline.ledger.home import find_home
    from dp_pipeline.raw.retire import name_of, retire, snapshots_of

    home, declared = find_home(), _declared(dataset)
    lineage = declared[dataset].lineage
    together = {name for name, spec in declared.items() if spec.lineage == lineage}
    snapshots = snapshots_of(home.raw, lineage, datasets=together)
    if not snapshots:
        click.echo(f"lineage {lineage}: no rows are stored here")
        return
    names = [name_of(snapshot) for snapshot in snapshots]
    click.echo(f"lineage {lineage}: {', '.join(names)}")
    if not yes:
        click.confirm("Delete these rows for ever?", abort=True)
    # First the row, then the deed: what the ledger does not know has not begun.
    home.ledger.retire(lineage, names, by=operator_name())
    for snapshot in snapshots:
        retire(snapshot, lineage=lineage, on=datetime.now(UTC).date())
    click.echo(f"deleted; releases and ledger stay. `--snapshot NAME` opens a new one of {dataset}")


def _declared(dataset: str) -> dict[str, DatasetSpec]:
    """Every good data set file by its name; DeclarationError where this one is none."""
    from dp_pipeline.schema.discovery import dataset_files, file_of
    from dp_pipeline.schema.errors import DeclarationError
    from dp_pipeline.schema.parser import load_spec

    file_of(dataset)
    declared = {}
    for name, path in dataset_files().items():
        try:
            declared[name] = load_spec(path)
        except DeclarationError:
            # Rows of a lineage are known by their manifests too: a draft of others stops nothing.
            if name == dataset:
                raise
    return declared
