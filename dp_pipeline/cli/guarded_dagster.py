"""`dp-pipeline webserver`, and what `dp-pipeline ui` becomes: Dagster's own programs, with their
own arguments, but their pages are served behind `WebGuard`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from dp_pipeline.cli.web_guard import WebGuard, declared_origins
from dp_pipeline.orchestration.dagster_home import keep_files_private
from dp_pipeline.schema.errors import DeclarationError, PipelineError

OURS = [sys.executable, "-m", "dp_pipeline.cli"]
_WORDS = {"ignore_unknown_options": True, "help_option_names": []}
_WEBSERVER = [sys.executable, "-m", "dagster_webserver"]
_DAEMON = [sys.executable, "-m", "dagster._daemon"]

# Dagster has no door for a middleware: these two names of its modules are put in the place of.
# A version that has none of them ends here, before it serves anything.
_MAKES_APP = "create_app_from_workspace_process_context"
_STARTS = "open_ipc_subprocess"


@click.command(context_settings=_WORDS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def webserver(words: Sequence[str]) -> None:
    """Serve Dagster's pages, as one of several programs: `dagster-webserver`, with its own
    arguments, for its own pages and no foreign page. `dp-pipeline ui` starts all programs.
    """
    from dagster_webserver import cli

    keep_files_private()
    origins, make = declared_origins(), vars(cli)[_MAKES_APP]

    def guarded(context: Any, path_prefix: str = "", *rest: Any, **named: Any) -> WebGuard:
        if path_prefix:
            # The guard knows the paths that answer with data, from the root.
            raise DeclarationError(f"--path-prefix: expected none, got {path_prefix[:60]!r}")
        return WebGuard(make(context, path_prefix, *rest, **named), origins)

    vars(cli)[_MAKES_APP] = guarded
    cli.cli(list(words), prog_name="dagster-webserver", auto_envvar_prefix="DAGSTER_WEBSERVER")


@click.command("dagster-dev", context_settings=_WORDS, hidden=True)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def dagster_dev(words: Sequence[str]) -> None:
    """What `dagster dev` does: code server, daemon, and the guarded pages."""
    from dagster._cli import dev

    keep_files_private()
    declared_origins()
    start = vars(dev)[_STARTS]

    def started(command: Sequence[str], **named: Any) -> Any:
        return start(guarded_command(command), **named)

    vars(dev)[_STARTS] = started
    dev.dev_command(list(words), prog_name="dagster dev")


def guarded_command(command: Sequence[str]) -> list[str]:
    """A command that `dagster dev` starts, with the guard before the pages.

    Raises PipelineError for any that is not known: another version of Dagster would else serve
    pages that nobody guards.
    """
    program, words = list(command[:3]), list(command[3:])
    if program == _DAEMON:
        return [*program, *words]
    if program != _WEBSERVER:
        raise PipelineError(
            f"dagster: expected to start its web server and its daemon, got {' '.join(program)}: "
            "install the version of constraints.txt"
        )
    return [*OURS, "webserver", *words]
