"""Errors as a shell sees them: one line, one exit code.

Who types a command, as the ledger notes it.
"""

from __future__ import annotations

import getpass
import os
from typing import Any, NoReturn

import click

from dp_pipeline.spec.errors import PipelineError, system_error


class OneLineErrors(click.Group):
    """A group whose commands say what went wrong in one line, with the exit code of its kind."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a PipelineError, or what the operating system refuses, becomes its line
        on stderr.
        """
        try:
            return super().invoke(ctx)
        except PipelineError as error:
            _end(ctx, error)
        except Exception as error:
            refused = system_error(error)
            if refused is None:
                raise
            _end(ctx, refused)


def _end(ctx: click.Context, error: PipelineError) -> NoReturn:
    click.echo(f"dp-pipeline: {' '.join(str(error).split())}", err=True)
    ctx.exit(error.exit_code)


def operator_name() -> str:
    """The user's name; where a user has none, as in some containers, the number."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"user {os.getuid()}"
