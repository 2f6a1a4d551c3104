"""Options that several commands share, and what a shell completes after them: names of data sets,
their models and methods, their ε and K.

All of that stands in the names and texts of data set files. No declaration is checked, nothing is
imported for it but the reader of YAML, and neither rows nor ledger are opened: a shell asks at each
press of a key. What cannot be read completes to nothing, as a message would land in the middle of
somebody's line.

Who reads what a command answers: a person, or with `--json` a program.

A person gets tables and sentences. A program gets one JSON document on stdout and nothing else: a
``format`` number, exact amounts as texts, ``none`` where there is none. What went wrong is the
same line on stderr for both, with the same exit code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import click

from dp_pipeline.config.errors import PipelineError

FORMAT = 1
"""Of every document; it grows when a field goes away or means something else."""

NONE = "none"
"""Of an amount that there is not, such as a limit."""

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Reader:
    """Whoever called the command."""

    is_program: bool = False

    def answer(self, document: Callable[[], Document], page: Callable[[], None]) -> None:
        """Print the one document, or what a person sees; the other one is not even made."""
        if self.is_program:
            told = {"format": FORMAT, **document()}
            click.echo(json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False))
        else:
            page()

    def note(self, line: str) -> None:
        """A sentence for a person, after the answer."""
        if not self.is_program:
            click.echo(line)


def _reader(_: click.Context, __: click.Parameter, as_json: bool) -> Reader:
    return Reader(is_program=as_json)


READER = click.option(
    "--json",
    "reader",
    is_flag=True,
    callback=_reader,
    help="One JSON document for programs, with amounts as exact texts.",
)

QUIET = click.option("--quiet", is_flag=True, help="Show no progress on stderr.")

CUSTODIAN = click.option(
    "--custodian",
    is_flag=True,
    help="Name failed checks on sensitive rows even where stderr is no terminal.",
)


def amount_text(amount: Fraction | None) -> str:
    """An amount as a program reads it, exactly; ``none`` where there is none, such as a limit."""
    from dp_pipeline.config.amounts import epsilon_text

    return NONE if amount is None else epsilon_text(amount)


def number_or_none(value: float | None) -> float | None:
    """A number as JSON knows it: what is not finite is none there."""
    return value if value is not None and math.isfinite(value) else None


def dataset_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Declared data sets."""
    from dp_pipeline.config.catalogue import dataset_files

    try:
        return _beginning(dataset_files(), incomplete)
    except (PipelineError, OSError):
        return []


def model_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Models of the data set that stands before."""
    return _beginning(_field(context, "models"), incomplete)


def epsilons(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The ε that it declares."""
    return _beginning(_field(context, "partitions"), incomplete)


def method_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Methods of its k-anonymous tables."""
    return _beginning(_field(context, "k_anonymity", "methods"), incomplete)


def ks(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The K that it declares."""
    return _beginning(_field(context, "k_anonymity", "partitions"), incomplete)


def releasing_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Models and methods: whatever may be handed out."""
    every = [*_field(context, "models"), *_field(context, "k_anonymity", "methods")]
    return _beginning(every, incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _field(context: click.Context, *path: str) -> list[str]:
    """Texts, or names, of one field of the file of the data set; none where there are none."""
    from dp_pipeline.config.catalogue import dataset_files
    from dp_pipeline.config.yaml_text import Document

    try:
        file = dataset_files().get(_dataset(context))
        found: Any = {} if file is None else Document.read(file).texts
    except (PipelineError, OSError):
        return []
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    is_many = isinstance(found, list | dict)
    return [one for one in found if isinstance(one, str)] if is_many else []


def _dataset(context: click.Context) -> str:
    """The data set that was typed. Before an option without its value click has not yet given
    arguments their names.
    """
    named: str | None = context.params.get("dataset")
    return named or next(iter(context.args), "")


DATASET = click.argument("dataset", shell_complete=dataset_names)

MODELS = click.option(
    "--model",
    "models",
    multiple=True,
    shell_complete=model_names,
    help="Only this model; may be repeated.",
)

EPSILONS = click.option(
    "--epsilon",
    "epsilons",
    multiple=True,
    shell_complete=epsilons,
    help="Only this ε; may be repeated.",
)


WINDOW = click.option(
    "--window",
    "--windows",
    "windows",
    default="",
    help="Of rows that are cut into windows: one, or FIRST..LAST; the newest that is over if none.",
)


def request_options(command: Callable[..., None]) -> Callable[..., None]:
    """What `run` does and `plan` foretells: the same words for both."""
    options = (
        DATASET,
        MODELS,
        EPSILONS,
        click.option("--new-draw", is_flag=True, help="Draw once more, at the full price."),
        click.option(
            "--refine",
            default="",
            help="Refine the release at this smaller ε, or at the `previous` one, and pay what is "
            "between the two.",
        ),
        click.option("--snapshot", default="", help="Open a new snapshot under this name."),
        WINDOW,
        click.option(
            "--span", type=int, default=0, help="Release so many windows together, up to each."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
