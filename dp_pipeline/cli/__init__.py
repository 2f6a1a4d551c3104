"""The command `dp-pipeline` with its subcommands in the order of use, and its error handling.

Heavy packages are imported by the command that needs them: ``--help`` and ``budget`` start at once.

An error is one line on stderr. Exit codes: 0 done, 1 failed, 2 wrong use, 3 budget refused.
"""

import atexit
import gc
import getpass
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

import click

from dp_pipeline import __version__
from dp_pipeline.config.errors import DeclarationError, PipelineError, did_you_mean
from dp_pipeline.config.system_errors import system_error


class OrderedGroup(click.Group):
    """A group whose help lists commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)


class OneLineErrors(OrderedGroup):
    """A group of commands whose errors are printed as one line, with an exit code."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options, of which ``--help`` and ``--version`` print at once."""
        with _one_line_errors(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; exit with one line on stderr for an error that a person can act on."""
        with _one_line_errors(ctx):
            return super().invoke(ctx)


@contextmanager
def _one_line_errors(ctx: click.Context) -> Iterator[None]:
    try:
        yield
    except PipelineError as error:
        _end(ctx, error)
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        message, command = error.format_message().rstrip("."), (error.ctx or ctx).command_path
        _end(ctx, DeclarationError(f"{message} (`{command} --help` lists what it takes)"))
    except Exception as error:
        refused = system_error(error)
        if refused is None:
            raise
        _end(ctx, refused)


def _end(ctx: click.Context, error: PipelineError) -> NoReturn:
    click.echo(f"dp-pipeline: {' '.join(str(error).split())}", err=True)
    try:
        sys.stdout.flush()
    except OSError:
        # The end of the process would report the same again.
        sys.stdout = None
    ctx.exit(error.exit_code)


def operator_name() -> str:
    """Return the user's name, or the number of a user without a name, as in some containers."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"user {os.getuid()}"


COMMANDS = {
    "data": "cli.data:data",
    "plan": "cli.plan:plan",
    "rehearse": "cli.run:rehearse",
    "run": "cli.run:run",
    "budget": "cli.budget:budget",
    "export": "cli.export:export",
    "verify": "cli.export:verify",
    "ask": "cli.ask:ask",
    "evidence": "cli.evidence:evidence",
    "anonymize": "cli.run:anonymize",
    "roll-up": "cli.run:roll_up",
    "ui": "cli.ui:ui",
    "backfill": "cli.run:backfill",
    "check": "cli.check:check",
    "webserver": "cli.ui:webserver",
    "demo": "cli.run:demo",
}
"""Command → its module and function, imported when the command is called; in the order of use."""


NEW_OBJECTS = 50_000
"""New objects after which Python's garbage collector runs; by default it runs after 700."""


class Commands(OneLineErrors):
    """The group of all commands, which are imported when they are used."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line, with few garbage collections and without pydantic's plug-ins."""
        gc.set_threshold(NEW_OBJECTS)
        # Else pydantic searches all installed packages for plug-ins, which would be shown every
        # value of a data set file, addresses with passwords too.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        return super().main(*args, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, _, name = COMMANDS.get(cmd_name, "").partition(":")
        if not module:
            if cmd_name.startswith("-") or ctx.resilient_parsing:
                return None
            near = did_you_mean(cmd_name, COMMANDS)
            raise click.UsageError(f"No such command {cmd_name!r}{near}", ctx)
        command: Any = getattr(import_module(f"dp_pipeline.{module}"), name)
        return command  # type: ignore[no-any-return]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dp-pipeline")
def main() -> None:
    """Publish sensitive tables and locations with differential privacy."""


def run_process() -> NoReturn:
    """Run the command line in a process of its own, and end the process.

    The interpreter is not taken down. That would take a fifth of the time of a short command, and
    abort the process where a thread of Arrow still releases memory of Python (apache/arrow 34314).
    """
    if sys.stdout is None:
        # Before any file is opened, which would take the place of the closed stream.
        line = "the standard output must be open, but it is closed: send it to a file or /dev/null"
        click.echo(f"dp-pipeline: {line}", err=True)
        os._exit(1)
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    # What the interpreter does first: it waits for threads, and calls what was left for its end.
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    try:
        for stream in (sys.stdout, sys.stderr):
            # None where a shell has closed it, or where its error is reported.
            if stream is not None:
                stream.flush()
    except OSError as error:
        refused = system_error(error)
        if refused is not None:
            click.echo(f"dp-pipeline: {refused}", err=True)
            code = 1
    os._exit(code if isinstance(code, int) else 0)
