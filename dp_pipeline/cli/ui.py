"""`dp-pipeline ui`: Dagster's pages, for this computer only, protected from pages of other sites.

Dagster runs mutations of any request, so a foreign page that the custodian opens could spend ε.
``web_guard`` decides which requests reach its web server. `dp-pipeline webserver` is Dagster's own
program behind that guard.
"""

import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

import click

from dp_pipeline.config.errors import DeclarationError, PipelineError

_HOST = "127.0.0.1"
_PORTS = click.IntRange(1, 65535)
_ENVIRONMENT = {
    "DAGSTER_DISABLE_TELEMETRY": "1",
    "GX_ANALYTICS_ENABLED": "false",
    # Else a daemon that looks at a backfill while the code server is away ends it, and its runs.
    "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR": "1",
}


@click.command()
@click.option("--port", default=3000, type=_PORTS, help="The port of the pages; by default 3000.")
def ui(port: int) -> None:
    """Open Dagster's pages, for this computer only."""
    from dagster._cli import dev

    from dp_pipeline.cli.web_guard import declared_origins
    from dp_pipeline.orchestration.instance import code_location, dagster_instance
    from dp_pipeline.releases.home import HOME_VARIABLE, find_home

    home = find_home()
    declared_origins()
    # Dagster would silently take another port where this one is in use.
    with socket.socket() as probe:
        # A server that has just ended leaves the port in TIME_WAIT: that is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            reason = f"{error.strerror or type(error).__name__}; name another by --port"
            raise PipelineError(f"The port {port} cannot be used: {reason}") from None
    # The programs start at the same time; none of them has to make the history.
    dagster_instance(home).dispose()
    # Runs are processes of their own, wherever they are started: all find the same home.
    os.environ[HOME_VARIABLE] = str(home.root)
    os.environ.update(_ENVIRONMENT)
    click.echo(f"http://{_HOST}:{port} shows {home.root}; end it with Ctrl-C")
    sys.stdout.flush()
    start = vars(dev)[_STARTS]

    def start_guarded(command: Sequence[str], **options: Any) -> Any:
        return start(guarded_command(command), **options)

    vars(dev)[_STARTS] = start_guarded
    # Programs end by SIGINT, which a shell lets a command in the background ignore.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    words = ["--host", _HOST, "--port", str(port), *code_location()]
    dev.dev_command(words, prog_name="dagster dev")


OURS = [sys.executable, "-m", "dp_pipeline.cli"]
_WEBSERVER = [sys.executable, "-m", "dagster_webserver"]
_DAEMON = [sys.executable, "-m", "dagster._daemon"]

# Dagster takes no middleware: these two names of its modules are replaced. A version without them
# ends here, before it serves anything.
_MAKES_APP = "create_app_from_workspace_process_context"
_STARTS = "open_ipc_subprocess"


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def webserver(words: Sequence[str]) -> None:
    """Serve Dagster's pages alone, closed to foreign pages.

    This is `dagster-webserver` with its own arguments; `dp-pipeline ui` starts all programs.
    """
    from dagster_webserver import cli

    from dp_pipeline.cli.web_guard import WebGuard, declared_origins
    from dp_pipeline.orchestration.instance import keep_files_private

    keep_files_private()
    origins, create_app = declared_origins(), vars(cli)[_MAKES_APP]

    def guarded(context: Any, path_prefix: str = "", *arguments: Any, **options: Any) -> Any:
        if path_prefix:
            # The guard knows the paths that answer with data, from the root.
            raise DeclarationError(
                "--path-prefix or DAGSTER_WEBSERVER_PATH_PREFIX: the pages have no path prefix, so "
                f"{path_prefix[:60]!r} cannot be used: leave it out"
            )
        return WebGuard(create_app(context, path_prefix, *arguments, **options), origins)

    vars(cli)[_MAKES_APP] = guarded
    cli.cli(list(words), prog_name="dagster-webserver", auto_envvar_prefix="DAGSTER_WEBSERVER")


def guarded_command(command: Sequence[str]) -> list[str]:
    """Return a command that `dagster dev` starts: that of the guarded pages in the place of the
    web server's, and that of the daemon unchanged.

    PipelineError for an unknown one: another version of Dagster would serve unguarded pages.
    """
    program, words = list(command[:3]), list(command[3:])
    if program == _DAEMON:
        return [*program, *words]
    if program != _WEBSERVER:
        raise PipelineError(
            "Dagster must start its web server and daemon, but it starts "
            f"{' '.join(program)}: install the version of Dagster that this program was "
            "tested with, which its constraints.txt names"
        )
    return [*OURS, "webserver", *words]
