"""`dp-pipeline webserver`, and what `dp-pipeline ui` becomes: Dagster's own programs, with their own
arguments, but their pages are served behind `WebGuard`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from dp_pipeline.cli.one_line_errors import OneLineErrors
from dp_pipeline.cli.web_guard import WebGuard, declared_origins
from dp_pipeline.orchestration.dagster_home import keep_files_private
from dp_pipeline.schema.errors import DeclarationError, PipelineError

MODULE = "dp_pipeline.cli.guarded_dagster"
_WORDS = {"ignore_unknown_options": True, "help_option_names": []}
_WEBSERVER = [sys.executable, "-m", "dagster_webserver"]
_DAEMON = [sys.executable, "-m", "dagster._daemon"]


@click.group(cls=OneLineErrors)
def main() -> None:
    """Dagster's programs behind a guard."""


@main.command(context_settings=_WORDS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def webserver(words: Sequence[str]) -> None:
    """Serve Dagster's pages, as one of several programs: `dagster-webserver`, with its own
    arguments, for its own pages and no foreign page. `dp-pipeline ui` starts all programs.
    """
    from dagster_webserver import cli

    keep_files_private()
    origins, make = declared_origins(), cli.create_app_from_workspace_process_context

    def guarded(context: Any, path_prefix: str = "", *rest: Any, **named: Any) -> WebGuard:
        if path_prefix:
            # The guard knows the paths that answer with data, from the root.
            raise DeclarationError(f"--path-prefix: expected none, got {path_prefix[:60]!r}")
        return WebGuard(make(context, path_prefix, *rest, **named), origins)

    vars(cli)["create_app_from_workspace_process_context"] = guarded
    cli.cli(list(words), prog_name="dagster-webserver", auto_envvar_prefix="DAGSTER_WEBSERVER")


@main.command(context_settings=_WORDS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def dev(words: Sequence[str]) -> None:
    """What `dagster dev` does: code server, daemon, and the guarded pages."""
    from dagster._cli import dev as dagster_dev

    keep_files_private()
    declared_origins()
    start = dagster_dev.open_ipc_subprocess

    def started(command: Sequence[str], **named: Any) -> Any:
        return start(guarded_command(command), **named)

    vars(dagster_dev)["open_ipc_subprocess"] = started
    dagster_dev.dev_command(list(words), prog_name="dagster dev")


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
    return [sys.executable, "-m", MODULE, "webserver", *words]


if __name__ == "__main__":
    main()
