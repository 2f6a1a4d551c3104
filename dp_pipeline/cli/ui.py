"""`dp-pipeline ui`: Dagster's pages, for this computer only, and for no other page."""

from __future__ import annotations

import os
import socket
import sys

import click

_HOST = "127.0.0.1"
_TOLD = {
    "DAGSTER_DISABLE_TELEMETRY": "1",
    "GX_ANALYTICS_ENABLED": "false",
    # Else a daemon that looks at a backfill while the code server is away ends it, and its runs.
    "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR": "1",
}


@click.command()
@click.option("--port", default=3000, type=click.IntRange(1, 65535), help="Of the pages; 3000.")
def ui(port: int) -> None:
    """Open Dagster's pages on this computer: population, runs, schedules, backfills."""
    from dp_pipeline.cli.web_guard import OURS, declared_origins
    from dp_pipeline.orchestration.instance import code_location, dagster_instance
    from dp_pipeline.publish.home import HOME_VARIABLE, find_home

    home = find_home()
    declared_origins()
    _require_free(port)
    # Its programs start at once; none of them has to make the history.
    dagster_instance(home).dispose()
    # Runs are processes of their own, wherever they are started: all find the same home.
    os.environ[HOME_VARIABLE] = str(home.root)
    os.environ.update(_TOLD)
    click.echo(f"http://{_HOST}:{port} shows {home.root}; end it by Ctrl-C")
    sys.stdout.flush()
    words = ["dagster-dev", "--host", _HOST, "--port", str(port), *code_location()]
    os.execv(sys.executable, [*OURS, *words])


def _require_free(port: int) -> None:
    """Dagster itself would take another port, and not say so where it is looked for."""
    from dp_pipeline.spec.errors import PipelineError

    with socket.socket() as probe:
        # A server that has just ended leaves the port in TIME_WAIT: that is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise PipelineError(
                f"port {port}: expected a free one, got: {reason}; name another by --port"
            ) from None
