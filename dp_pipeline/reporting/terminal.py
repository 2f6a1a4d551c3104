"""What a person sees in a terminal: tables on stdout, progress on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from dp_pipeline.reporting.number_text import NO_NUMBER

_WIDTH_OF_A_FILE = 132


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout; where that is no terminal, as wide as it needs to be."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        numeric = bool(rows) and all(_is_number(row[columns.index(column)]) for row in rows)
        justify: Literal["left", "right"] = "right" if numeric else "left"
        # A number that is cut in two lines is hard to read; words may be.
        table.add_column(column, justify=justify, overflow="fold", no_wrap=numeric)
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    console.print(title, table, sep="\n")


def _is_number(text: str) -> bool:
    """Whether a cell is a number as ``reporting.number_text`` writes it, or stands for none."""
    value = text.partition(" ± ")[0].partition("×")[0]
    try:
        float(value.lstrip("(").replace(",", ""))
    except ValueError:
        return text in ("", "–", NO_NUMBER)
    return True


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on stderr that is told each step before it starts; nothing where stderr is
    no terminal.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        steps = [0]

        def on_step(name: str) -> None:
            bar.update(task, description=name, completed=steps[0])
            steps[0] += 1

        yield on_step
