"""Options that several commands share, and their completion by a shell.

Completions are names and texts in data set files. Only the YAML reader is imported, nothing is
checked, and neither rows nor ledger are opened: a shell asks at each press of a key. A file that
cannot be read completes to nothing, as a message would land in the middle of the typed line.

With `--json` a command prints one JSON document on stdout and nothing else: a ``format`` number,
exact amounts as texts, ``none`` where there is none. Errors are the same with and without it.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import click

from dp_pipeline.config.errors import PipelineError

FORMAT = 1
"""The format of every document; it grows when a field goes away or changes its meaning."""

NONE = "none"
"""The text of an absent amount, such as a limit."""

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Reader:
    """The reader of a command's output: a person, or a program with `--json`."""

    is_program: bool = False

    def print_output(self, document: Callable[[], Document], page: Callable[[], None]) -> None:
        """Print the document for a program, or the page for a person."""
        if self.is_program:
            fields = {"format": FORMAT, **document()}
            click.echo(json.dumps(fields, indent=1, ensure_ascii=False, allow_nan=False))
        else:
            page()

    def note(self, line: str) -> None:
        """Print a line for a person; print nothing for a program."""
        if not self.is_program:
            click.echo(line)


READER = click.option(
    "--json",
    "reader",
    is_flag=True,
    callback=lambda _context, _parameter, is_program: Reader(is_program),
    help="One JSON document for programs, with amounts as exact texts.",
)

QUIET = click.option("--quiet", is_flag=True, help="Show no progress on stderr.")

_CUSTODIAN = "Name failed checks on sensitive rows even where stderr is no terminal."
CUSTODIAN = click.option("--custodian", is_flag=True, help=_CUSTODIAN)


def amount_text(amount: Fraction | None) -> str:
    """Return an amount as exact text for a program; ``none`` for None."""
    from dp_pipeline.config.amounts import epsilon_text

    return NONE if amount is None else epsilon_text(amount)


def number_or_none(value: float | None) -> float | None:
    """Return a number that JSON can write: None for None and for a number that is not finite."""
    return value if value is not None and math.isfinite(value) else None


Complete = Callable[[click.Context, click.Parameter, str], list[str]]
Command = Callable[..., None]
Decorator = Callable[[Command], Command]


def dataset_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of data sets that begin with the typed text; [] if a folder is unusable."""
    from dp_pipeline.config.catalogue import dataset_files

    try:
        return _starting_with(incomplete, dataset_files())
    except (PipelineError, OSError):
        return []


def _complete_from(*fields: tuple[str, ...]) -> Complete:
    """Return a function that completes names in these sections of the typed data set's file."""

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        names = [name for path in fields for name in _names_in(context, path)]
        return _starting_with(incomplete, names)

    return complete


_METHODS = ("k_anonymity", "methods")
model_names = _complete_from(("models",))
epsilons = _complete_from(("partitions",))
method_names = _complete_from(_METHODS)
ks = _complete_from(("k_anonymity", "partitions"))
release_names = _complete_from(("models",), _METHODS)


def _starting_with(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _names_in(context: click.Context, path: tuple[str, ...]) -> list[str]:
    from dp_pipeline.config.catalogue import dataset_files
    from dp_pipeline.config.yaml_text import Document

    # Before an option without its value click has not yet given arguments their names.
    dataset = context.params.get("dataset") or next(iter(context.args), "")
    try:
        file = dataset_files().get(dataset)
        section: Any = {} if file is None else Document.read(file).texts
    except (PipelineError, OSError):
        return []
    for name in path:
        section = section.get(name) if isinstance(section, dict) else None
    is_many = isinstance(section, list | dict)
    return [name for name in section if isinstance(name, str)] if is_many else []


DATASET = click.argument("dataset", shell_complete=dataset_names)


def filter_option(name: str, word: str, complete: Complete) -> Decorator:
    """Return a decorator that gives a command the option ``--{name}``, which may be repeated, as
    the argument ``{name}s``.

    word       text for the help, after "Only this"
    complete   completion of its value by a shell
    """
    words = f"Only this {word}; may be repeated."
    return click.option(f"--{name}", f"{name}s", multiple=True, shell_complete=complete, help=words)


MODELS = filter_option("model", "model", model_names)
EPSILONS = filter_option("epsilon", "ε", epsilons)
SNAPSHOT = click.option("--snapshot", default="", help="Open a new snapshot under this name.")
_WINDOW = "A time window, or FIRST..LAST; the newest closed one by default."
WINDOW = click.option("--window", "windows", default="", help=_WINDOW)
_REFINE = "Refine the release at this smaller ε, or at the `previous` one, and pay the difference."

_REQUEST_OPTIONS = (
    DATASET,
    MODELS,
    EPSILONS,
    click.option("--new-draw", is_flag=True, help="Draw once more, at the full price."),
    click.option("--refine", default="", help=_REFINE),
    SNAPSHOT,
    WINDOW,
    click.option("--span", type=int, default=0, help="Number of windows of each release."),
)


def request_options(command: Command) -> Command:
    """Return a command with the arguments and options that `run` and `plan` share."""
    for option in reversed(_REQUEST_OPTIONS):
        command = option(command)
    return command
