"""Errors as a shell sees them: one line, one exit code."""

from __future__ import annotations

from typing import Any, NoReturn

import click

from dp_pipeline.schema.errors import PipelineError
from dp_pipeline.schema.system_errors import system_error


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
