"""Who reads what a command answers: a person, or with `--json` a program.

A person gets tables and sentences. A program gets one JSON document on stdout and nothing else: a
``format`` number, exact amounts as texts, ``none`` where there is none. What went wrong is the
same line on stderr for both, with the same exit code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import click

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


def amount_text(amount: Fraction | None) -> str:
    """An amount as a program reads it, exactly; ``none`` where there is none, such as a limit."""
    from dp_pipeline.spec.amounts import epsilon_text

    return NONE if amount is None else epsilon_text(amount)


def number_or_none(value: float | None) -> float | None:
    """A number as JSON knows it: what is not finite is none there."""
    return value if value is not None and math.isfinite(value) else None
