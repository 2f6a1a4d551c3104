"""Errors as a shell sees them: one line, one exit code."""

from __future__ import annotations

from typing import Any

import click

from dp_pipeline.schema.errors import PipelineError


class OneLineErrors(click.Group):
    """A group whose commands say what went wrong in one line, with the exit code of its kind."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a PipelineError becomes its line on stderr."""
        try:
            return super().invoke(ctx)
        except PipelineError as error:
            click.echo(f"dp-pipeline: {' '.join(str(error).split())}", err=True)
            ctx.exit(error.exit_code)
