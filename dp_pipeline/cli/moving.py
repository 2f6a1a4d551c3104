"""`dp-pipeline budget move`: from the file of a home to a server."""

from __future__ import annotations

import click


@click.command()
def move() -> None:
    """Move this home's ledger to the server that DP_PIPELINE_LEDGER names: an empty database.

    The rows keep their hashes and the ledger its head. Keys and locks stay in the home.
    """
    from dp_pipeline.ledger.home import find_home
    from dp_pipeline.ledger.moving import move_to_server
    from dp_pipeline.ledger.postgres_store import LEDGER_VARIABLE
    from dp_pipeline.schema.errors import DeclarationError

    home = find_home()
    if home.database is None:
        raise DeclarationError(
            f"{LEDGER_VARIABLE}: expected the address of a server, got nothing: "
            f"`export {LEDGER_VARIABLE}=postgresql://user@host/database`"
        )
    tip = move_to_server(home.ledger_folder, head=home.head, url=home.database)
    click.echo(f"{tip.sequence} rows moved; keep {LEDGER_VARIABLE} set from now on")
