"""`dp-pipeline data docs`: Great Expectations' suite and pages of the rows, for the steward."""

from __future__ import annotations

import click


@click.command("docs")
@click.argument("dataset")
def data_docs(dataset: str) -> None:
    """Write Great Expectations' suite and Data Docs of DATASET beside its rows.

    For the steward alone: they say which expectations the rows fulfil. They lie in the folder of
    the current snapshot, which only its owner can enter, and go when its rows are retired.
    Nothing is charged, and nobody is asked over the network.
    """
    from dp_pipeline.ledger.home import find_home
    from dp_pipeline.orchestration.lineage import require_snapshot
    from dp_pipeline.raw.data_docs import INDEX, write_data_docs
    from dp_pipeline.raw.snapshot import preparing
    from dp_pipeline.schema.discovery import find_spec
    from dp_pipeline.schema.errors import NotPrepared

    spec, home = find_spec(dataset), find_home()
    if home.ledger.account(spec.lineage) is None:
        # Looking at rows that are not there must not open an account.
        raise NotPrepared(f"{spec.name}: expected ingested rows, got none: {preparing(spec.name)}")
    folder = write_data_docs(spec, require_snapshot(spec, home))
    click.echo(f"{folder}: written, for the steward alone: it says what the rows are like")
    click.echo(f"open {folder / INDEX}")
